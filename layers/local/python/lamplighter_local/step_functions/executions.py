"""Executions that only last, and end as they were told to or as a function says.

Owns: what an execution is, and what AWS tells of it: answers, events, history. Refuses: knowing
what time it is.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from pendulum import DateTime

from lamplighter.dags.kinds import ABOUT
from lamplighter.errors import UNREADABLE
from lamplighter.executors.step_functions import EVENT_TYPE, SKIP
from lamplighter_local.emr.events import envelope
from lamplighter_local.emr.scripts import Outcome, StepKey, step_of

RUNNING = "RUNNING"
_STATUSES = {"SUCCESS": "SUCCEEDED", "FAILED": "FAILED", "CANCELLED": "ABORTED"}
_EVENTS = {RUNNING: "Started", "SUCCEEDED": "Succeeded", "FAILED": "Failed", "ABORTED": "Aborted"}

Function = Callable[[Any], object]
"""What stands for a state machine: it is given the input and returns the output, or raises."""


@dataclass(frozen=True)
class End:
    """How an execution has ended."""

    status: str
    output: str | None = None
    error: str | None = None
    cause: str | None = None

    @classmethod
    def of(cls, outcome: Outcome, function: Function | None, given: str) -> Self:
        """Return the end that was planned; without a plan, the one that the function brings."""
        report = outcome.report or {}
        if report.get("state") == "skipped":
            return cls("FAILED", error=SKIP, cause=report.get("reason") or "")
        if outcome.state != "SUCCESS":
            said = report.get("reason") or outcome.details
            return cls(_STATUSES[outcome.state], error="Failed", cause=said)
        if function is None or outcome.report is not None:
            return cls("SUCCEEDED", json.dumps(report.get("outputs") or {}))
        try:
            return cls("SUCCEEDED", json.dumps(function(json.loads(given))))
        except Exception as error:  # noqa: BLE001 - as a state machine, it fails of anything
            return cls("FAILED", error=type(error).__name__, cause=str(error))


@dataclass(frozen=True, kw_only=True)
class FakeExecution:
    """An execution as it is at one moment; what happens to it makes another record of it."""

    # Its ARN.
    job_run_id: str
    # The step that it was started for; empty if it was for none.
    dag: str
    run_key: str
    task: str
    submission: int
    state_machine: str
    name: str
    input: str = field(repr=False)
    outcome: Outcome = field(repr=False)
    created_at: DateTime
    # When it ends by itself, if it does.
    ends_at: DateTime | None
    end: End = field(default_factory=lambda: End(RUNNING))
    ended_at: DateTime | None = None

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return the record itself, which never changes."""
        return self

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_at is not None

    def ended(self, end: End, at: DateTime) -> Self:
        """Return the execution after its end."""
        return replace(self, end=end, ended_at=at)

    def description(self) -> dict[str, Any]:
        """Return what DescribeExecution answers."""
        told = {"output": self.end.output, "error": self.end.error, "cause": self.end.cause}
        return {
            "executionArn": self.job_run_id,
            "stateMachineArn": self.state_machine,
            "name": self.name,
            "status": self.end.status,
            "startDate": self.created_at,
            "input": self.input,
            "inputDetails": {"included": True},
            **({"stopDate": self.ended_at} if self.ended_at is not None else {}),
            **{key: text for key, text in told.items() if text is not None},
        }

    def event(self) -> dict[str, Any]:
        """Return what EventBridge makes of its last change."""
        detail = self.description()
        for key in ("startDate", "stopDate"):
            at = detail.get(key)
            detail[key] = None if at is None else int(at.timestamp() * 1_000)
        name = f"{self.job_run_id}#{self.created_at}#{self.end.status}"
        at = self.ended_at or self.created_at
        return envelope(
            EVENT_TYPE, name, at, source="aws.states", resources=[self.job_run_id], detail=detail
        )

    def history(self) -> list[dict[str, Any]]:
        """Return what GetExecutionHistory answers: how it began, and how it ended."""
        begun = {"input": self.input}
        said = self.description()
        ended = {key: said[key] for key in ("output", "error", "cause") if key in said}
        changes = [(RUNNING, self.created_at, begun), (self.end.status, self.ended_at, ended)]
        return [
            {
                "timestamp": at,
                "id": number,
                "previousEventId": number - 1,
                "type": f"Execution{_EVENTS[status]}",
                f"execution{_EVENTS[status]}EventDetails": details,
            }
            for number, (status, at, details) in enumerate(changes, start=1)
            if at is not None
        ]


def step_named_by(text: str, name: str) -> StepKey:
    """Return the step that an execution is for, by its input; an empty key if it is for none."""
    try:
        about: Mapping[str, str] = json.loads(text)[ABOUT]
        return step_of(about["context_uri"] if about["execution"] == name else "")
    except UNREADABLE:
        return StepKey()
