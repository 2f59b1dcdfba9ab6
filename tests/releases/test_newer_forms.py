"""Forms of a later release are refused with one line wherever they are read, and left alone."""

import json
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask, aws
from lamplighter.errors import NewerFormError, RejectedError
from lamplighter.events.message import read_events
from lamplighter.registry.pushes import announcement_key, read_announcement
from lamplighter.store.models import Catalog, DagVersions
from lamplighter_cli.doctor_checks import _versions
from lamplighter_job.context import context_from
from lamplighter_job.errors import ContextError
from lamplighter_local.emr.fake_emr import Outcome
from tests.tools.checked_deployment import LocalDeployment

NOON = datetime(2026, 1, 5, 12)


def hourly() -> DAG:
    """Return a DAG that is due an hour after noon."""
    with DAG("hourly", schedule="0 * * * *", start_date=NOON) as dag:
        SparkTask("work", job="jobs.a:b")
    return dag


def test_run_of_a_newer_document_waits_for_the_upgrade() -> None:
    """Nothing of the run is decided by code that cannot read it; newer code finishes it."""
    with LocalDeployment([hourly()], at=NOON) as lamp, lamp.in_own_runtime():
        (version,) = DagVersions.query("hourly")
        document = json.loads(version.document)
        version.update([DagVersions.document.set(json.dumps({**document, "schema": 99}))])
        lamp.advance(minutes=70)
        assert [run.state for run in lamp.runs("hourly")] == ["queued"]
        finding = _versions()
        assert "the document of DAG 'hourly' has version 99, and this release reads" in finding.text

        version.update([DagVersions.document.set(json.dumps(document))])
        lamp.advance(minutes=40)
        assert [run.state for run in lamp.runs("hourly")] == ["success"]
        assert lamp.dead_letters() == []
        lamp.check_invariants()


def test_push_announced_in_a_newer_form_waits_for_the_upgrade() -> None:
    """It is no import error, and registered as soon as its announcement can be read."""
    with LocalDeployment([hourly()], at=NOON) as lamp, lamp.in_own_runtime():
        bucket, key = lamp.stack.settings.bucket, announcement_key("objects", 1)
        client = aws.client("s3")
        said = json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        client.put_object(Bucket=bucket, Key=key, Body=json.dumps({**said, "format": 2}).encode())
        expected = "push 1 of bundle 'objects' has version 2, and this release reads 1: upgrade"
        with pytest.raises(NewerFormError, match=expected):
            read_announcement(bucket, key)
        lamp.run_until_idle()
        assert list(Catalog.query("problems#objects")) == []
        assert lamp.dead_letters() == []

        client.put_object(Bucket=bucket, Key=key, Body=json.dumps(said).encode())
        lamp.advance(minutes=5)
        lamp.check_invariants()


def test_announcement_of_the_first_form_has_no_number() -> None:
    """Those that were put before there was one are read."""
    with LocalDeployment([hourly()], at=NOON) as lamp, lamp.in_own_runtime():
        bucket, key = lamp.stack.settings.bucket, announcement_key("objects", 1)
        push = read_announcement(bucket, key)
        body = json.dumps({"version": push.version}).encode()
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
        assert read_announcement(bucket, key) == push


@pytest.mark.parametrize("version", [2, 0, "1", True, None])
def test_event_of_another_version_is_rejected(version: Any) -> None:
    """Its producer is told which version is read, and can send it again."""
    body = json.dumps({"asset": "orders", "version": version})
    with pytest.raises(RejectedError, match="this deployment reads events of version 1"):
        read_events(body, first_id="x")


def test_event_may_say_its_version() -> None:
    """A producer that says the present one sends the same event as one that says none."""
    said = read_events('{"asset": "orders", "version": 1}', first_id="x")
    assert said == read_events('{"asset": "orders"}', first_id="x")


def test_newer_report_leaves_a_line_on_its_step() -> None:
    """The step ends as its job did, without facts that nobody here understands."""
    with LocalDeployment([hourly()], at=NOON) as lamp:
        newer = Outcome(report={"version": 2, "state": "skipped", "outputs": {"rows": 1}})
        assert lamp.stack.execution is not None
        lamp.stack.execution.fakes["spark"].next_outcome("hourly", "work", newer)
        lamp.advance(minutes=70)
        (run,) = lamp.runs("hourly")
        step = run.step("work")
        assert (run.state, step.state) == ("success", "success")
        assert "report has version 2, and this release reads 1: upgrade" in (step.error or "")


def test_newer_context_is_refused_by_the_runner() -> None:
    """It names both versions, and what to do."""
    with pytest.raises(ContextError, match="has version 2 and this runner reads 1"):
        context_from({"version": 2})
