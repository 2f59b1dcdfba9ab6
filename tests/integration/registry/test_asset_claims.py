"""A condition on assets that could not fire at once, claimed later: exactly what was pending."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import DateTime

from lamplighter import DAG, Asset
from lamplighter.events import ingest
from lamplighter.registry.register import RegisterReport
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.store.dags import change_dag
from lamplighter.store.models import AssetQueue, Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.trigger import create_manual_run
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Register = Callable[..., RegisterReport]

A, B = Asset("a"), Asset("b")


def emit(stack: LocalStack, /, **numbers: int) -> None:
    """Send so many events of each asset, and do what comes of them."""
    for asset, number in numbers.items():
        for _ in range(number):
            stack.emit(asset)
    stack.run_until_idle()


def record(stack: LocalStack, /, **numbers: int) -> None:
    """Let so many events of each asset be recorded by someone who does not hand them on."""
    stack.run_until_idle()  # a new DAG is looked at once, and would have them
    with patch.object(ingest, "fan_out", return_value=ClaimReport()):
        emit(stack, **numbers)


def consumed(dag_id: str = "dag") -> dict[str, int]:
    """Return up to where the events of each asset have become runs."""
    return {row.asset_id: int(row.consumed_seq) for row in AssetQueue.query(dag_id)}


def could_not_fire(since: DateTime, dag_id: str = "dag") -> None:
    """Note that a condition has held since then without having become a run."""

    def change(row: Dags) -> list[Any]:
        row.asset_condition_met_at = since
        return []

    change_dag(dag_id, change)


def columns(row: Any, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def claim(stack: LocalStack) -> None:
    """Tick, and do what comes of it."""
    stack.tick()
    stack.run_until_idle()


def test_condition_that_holds_becomes_a_run(register_dags: Register, stack: LocalStack) -> None:
    """The run names the events of each asset, and they are consumed with it."""
    register_dags(DAG("dag", schedule=(A & B)))
    record(stack, a=3, b=1)
    could_not_fire(stack.clock.now())
    claim(stack)
    (run,) = stack.runs("dag")
    assert (run.run_type, run.triggered_by) == ("asset_triggered", "asset")
    assert run.events == {"a": [0, 3], "b": [0, 1]}
    assert columns(run, "logical_date", "data_interval_start") == (None, None)
    assert run.run_id.startswith("asset_triggered__2026-01-05T12:00:05+00:00_")
    assert consumed() == {"a": 3, "b": 1}
    row = stack.dag("dag")
    assert columns(row, "asset_condition_met_at", "active", "due_shard") == (
        None,
        {run.run_key},
        None,
    )
    require_sound()


def test_second_condition_takes_what_is_new(register_dags: Register, stack: LocalStack) -> None:
    """Two runs share no event, and leave none between them."""
    register_dags(DAG("dag", schedule=[A]))
    for more in (2, 3):
        record(stack, a=more)
        could_not_fire(stack.clock.now())
        claim(stack)
        stack.clock.advance(timedelta(minutes=1))
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 2]}, {"a": [2, 5]}]


def test_any_of_two_takes_events_of_both(register_dags: Register, stack: LocalStack) -> None:
    """A run takes all that is pending, also what its condition did not need."""
    register_dags(DAG("dag", schedule=(A | B)), DAG("other", schedule=[A]))
    record(stack, a=1, b=2)
    could_not_fire(stack.clock.now())
    claim(stack)
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1], "b": [0, 2]}]
    assert consumed("other") == {"a": 0}


def test_condition_that_fails_is_forgotten(register_dags: Register, stack: LocalStack) -> None:
    """A condition that does not hold gives no run, consumes nothing and leaves the index."""
    register_dags(DAG("dag", schedule=(A & B)))
    record(stack, a=3)
    could_not_fire(stack.clock.now())
    claim(stack)
    row = stack.dag("dag")
    assert columns(row, "asset_condition_met_at", "due_shard") == (None, None)
    assert stack.runs("dag") == []
    assert consumed() == {"a": 0, "b": 0}


def test_condition_waits_for_a_slot(register_dags: Register, stack: LocalStack) -> None:
    """At the limit nothing is consumed; the run that ends makes room, and all is taken then."""
    register_dags(DAG("dag", schedule=[A], max_active_runs=1))
    emit(stack, a=1)
    stack.clock.advance(timedelta(minutes=1))
    emit(stack, a=1)
    stack.clock.advance(timedelta(minutes=1))
    claim(stack)
    row = stack.dag("dag")
    assert columns(row, "asset_condition_met_at", "due_shard") == (
        stack.clock.now().subtract(minutes=1),
        None,
    )
    assert consumed() == {"a": 1}
    emit(stack, a=2)
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}, {"a": [1, 4]}]
    require_sound()


def test_paused_condition_waits(register_dags: Register, stack: LocalStack) -> None:
    """A paused DAG keeps what is pending until it is unpaused."""
    register_dags(DAG("dag", schedule=[A]))
    pause("dag")
    emit(stack, a=1)
    claim(stack)
    assert stack.runs("dag") == []
    unpause("dag")
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}]


def three_reasons(register_dags: Register, stack: LocalStack, limit: int) -> None:
    """Let a manual run, an asset condition and a due time wait, in this order of age."""
    timetable = CronTriggerTimetable("3 12 * * *", timezone="UTC")
    schedule = AssetOrTimeSchedule(timetable=timetable, assets=[A])
    register_dags(
        DAG("dag", schedule=schedule, start_date=stack.clock.now(), max_active_runs=limit),
    )
    stack.run_until_idle()
    pause("dag")
    create_manual_run("dag", logical_date=None, run_id="by-hand")
    stack.clock.advance(timedelta(minutes=1))
    emit(stack, a=1)
    stack.clock.advance(timedelta(minutes=10))
    unpause("dag")
    stack.run_until_idle()


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_oldest_reason_gets_the_slot(
    register_dags: Register, stack: LocalStack, limit: int
) -> None:
    """Manual runs, assets and times share the slots by age, whatever their kind."""
    three_reasons(register_dags, stack, limit)
    order = ["manual", "asset_triggered", "scheduled"]
    assert types_of_active(stack) == sorted(order[:limit])
    for first in range(1, 4 - limit):
        finish_run("dag", min(stack.dag("dag").active), state="success")
        stack.run_until_idle()
        assert order[first + limit - 1] in types_of_active(stack)
    assert consumed() == {"a": 1}
    require_sound()


def types_of_active(stack: LocalStack) -> list[str]:
    """Return the types of the runs that have a slot."""
    active = stack.dag("dag").active
    return sorted(run.run_type for run in stack.runs("dag") if run.run_key in active)


def test_two_claims_consume_events_once(register_dags: Register, stack: LocalStack) -> None:
    """A second claim of the same row, however late, creates nothing."""
    register_dags(DAG("dag", schedule=[A]))
    record(stack, a=1)
    could_not_fire(stack.clock.now())
    claim(stack)
    could_not_fire(stack.clock.now())
    claim(stack)
    assert len(stack.runs("dag")) == 1
    assert stack.dag("dag").asset_condition_met_at is None
