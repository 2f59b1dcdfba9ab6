"""A day of ticks that start late, come twice or not at all: no run is more than a second late."""

import heapq
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, queues, runtime
from lamplighter.clock import Clock
from lamplighter.scheduler import claim as claim_module
from lamplighter.scheduler import tick as tick_module
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.tick import DueDag, tick
from lamplighter.store.catalog import LookAhead
from lamplighter.store.models import Dags, Runs
from lamplighter.store.transactions import (
    CancellationReason,
    Cause,
    Put,
    TransactionCanceled,
    Write,
)
from lamplighter.timetables.trigger import CronTriggerTimetable, DeltaTriggerTimetable
from lamplighter.zones import as_utc
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import row_of, store_dags
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

BEGIN = datetime(2026, 1, 1)
# The first ticks have nothing behind them; schedules begin when some have passed.
FIRST = BEGIN.add(minutes=10)
MAX_LOST = 3


def schedules() -> list[DAG]:
    """Return DAGs that are due each minute, every few minutes, at odd minutes and odd seconds."""
    named: dict[str, Any] = {
        "minutely": "* * * * *",
        "five": "*/5 * * * *",
        "six": "*/6 * * * *",
        "seven": "*/7 * * * *",
        "odd": "17,43 * * * *",
        "hourly": "59 * * * *",
        "trigger": CronTriggerTimetable("3-59/11 * * * *", timezone="Asia/Kathmandu"),
        "daily": DeltaTriggerTimetable(timedelta(hours=5, minutes=41, seconds=37)),
        "seconds": DeltaTriggerTimetable(timedelta(minutes=6, seconds=1)),
        "delta": timedelta(minutes=13, seconds=7, milliseconds=250),
    }
    return [
        DAG(dag_id, schedule=schedule, start_date=FIRST, max_active_runs=500)
        for dag_id, schedule in named.items()
    ]


def ticks(minutes: int, chance: random.Random) -> Iterator[tuple[DateTime, DateTime]]:
    """Return when each tick that is not lost starts, and the minute that it stands for."""
    lost = 0
    for number in range(minutes):
        minute = BEGIN.add(minutes=number)
        if lost < MAX_LOST and chance.random() < 0.1:
            lost += 1
            continue
        lost = 0
        for _ in range(1 + (chance.random() < 0.05)):
            yield minute.add(microseconds=chance.randrange(60_000_000)), minute


class Memory:
    """Tables and queues of one day, quick enough for a thousand ticks. It refuses as DynamoDB does.

    Only what a claim writes is kept, and a queue delivers at the whole second that it was told.
    """

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock
        self.rows: dict[str, Dags] = {}
        self.runs: dict[tuple[str, str], Runs] = {}
        self.covered: DateTime | None = None
        self.messages: list[tuple[DateTime, int, str]] = []

    def read(self, dag_ids: Any, **_: object) -> list[Dags]:
        return [
            Dags.from_raw_data(self.rows[dag_id].serialize())
            for dag_id in dag_ids
            if dag_id in self.rows
        ]

    def due(self, until: DateTime, **_: object) -> list[DueDag]:
        return sorted(
            DueDag(row.next_run_create_after, row.dag_id)
            for row in self.rows.values()
            if row.due_shard is not None
            and row.next_run_create_after is not None
            and row.next_run_create_after <= until
        )

    def transact(self, writes: Sequence[Write]) -> None:
        refused = [not self._may(write) for write in writes]
        if any(refused):
            raise TransactionCanceled(
                [
                    CancellationReason(Cause.CONDITION_FAILED, self._now(write))
                    if bad
                    else CancellationReason(Cause.NONE)
                    for write, bad in zip(writes, refused, strict=True)
                ],
            )
        for write in writes:
            if isinstance(write.row, Dags):
                self.rows[write.row.dag_id] = write.row
            elif isinstance(write.row, Runs):
                self.runs[write.row.dag_id, write.row.run_key] = write.row

    def _may(self, write: Write) -> bool:
        if isinstance(write, Put):
            return self._now(write) is None
        return isinstance(write.row, Dags) and self.rows[write.row.dag_id].rev == write.row.rev - 1

    def _now(self, write: Write) -> Any:
        if isinstance(write.row, Dags):
            return self.read([write.row.dag_id])[0]
        assert isinstance(write.row, Runs)
        return self.runs.get((write.row.dag_id, write.row.run_key))

    def raise_covered(self, until: DateTime, **_: object) -> None:
        self.covered = until if self.covered is None else max(self.covered, until)

    def send(self, queue: str, messages: Sequence[dict[str, Any]]) -> None:
        if queue != "claims":
            return
        for message in messages:
            at = as_utc(self._clock.now() + timedelta(seconds=message["DelaySeconds"]))
            heapq.heappush(self.messages, (at, len(self.messages), message["MessageBody"]))

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with ExitStack() as patches:
            for module, name, replacement in (
                (tick_module, "due_until", self.due),
                (tick_module, "read_look_ahead", lambda: LookAhead(self.covered, 0)),
                (tick_module, "raise_covered_until", self.raise_covered),
                (claim_module, "read_dags", self.read),
                (claim_module, "transact", self.transact),
                (queues, "send", self.send),
            ):
                patches.enter_context(patch.object(module, name, replacement))
            yield

    def free_slots(self) -> None:
        """Let all runs end: this day is about beginnings."""
        for row in self.rows.values():
            row.active = None


def lateness(runs: Sequence[Runs]) -> list[tuple[float, str, str]]:
    """Return the runs that were created more than a second after their due time."""
    late = [((run.created_at - run.run_after).total_seconds(), run) for run in runs]
    return [(seconds, run.dag_id, run.run_key) for seconds, run in late if seconds > 1]


def expected_runs(dag: DAG, until: DateTime) -> int:
    """Return how many runs of a DAG are due by `until`."""
    count, info = 0, dag.next_dagrun_info(None)
    while info is not None and info.run_after <= until:
        count, info = count + 1, dag.next_dagrun_info(info)
    return count


@pytest.mark.parametrize("seed", [1, 2])
def test_day_of_unreliable_ticks_creates_every_run_on_its_second(seed: int) -> None:
    """With ticks anywhere in their minute, 5 % doubled and 10 % lost, nothing is a second late."""
    movable = MovableClock(BEGIN)
    memory = Memory(movable)
    end = BEGIN.add(hours=24)
    happenings = sorted(ticks(24 * 60, random.Random(seed)))
    with runtime.using(clock=_as_clock(movable)), memory.in_force():
        memory.rows = {row.dag_id: row for row in map(row_of, schedules())}
        while happenings or memory.messages:
            at_tick = happenings[0][0] if happenings else end.add(hours=1)
            at_message = memory.messages[0][0] if memory.messages else end.add(hours=1)
            if min(at_tick, at_message) > end:
                break
            movable.move(to=max(movable.now(), min(at_tick, at_message)))
            if at_message <= at_tick:
                claim_all(json.loads(heapq.heappop(memory.messages)[2])["dag_ids"])
            else:
                tick(scheduled_at=happenings.pop(0)[1], has_time=lambda: True)
            memory.free_slots()

    assert lateness(list(memory.runs.values())) == []
    counts = {dag.dag_id: expected_runs(dag, end.subtract(minutes=1)) for dag in schedules()}
    found = dict.fromkeys(counts, 0)
    for run in memory.runs.values():
        found[run.dag_id] += run.run_after <= end.subtract(minutes=1)
    assert found == counts


def _as_clock(movable: MovableClock) -> Clock:
    return movable


@pytest.mark.slow
def test_hour_of_unreliable_ticks_is_on_time_with_real_queues(deploy: Deploy) -> None:
    """The same on the emulator: delayed messages of SQS bring each run on its second."""
    stack = deploy(BEGIN)
    dags = [dag for dag in schedules() if dag.dag_id in {"five", "odd", "seconds", "delta"}]
    store_dags(dags)
    for at, minute in sorted(ticks(45, random.Random(4))):
        while (message := stack._next_message()) is not None and message <= at:
            stack.clock.move(to=max(message, stack.clock.now()))
            stack.run_until_idle()
        stack.clock.move(to=max(at, stack.clock.now()))
        stack.tick(scheduled_at=minute)
        stack.run_until_idle()

    runs = [run for dag in dags for run in stack.runs(dag.dag_id)]
    assert lateness(runs) == []
    assert len(runs) >= sum(expected_runs(dag, BEGIN.add(minutes=40)) for dag in dags)
    require_sound()


def test_lost_message_costs_at_most_a_minute(deploy: Deploy) -> None:
    """When all messages are lost, the next tick creates what they were sent for."""
    stack = deploy(FIRST)
    store_dags(dag for dag in schedules() if dag.dag_id in {"five", "odd"})
    for minute in range(16):
        with patch.object(queues, "send"):
            stack.clock.move(to=FIRST.add(minutes=minute))
            tick(has_time=lambda: True)

    assert [run.created_at - run.run_after for run in stack.runs("five")] == [timedelta()] * 3
    require_sound()


def test_tick_that_arrives_hours_late_still_claims_what_is_due(deploy: Deploy) -> None:
    """A timer event that was held back names an old minute, and does the work of the present."""
    stack = deploy(FIRST)
    store_dags(dag for dag in schedules() if dag.dag_id == "odd")
    stack.clock.move(to=FIRST.add(hours=3))

    stack.tick(scheduled_at=FIRST)

    assert stack.dag("odd").next_run_create_after == FIRST.add(hours=3, minutes=7)
    require_sound()
