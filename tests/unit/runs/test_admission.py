"""Which ready steps may start: tables of limits before and after, with no table behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter.dags.task import Task
from lamplighter.errors import DefinitionError
from lamplighter.executors.base import Executor, StartRate
from lamplighter.executors.emr import EmrServerless
from lamplighter.runs.admission import Admission, LimitReader, Wait, in_turn
from lamplighter.store import limits
from lamplighter.store.limits import Amounts, LimitChange, WaitingStep, next_start, turn_of
from lamplighter.store.models import Limits
from tests.unit.runs.rows import make_dag

NOW = datetime(2026, 2, 1, 13)
SMALL = {"vcpus": 4.0, "memory_gb": 8.0}


class Platform(EmrServerless):
    """An executor with limits of a test's choice."""

    name = "platform"

    def __init__(
        self, capacity: Mapping[str, float] | None = None, rate: StartRate | None = None
    ) -> None:
        self._capacity, self._rate = capacity or {}, rate

    def start_rate(self) -> StartRate | None:
        return self._rate

    def capacity(self) -> Mapping[str, float]:
        return self._capacity

    def footprint(self, sizes: Mapping[str, str]) -> Mapping[str, float]:
        return {name: amount * int(sizes.get("driver_cores", 1)) for name, amount in SMALL.items()}


@dataclass
class Rows(LimitReader):
    """Limits in memory."""

    rows: dict[str, Limits] = field(default_factory=dict)
    waiting: tuple[WaitingStep, ...] = ()
    moments: list[DateTime] = field(default_factory=list)

    def read_limit(self, limit_id: str) -> Limits | None:
        return self.rows.get(limit_id)

    def resize(self, limit_id: str, sizes: Mapping[str, float], **_: Any) -> Limits:
        self.rows[limit_id] = counter(limit_id, sizes)
        return self.rows[limit_id]

    def first_waiting(self, _: str) -> list[WaitingStep]:
        return list(self.waiting)

    def reserve_start(self, *_: Any, **__: Any) -> DateTime:
        return self.moments.pop(0)


def counter(limit_id: str, sizes: Mapping[str, float], **free: float) -> Limits:
    """Return a counter of which everything is free, or what is said."""
    row = Limits(limit_id, sizes=dict(sizes))
    for name, size in sizes.items():
        setattr(row, f"free_{name}", free.get(name, size))
    return row


def pool(free: float, slots: float = 4) -> dict[str, Limits]:
    """Return the pool `db`."""
    return {"pool:db": counter("pool:db", {"slots": slots}, slots=free)}


def entry(name: str = "step", *, weight: int = 1, waited: int = 0, due: int = 0) -> WaitingStep:
    """Return a step that has waited for minutes, and was due minutes ago."""
    turn = turn_of(weight, NOW.subtract(minutes=due))
    return WaitingStep("dag", "key", name, NOW.subtract(minutes=waited), turn)


def task(**options: Any) -> Task:
    """Return a task."""
    return make_dag(load=options).tasks["load"]


def admit(
    admission: Admission,
    on: Executor,
    step: WaitingStep | None = None,
    *,
    taken: Mapping[str, Amounts] = MappingProxyType({}),
    is_reserved: bool = False,
    **options: Any,
) -> Any:
    """Return what comes of a step that is ready."""
    return admission.admit(
        step or entry(), task(**options), on, now=NOW, taken=taken, is_reserved=is_reserved
    )


# Counters.


def test_step_without_limits_takes_nothing() -> None:
    """A task without a pool, on an executor without limits, starts."""
    assert admit(Admission(reader=Rows()), Platform()) == {}


@pytest.mark.parametrize(
    ("free", "slots", "starts"), [(1, 1, True), (0, 1, False), (2, 3, False), (3, 3, True)]
)
def test_pool_admits_what_fits(free: int, slots: int, *, starts: bool) -> None:
    """A step takes its slots or waits, and says what it lacks."""
    admitted = admit(Admission(reader=Rows(pool(free))), Platform(), pool="db", pool_slots=slots)
    if starts:
        assert admitted == {"pool:db": {"slots": slots}}
    else:
        assert admitted == Wait("pool:db", {"slots": slots})


def test_steps_of_one_decision_share_what_is_free() -> None:
    """What the first step takes is not there for the second."""
    admission = Admission(reader=Rows(pool(1)))
    first = admit(admission, Platform(), pool="db")
    assert first == {"pool:db": {"slots": 1}}
    assert admit(admission, Platform(), pool="db", taken=first) == Wait("pool:db", {"slots": 1})
    assert admission.exhausted == {"pool:db"}


def test_slot_that_a_step_gives_back_is_there_for_the_next() -> None:
    """A decision counts what it frees itself."""
    freed = {"pool:db": {"slots": -1.0}}
    admitted = admit(Admission(reader=Rows(pool(0))), Platform(), pool="db", taken=freed)
    assert admitted == {"pool:db": {"slots": 1}}


def test_slot_promised_to_a_step_that_waits_for_its_start_is_not_given_away() -> None:
    """Only as many starts are reserved as there are slots for."""
    admission = Admission(reader=Rows(pool(1), moments=[NOW.add(seconds=5)]))
    on = Platform(rate=StartRate(1, 1))
    assert admit(admission, on, entry("first"), pool="db").until == NOW.add(seconds=5)
    assert admit(admission, on, entry("second"), pool="db") == Wait(
        "pool:db", look_at=NOW.add(seconds=6)
    )


def test_pool_that_does_not_exist_is_waited_for() -> None:
    """Someone may create it."""
    assert admit(Admission(reader=Rows()), Platform(), pool="db") == Wait("pool:db", {"slots": 1})


def test_step_larger_than_a_limit_can_never_start() -> None:
    """It is an error that names both, not a wait without end."""
    with pytest.raises(DefinitionError, match="needs 5 slots of pool:db, which has 4"):
        admit(Admission(reader=Rows(pool(4))), Platform(), pool="db", pool_slots=5)


def test_resource_without_a_limit_is_never_waited_for() -> None:
    """Where only vCPUs are limited, memory is not counted."""
    found = admit(Admission(reader=Rows()), Platform({"vcpus": 16}))
    assert found == {"capacity:platform": {"vcpus": 4}}


@pytest.mark.parametrize("cores", [1, 2])
def test_capacity_is_that_of_the_executor(cores: int) -> None:
    """The row is made from what the executor has, and the step takes its part."""
    on = Platform({"vcpus": 16, "memory_gb": 16})
    found = admit(Admission(reader=Rows()), on, driver_cores=cores)
    assert found == {"capacity:platform": {"vcpus": 4 * cores, "memory_gb": 8 * cores}}


def test_capacity_must_suffice_in_every_resource() -> None:
    """Enough vCPUs are not enough."""
    on = Platform({"vcpus": 16, "memory_gb": 16})
    with pytest.raises(DefinitionError, match="needs 32 memory_gb"):
        admit(Admission(reader=Rows()), on, driver_cores=4)


def test_capacity_row_of_an_earlier_setting_is_resized() -> None:
    """A deployment that was changed counts from the next step on."""
    old = {"capacity:platform": counter("capacity:platform", {"vcpus": 1})}
    rows = Rows(old)
    admit(Admission(reader=rows), Platform({"vcpus": 16, "memory_gb": 16}))
    assert rows.rows["capacity:platform"].sizes == {"vcpus": 16, "memory_gb": 16}


def test_newcomer_does_not_take_the_turn_of_others() -> None:
    """With room for one, a lighter newcomer waits behind a heavier step, and says so."""
    admission = Admission(reader=Rows(pool(1), (entry("other", weight=5),)))
    assert admit(admission, Platform(), pool="db") == Wait("pool:db", look_at=NOW.add(seconds=1))


@pytest.mark.parametrize(
    "reader",
    [Rows(pool(1), (entry("other", weight=0),)), Rows(pool(1), (entry("step"),))],
    ids=["lighter", "itself"],
)
def test_step_does_not_wait_behind_lighter_ones_or_itself(reader: Rows) -> None:
    """Whoever is first in turn starts."""
    assert admit(Admission(reader=reader), Platform(), pool="db") == {"pool:db": {"slots": 1}}


def test_step_whose_turn_it_is_asks_for_no_other() -> None:
    """Those before it that could not start do not hold it up."""
    other = entry("other", weight=5)
    rows = Rows(pool(1), (other,))
    admission = Admission(reader=rows, serves="pool:db", tried={other[:3]})
    assert admit(admission, Platform(), pool="db") == {"pool:db": {"slots": 1}}


# Starts.


def test_start_is_reserved_last() -> None:
    """A step that waits for its pool reserves none."""
    admission = Admission(reader=Rows(pool(0), moments=[NOW]))
    admit(admission, Platform(rate=StartRate(1, 1)), pool="db")
    assert isinstance(admission.reader, Rows)
    assert admission.reader.moments == [NOW]


def test_start_in_the_future_is_waited_for() -> None:
    """The step is told when, and takes nothing meanwhile."""
    later = NOW.add(seconds=7)
    admission = Admission(reader=Rows(pool(1), moments=[later]))
    wait = admit(admission, Platform(rate=StartRate(1, 1)), pool="db")
    assert wait == Wait("starts:platform", until=later)


def test_permit_is_for_a_step_that_has_reserved_a_start() -> None:
    """A start that was reserved earlier serves one such step; others reserve their own."""
    later = [NOW.add(seconds=1), NOW.add(seconds=2)]
    admission = Admission(permits=1, reader=Rows(moments=later))
    on = Platform(rate=StartRate(1, 1))
    assert admit(admission, on) == Wait("starts:platform", until=NOW.add(seconds=1))
    assert admit(admission, on, is_reserved=True) == {}
    assert admit(admission, on, is_reserved=True).until == NOW.add(seconds=2)


def test_starts_of_a_decision_that_was_refused_are_used_again() -> None:
    """Nobody waits longer because two wrote at once."""
    admission = Admission(permits=1, reader=Rows(moments=[NOW]))
    on = Platform(rate=StartRate(1, 1))
    admission.begin()
    assert (admit(admission, on), admit(admission, on, is_reserved=True)) == ({}, {})
    admission.take_back()
    assert (admit(admission, on), admit(admission, on, is_reserved=True)) == ({}, {})


@pytest.mark.parametrize(
    ("before", "is_slow", "moment"),
    [
        (None, False, -4),
        (-100, False, -4),
        (-4, False, -3),
        (0, False, 1),
        (30, False, 31),
        (None, True, 2),
        (-100, True, 2),
        (30, True, 32),
    ],
)
def test_next_start_follows_the_last_one(before: int | None, moment: int, *, is_slow: bool) -> None:
    """Five at once after a pause, then one a second; after a throttle, none at once."""
    last = None if before is None else NOW.add(seconds=before)
    found = next_start(last, 1.0, 5, now=NOW, is_slow=is_slow)
    assert found == NOW.add(seconds=moment)


# Turns.


def test_heavier_steps_come_first_but_patience_has_an_end() -> None:
    """After ten minutes the weight no longer counts, and the due time does."""
    steps = [
        entry("light", weight=1, waited=1, due=90),
        entry("heavy", weight=9, waited=1),
        entry("older", weight=1, waited=10, due=20),
        entry("oldest", weight=0, waited=10, due=30),
        entry("heavy and due", weight=9, waited=1, due=5),
    ]
    assert [step.step_id for step in in_turn(steps, NOW)] == [
        "oldest",
        "older",
        "heavy and due",
        "heavy",
        "light",
    ]


@pytest.mark.parametrize("weight", [-(10**12), -1, 0, 1, 10**12])
def test_turn_sorts_by_weight_whatever_it_is(weight: int) -> None:
    """Weights beyond what can be written count as the largest that can."""
    assert turn_of(weight, NOW) >= turn_of(weight + 1, NOW)
    assert turn_of(weight, NOW) < turn_of(weight, NOW.add(seconds=1))


# Writes.


def test_change_that_frees_has_no_condition() -> None:
    """What was taken can always be given back, also to a pool that is gone."""
    change = LimitChange("pool:db")
    change.take({"slots": 2}, sign=-1)
    assert (change.frees, change.write(NOW).condition) == (True, None)


def test_change_that_comes_to_nothing_is_none() -> None:
    """A step that ends while another begins leaves the counter alone."""
    change = LimitChange("pool:db")
    change.take({"slots": 2}, sign=-1)
    change.take({"slots": 2})
    assert not change.is_change


def test_limits_have_names_of_their_own() -> None:
    """A pool cannot be mistaken for anything else."""
    names = {limits.pool_limit("x"), limits.capacity_limit("x"), limits.starts_limit("x")}
    assert names == {"pool:x", "capacity:x", "starts:x"}
