"""Answers and events recorded on a real EMR Serverless, beside what the fake says in their place.

A recording is a JSON file: `answers`, each with its `operation` and the `answer` as the AWS CLI
prints it (`aws emr-serverless get-job-run …`), and `events` as EventBridge delivers them. Account
numbers and names may be replaced; keys and types must not.

Owns: what counts as the same shape. Texts, numbers and instants may differ, keys and types may not.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from lamplighter import clock
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.movable_clock import MovableClock

_ROLE = "arn:aws:iam::123456789012:role/jobs"
_SENT = ("name", "tags", "configurationOverrides", "executionTimeoutMinutes", "mode", "retryPolicy")
# Of an application that is not ours to configure here.
_OPTIONAL = frozenset(
    {"networkConfiguration", "workerTypeSpecifications", "imageConfiguration", "initialCapacity"}
)


@dataclass(frozen=True)
class Recording:
    """What was recorded in one file."""

    answers: tuple[Mapping[str, Any], ...]
    events: tuple[Mapping[str, Any], ...]

    @classmethod
    def load(cls, path: Path) -> "Recording":
        """Return what a file holds."""
        read = json.loads(path.read_text(encoding="utf-8"))
        return cls(tuple(read.get("answers", ())), tuple(read.get("events", ())))


def differences(recording: Recording, movable: MovableClock) -> Iterator[str]:
    """Yield a sentence for everything in which the fake differs from a recording."""
    for recorded in recording.answers:
        operation, real = recorded["operation"], recorded["answer"]
        ours = _answer_of_fake(operation, real, movable)
        yield from (f"{operation}: {text}" for text in _different(real, ours))
    for event in recording.events:
        kind = event["detail-type"]
        yield from (f"{kind}: {text}" for text in _different_events(event, movable))


def _answer_of_fake(operation: str, real: Mapping[str, Any], movable: MovableClock) -> Any:
    """Return the fake's answer about a job, or an application, that is as the real one was."""
    summaries = real.get("jobRuns") or [{}]
    like = real.get("jobRun") or summaries[0]
    emr = _fake_with_a_job(like, movable)
    which = {"applicationId": emr.application_id, "jobRunId": emr.jobs[0].job_run_id}
    if operation == "StartJobRun":
        return emr.call(operation, _request(like, token="again"))  # noqa: S106 - not a secret
    if operation in {"ListJobRuns", "GetApplication"}:
        del which["jobRunId"]
    return emr.call(operation, which)


def _fake_with_a_job(like: Mapping[str, Any], movable: MovableClock) -> FakeEmr:
    """Return a fake whose only job is in the state of another, as far as it is known there."""
    state = like.get("state", "RUNNING")
    emr = FakeEmr(behaviour=EmrBehaviour(rates={}), takes_seconds=600)
    if state in {"SUCCESS", "FAILED", "CANCELLED"}:
        has_run = "startedAt" in like or "jobDriver" not in like
        ends_in = "RUNNING" if has_run else "SCHEDULED"
        # The job names no step, and its outcome is that of all such jobs.
        emr.next_outcome("", "", Outcome(state, ends_in=ends_in))  # type: ignore[arg-type] # as above
    emr.call("StartJobRun", _request(like))
    while emr.jobs[0].state != state and (at := emr.next_change()) is not None:
        movable.move(to=max(at, clock.now()))
        emr.take_events()
    if "billedResourceUtilization" in like:
        movable.sleep(emr.behaviour.billing_delay_seconds or 0)
    return emr


def _request(like: Mapping[str, Any], *, token: str = "token") -> dict[str, Any]:  # noqa: S107 - as above
    sent = {name: like[name] for name in _SENT if name in like}
    return {
        "applicationId": "00local",
        "clientToken": token,
        "executionRoleArn": _ROLE,
        "jobDriver": like.get("jobDriver", {"sparkSubmit": {"entryPoint": "s3://bucket/run.py"}}),
        **sent,
    }


def _different_events(real: Mapping[str, Any], movable: MovableClock) -> Iterator[str]:
    detail = real["detail"]
    emr = FakeEmr(behaviour=EmrBehaviour(rates={}))
    state = detail.get("state", "SUCCESS")
    if state in {"FAILED", "CANCELLED"}:
        emr.next_outcome("", "", Outcome(state))
    emr.call("StartJobRun", _request({}))
    movable.sleep(3_600)
    ours = [json.loads(text) for text in emr.take_events()]
    of_kind = [each for each in ours if each["detail-type"] == real["detail-type"]]
    alike = [each for each in of_kind if each["detail"].get("state") in {None, state}]
    if not alike:
        yield f"the fake sends none with the state {state}"
    for each in alike:
        yield from _different(real, each)


def _different(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Yield what only one of two values has, and what is of another type."""
    kinds = [_kind(value) for value in (real, ours)]
    if kinds[0] != kinds[1]:
        yield f"{path.rstrip('.')} is {kinds[0]} in the recording and {kinds[1]} in the fake"
    elif isinstance(real, dict):
        for name in sorted((set(real) ^ set(ours)) - _OPTIONAL):
            yield f"{path}{name} is only in the {'recording' if name in real else 'fake'}"
        for name in sorted(set(real) & set(ours)):
            yield from _different(real[name], ours[name], f"{path}{name}.")
    elif isinstance(real, list) and real and ours:
        yield from _different(real[0], ours[0], path)


def _kind(value: object) -> str:
    """Return the type of a value as JSON has it; instants are texts there."""
    if isinstance(value, datetime):
        return "str"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return "a number" if is_number else type(value).__name__
