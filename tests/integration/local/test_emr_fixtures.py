"""The fake EMR Serverless, held against what AWS answered when it was recorded."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter import DAG, SparkTask, aws
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.account.recording import answers_about, differences, scrubbed
from tests.account.stage import FIXTURES

_RECORDED = sorted(FIXTURES.glob("*.json"))
_ACCOUNT = "000000000000"


def _answers_of_the_fake() -> dict[str, Any]:
    """Return what the fake answers where AWS was recorded."""
    with DAG("count", schedule=None) as dag:
        SparkTask("count", job="jobs.hello:count")
    emr = FakeEmr()
    with LocalDeployment([dag], at="2026-01-01T00:00:00Z", executor=emr) as lamp:
        lamp.trigger("count")
        lamp.advance(minutes=5)
        (job,) = emr.jobs
        client = aws.client("emr-serverless")
        found = client.get_job_run(applicationId=emr.application_id, jobRunId=job.job_run_id)
        told: list[str] = []

        def wait_until_over(_state: Callable[[], str]) -> None:
            for _ in range(10):
                lamp.stack.clock.move(to=lamp.now.add(seconds=1))
                told.extend(emr.take_events())

        answers = dict(answers_about(client, found["jobRun"], wait_until_over=wait_until_over))
        answers["events"] = [json.loads(each) for each in told]
        return {name: scrubbed(each, account=_ACCOUNT) for name, each in answers.items()}


@pytest.mark.skipif(not _RECORDED, reason="nothing was recorded yet: run `make account-smoke`")
@pytest.mark.parametrize("path", _RECORDED, ids=lambda path: path.stem)
def test_fake_answers_as_aws_did(path: Path) -> None:
    """The fake's answers have everything that AWS's had, with values of the same kinds."""
    assert differences(json.loads(path.read_text()), _answers_of_the_fake()[path.stem]) == []


def test_recording_tells_what_the_fake_lacks() -> None:
    """An answer differs from another by what is missing in it and by kinds of values."""
    answers = _answers_of_the_fake()
    assert answers["start_job_run"] == answers["start_job_run_same_token"]
    assert answers["get_job_run_cancelled"]["jobRun"]["state"] == "CANCELLED"
    assert answers["get_job_run_unknown"]["Error"]["Code"] == "ResourceNotFoundException"
    assert {event["detail"]["state"] for event in answers["events"]} >= {"CANCELLED"}

    recorded = answers["get_job_run_success"]
    assert differences(recorded, recorded) == []
    other = {"jobRun": {**recorded["jobRun"], "attempt": "1"}}
    del other["jobRun"]["arn"]
    assert differences(recorded, other) == [
        ".jobRun.arn is missing",
        ".jobRun.attempt is str, not a number",
    ]


def test_recording_does_not_tell_whose_account_it_was() -> None:
    """Account, person and request are replaced or left out, wherever they stand."""
    answer = {
        "arn": "arn:aws:emr-serverless:us-east-1:987654321098:/applications/00a",
        "createdBy": "arn:aws:iam::987654321098:user/jane.doe",
        "tags": [{"bucket": "s3://lamplighter-987654321098/x"}],
        "ResponseMetadata": {"RequestId": "1234"},
    }
    text = json.dumps(scrubbed(answer, account="987654321098"))
    assert "987654321098" not in text
    assert "jane" not in text
    assert "1234" not in text
