"""What `make account-smoke` records: in the form that the fake is held against, and of nobody."""

import json
from collections.abc import Callable
from pathlib import Path

from lamplighter import DAG, SparkTask, aws
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.account.recording import answers_about, scrubbed, write_recording
from tests.tools.recorded_emr import Recording

_ACCOUNT = "000000000000"


def test_recording_has_the_form_that_the_fake_is_held_against(tmp_path: Path) -> None:
    """What is recorded can be read as a recording: here the account is the fake itself."""
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

        answers = list(answers_about(client, found["jobRun"], wait_until_over=wait_until_over))
    events = [json.loads(each) for each in told]
    write_recording(tmp_path / "recorded.json", answers, events, account=_ACCOUNT)
    recording = Recording.load(tmp_path / "recorded.json")
    states = [each["answer"].get("jobRun", {}).get("state") for each in recording.answers]
    operations = [each["operation"] for each in recording.answers]
    assert list(zip(operations, states, strict=True)) == [
        ("GetJobRun", "SUCCESS"),
        ("StartJobRun", None),
        ("GetJobRun", "SUBMITTED"),
        ("CancelJobRun", None),
        ("GetJobRun", "CANCELLED"),
        ("ListJobRuns", None),
    ]
    assert {event["detail"]["state"] for event in recording.events} >= {"CANCELLED"}


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
