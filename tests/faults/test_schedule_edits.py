"""A push meets a claim, at every single call of either: the intervals are the same as ever.

A schedule that owes three runs is replaced. Once for every call of the registration a claim happens
just before that call, and once for every call of a claim the whole registration does.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import aws
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.rows import connection
from lamplighter.timetables.base import DagRunInfo
from lamplighter_local.deliveries import deliver
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.push import push_bundle
from tests.faults.reports import Report
from tests.faults.test_register import crash_points, deliver_again, sandbox_remembers, try_with
from tests.tools.faults import Faults
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot

NOON = datetime(2026, 1, 5, 12, 0, 5)
LAST_DUE = DagRunInfo.interval(datetime(2026, 1, 5, 14), datetime(2026, 1, 5, 15))
HEAD = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Every(Timetable):
    def __init__(self, hours):
        self.hours = hours
    def serialize(self):
        return {"hours": self.hours}
    @classmethod
    def deserialize(cls, data):
        return cls(data["hours"])
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=self.hours))
"""
DAG = "DAG('dag', schedule={}, start_date=pendulum.datetime(2026, 1, 5, 9), max_active_runs=99)\n"
OTHER_CODE = HEAD.replace("hours=self.hours", "hours=9")
# The file before and after the edit; in either case nine hours follow what was due.
EDITS = {
    "built-in to built-in": (HEAD + DAG.format("'0 * * * *'"), HEAD + DAG.format("'0 0 * * *'")),
    "custom to custom": (HEAD + DAG.format("Every(1)"), HEAD + DAG.format("Every(9)")),
    "built-in to custom": (HEAD + DAG.format("'0 * * * *'"), HEAD + DAG.format("Every(9)")),
    "custom to built-in": (HEAD + DAG.format("Every(1)"), HEAD + DAG.format("'0 0 * * *'")),
    "other code": (HEAD + DAG.format("Every(1)"), OTHER_CODE + DAG.format("Every(1)")),
}
EXPECTED = [*[(9 + hour, 10 + hour) for hour in range(6)], (15, 24)]


@dataclass
class Calls:
    """Counts calls to AWS, and lets something happen before one of them."""

    number: int = 0
    act: Callable[[], object] = lambda: None
    seen: int = 0
    is_acting: bool = False

    @contextmanager
    def on(self, *clients: Any) -> Iterator[None]:
        """Count the calls of these clients until the block ends."""
        for client in clients:
            client._make_api_call = self._round(client._make_api_call)
        try:
            yield
        finally:
            for client in clients:
                del client._make_api_call

    def _round(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def count_and_send(operation: str, request: Any) -> Any:
            if not self.is_acting:
                self.seen += 1
                if self.seen == self.number:
                    self.is_acting = True
                    self.act()
                    self.is_acting = False
            return send(operation, request)

        return count_and_send


@contextmanager
def edited(tmp_path: Path, files: tuple[str, str]) -> Iterator[tuple[LocalStack, Snapshot]]:
    """Make a deployment whose DAG owes three runs, with a push of another schedule on its way."""
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(local_stack(at=NOON))
        made = replace(stack.settings, due_shards=1)
        stack.settings = made
        until_the_end.enter_context(sandbox_remembers())
        file = tmp_path / "dags" / "a.py"
        file.parent.mkdir()
        file.write_text(files[0], encoding="utf-8")
        stack.push(tmp_path, bundle="bundle")
        stack.clock.move(to=NOON.add(hours=3, minutes=10))
        file.write_text(files[1], encoding="utf-8")
        push_bundle(tmp_path, "bundle")
        yield stack, Snapshot(stack)


def go_on(stack: LocalStack) -> None:
    """Let the rest of the day pass."""
    for at in (NOON.add(hours=3, minutes=20), datetime(2026, 1, 6, 0, 0, 5)):
        stack.run_until_idle()
        stack.clock.move(to=at)
        stack.tick()
        stack.run_until_idle()


def hours(stack: LocalStack) -> list[tuple[int, int]]:
    """Return the intervals of all runs, in hours since midnight."""

    def hour(at: DateTime | None) -> int:
        assert at is not None
        return int((at - NOON.start_of("day")).total_hours())

    runs = sorted(stack.runs("dag"), key=lambda run: run.run_after)
    return [(hour(run.data_interval_start), hour(run.data_interval_end)) for run in runs]


def clients() -> tuple[Any, ...]:
    """Return the clients of all services that a push or a claim calls."""
    lambdas = aws.client("lambda", read_seconds=900.0)
    return (connection().client, aws.client("sqs"), aws.client("s3"), lambdas)


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("first", ["push", "claim"])
def test_push_and_claim_that_meet_at_any_call_lose_and_repeat_nothing(
    name: str, first: str, tmp_path: Path
) -> None:
    """Whoever comes between whichever calls of the other, each owed hour has its run, once."""
    wrong: list[str] = []
    with edited(tmp_path, EDITS[name]) as (stack, before):
        acts: dict[str, Callable[[], object]] = {
            "push": lambda: deliver(stack.settings.queue_url("registers"), "register"),
            "claim": lambda: claim_all(["dag"]),
        }
        second = "claim" if first == "push" else "push"
        number, counted = 0, 1
        while number <= counted:  # the first time around nobody interrupts
            before.put_back()
            calls = Calls(number, acts[second])
            with calls.on(*clients()):
                acts[first]()
            counted = max(counted, calls.seen) if number == 0 else counted
            go_on(stack)
            found = violations(origins={"dag": LAST_DUE})
            if hours(stack) != EXPECTED or found:
                wrong.append(
                    f"{second} before call {number} of the {first}: {hours(stack)} {found}"
                )
            number += 1
    assert counted > 3
    assert wrong == []


@pytest.mark.full
@pytest.mark.parametrize("name", EDITS)
def test_fault_at_every_call_of_a_push_over_owed_runs(
    name: str, tmp_path: Path, report: Report
) -> None:
    """Whatever fails at whichever call of the registration, all hours have their runs, once."""
    wrong: list[str] = []
    with edited(tmp_path, EDITS[name]) as (_, before):
        counted = Faults()
        try_with(counted, before.put_back())
        points = list(crash_points(counted.calls))
        for kind, number in points:
            faults = Faults()
            faults.at(number, kind)
            stack = before.put_back()
            try_with(faults, stack)
            deliver_again(stack)
            go_on(stack)
            found = violations(origins={"dag": LAST_DUE})
            if hours(stack) != EXPECTED or found:
                wrong.append(f"{faults.injected}: {hours(stack)} {found}")
    report(f"push over owed runs, {name}, {len(counted.calls)} calls", len(points), wrong)
