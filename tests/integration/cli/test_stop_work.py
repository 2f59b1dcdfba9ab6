"""A deployment that is stopped before it is deleted, while jobs of it are live."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError

from lamplighter import aws, clock
from lamplighter.errors import RefusedError
from lamplighter_cli.stop_work import stop_application, stop_scheduling


def _error(code: str, operation: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, operation)


class Emr:
    """An application with jobs; it stops only when none of them is live, as on AWS."""

    def __init__(self, **jobs: str) -> None:
        self.jobs, self.state, self.cancelled = jobs, "STARTED", list[str]()
        # What a function that was under way still submits.
        self.late: dict[str, str] = {}
        self.stubborn = False

    def get_application(self, **_: Any) -> Any:
        if self.state == "STOPPING":
            self.state = "STOPPED"
        return {"application": {"state": self.state}}

    def get_paginator(self, name: str) -> Any:
        assert name == "list_job_runs"
        return self

    def paginate(self, *, states: list[str], **_: Any) -> Any:
        live = [{"id": job, "state": state} for job, state in self.jobs.items() if state in states]
        for job in live:
            if job["state"] == "CANCELLING" and not self.stubborn:
                self.jobs[job["id"]] = "CANCELLED"
        return [{"jobRuns": live[:1]}, {"jobRuns": live[1:]}]

    def cancel_job_run(self, **arguments: Any) -> None:
        job = arguments["jobRunId"]
        if job == "ended":
            self.jobs[job] = "SUCCESS"
            raise _error("ValidationException", "CancelJobRun")
        self.cancelled.append(job)
        self.jobs[job] = "CANCELLING"

    def stop_application(self, **_: Any) -> None:
        self.jobs |= self.late
        self.late = {}
        if any(state not in {"SUCCESS", "CANCELLED"} for state in self.jobs.values()):
            raise _error("ValidationException", "StopApplication")
        self.state = "STOPPING"


@pytest.fixture(name="waits")
def record_waits() -> Iterator[list[float]]:
    """Return what was waited; no time passes."""
    waits: list[float] = []
    with patch.object(clock, "sleep", waits.append):
        yield waits


def _stop(emr: Emr) -> list[str]:
    said: list[str] = []
    with patch.object(aws, "client", lambda _: emr):
        stop_application("00app", said.append)
    return said


def test_live_jobs_are_cancelled_and_ended_ones_left_alone(waits: list[float]) -> None:
    """One call a second; a job that ends by itself meanwhile is no error."""
    emr = Emr(one="RUNNING", two="QUEUED", three="SUCCESS", ended="RUNNING", four="CANCELLING")
    said = _stop(emr)

    assert emr.cancelled == ["one", "two"]
    assert waits.count(1) == 3
    assert emr.state == "STOPPED"
    assert said[0] == "application 00app is started, live jobs: 4"
    assert len(said) == len(set(said))


@pytest.mark.usefixtures("waits")
def test_job_that_was_still_submitted_is_cancelled_too() -> None:
    """A function may be under way when its trigger is disabled."""
    emr = Emr()
    emr.late = {"late": "SUBMITTED"}
    _stop(emr)

    assert (emr.cancelled, emr.state) == (["late"], "STOPPED")


def test_waiting_has_an_end(waits: list[float]) -> None:
    """One line says what is in the way."""
    emr = Emr(one="RUNNING")
    emr.stubborn = True
    with pytest.raises(RefusedError, match=r"00app has not stopped in 10 minutes \(started, live"):
        _stop(emr)
    assert sum(waits) <= 610


@pytest.mark.parametrize("state", ["CREATED", "STOPPED", "TERMINATED"])
def test_application_that_is_stopped_is_left_alone(state: str) -> None:
    """So the command can be repeated."""
    emr = Emr()
    emr.state = state

    assert _stop(emr) == []


@pytest.mark.usefixtures("waits")
def test_right_that_is_missing_is_told() -> None:
    """It will not come by waiting."""
    emr = Emr()
    refused = _error("AccessDeniedException", "StopApplication")
    with (
        patch.object(emr, "stop_application", side_effect=refused),
        pytest.raises(ClientError, match="AccessDenied"),
    ):
        _stop(emr)


class Triggers:
    """Rules and mappings; a mapping that is being disabled cannot be changed for a while."""

    def __init__(self, *busy: str) -> None:
        self.busy, self.disabled = list(busy), list[dict[str, Any]]()

    def disable_rule(self, **arguments: Any) -> None:
        self.disabled.append(arguments)

    def update_event_source_mapping(self, **arguments: Any) -> None:
        if self.busy:
            raise _error(self.busy.pop(), "UpdateEventSourceMapping")
        self.disabled.append(arguments)


def test_triggers_are_disabled_also_if_one_is_busy(waits: list[float]) -> None:
    """A bus of its own is part of the name of a rule."""
    triggers = Triggers("ResourceInUseException")
    with patch.object(aws, "client", lambda _: triggers):
        stop_scheduling(["tick", "bus|other"], ["mapping"])

    assert triggers.disabled == [
        {"Name": "tick"},
        {"Name": "other", "EventBusName": "bus"},
        {"UUID": "mapping", "Enabled": False},
    ]
    assert waits == [5]


@pytest.mark.usefixtures("waits")
def test_trigger_that_stays_busy_is_one_line() -> None:
    """It names the mapping."""
    triggers = Triggers(*["ResourceInUseException"] * 1_000)
    with (
        patch.object(aws, "client", lambda _: triggers),
        pytest.raises(RefusedError, match="event source mapping m1 is being changed"),
    ):
        stop_scheduling([], ["m1"])
