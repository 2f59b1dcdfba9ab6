"""A DAG is defined again: history is not repeated, and no interval is missed or doubled."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG
from lamplighter.scheduler import claim as claim_module
from lamplighter.scheduler import cursor
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.dags import change_dag, read_dags
from lamplighter.store.models import Dags
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import row_of, store_dags
from tests.tools.invariants import tables
from tests.tools.invariants.origins import Origins

Deploy = Callable[..., LocalStack]

NOON = datetime(2026, 1, 5, 12)


def define_again(dag: DAG, origins: Origins) -> None:
    """Define a DAG over its row, as a push does, and note from where its schedule is checked."""
    rows: list[tuple[Dags, Dags]] = []

    def change(row: Dags) -> list[Any]:
        rows.append((row.as_stored(), row_of(dag, row=row)))
        return []

    change_dag(dag.dag_id, change)
    origins.note_push(*rows[-1])


def require_sound(origins: Origins) -> None:
    """Raise an `AssertionError` that says everything that is wrong in the tables."""
    tables.require_sound(origins=origins.now())
    assert origins.missing() == []


def tick_at(stack: LocalStack, instant: DateTime) -> None:
    """Let it be `instant`, and tick."""
    stack.clock.move(to=instant)
    stack.tick()
    stack.run_until_idle()


def yearly(**arguments: Any) -> DAG:
    """Return a DAG that is due each New Year, with its history since 2020."""
    arguments.setdefault("start_date", datetime(2020, 1, 1))
    return DAG("yearly", schedule="0 0 1 1 *", **arguments)


@pytest.mark.parametrize(
    "again",
    [
        yearly(),
        yearly(description="another text"),
        yearly(end_date=datetime(2030, 1, 1)),
        yearly(start_date=datetime(2015, 1, 1)),
        yearly(start_date=datetime(2019, 6, 1), max_active_runs=3),
        yearly(catchup=False),
    ],
    ids=["same", "described", "end date", "earlier start", "start and limit", "no catchup"],
)
def test_expired_history_is_not_repeated(deploy: Deploy, again: DAG) -> None:
    """A yearly DAG whose old runs have expired is defined again and creates none of them anew."""
    stack = deploy(NOON)
    store_dags([yearly()])
    stack.tick()
    stack.run_until_idle()
    assert len(stack.runs("yearly")) == 6
    for run in stack.runs("yearly"):
        run.delete()
    change_dag("yearly", _forget_slots)

    origins = Origins()
    origins.begin_at("yearly", cursor.position(stack.dag("yearly")))
    define_again(again, origins)
    tick_at(stack, NOON.add(hours=1))

    assert stack.runs("yearly") == []
    assert stack.dag("yearly").next_run == datetime(2026, 1, 1)
    require_sound(origins)


def _forget_slots(row: Dags) -> list[Any]:
    row.active = None
    return []


def hourly(schedule: Any = "0 * * * *", **arguments: Any) -> DAG:
    """Return a DAG that has been hourly since nine o'clock."""
    return DAG("dag", schedule=schedule, start_date=NOON.subtract(hours=3), **arguments)


def running_since_nine(deploy: Deploy, *, is_catchup: bool = True) -> LocalStack:
    """Return a deployment at noon whose hourly DAG has all its runs until then."""
    stack = deploy(NOON.subtract(hours=2).add(seconds=5))
    store_dags([hourly(catchup=is_catchup)])
    for hours in (2, 1, 0):
        tick_at(stack, NOON.subtract(hours=hours).add(seconds=5))
    assert len(stack.runs("dag")) == 3
    return stack


SCHEDULES = {
    "half-hourly": "*/30 * * * *",
    "daily": "0 0 * * *",
    "two-hourly": "0 */2 * * *",
    "shifted": "20 * * * *",
    "delta": timedelta(minutes=25),
    "trigger": CronTriggerTimetable("0 * * * *", timezone="UTC"),
}


@pytest.mark.parametrize("is_catchup", [True, False])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_changed_during_a_claim_neither_misses_nor_doubles(
    deploy: Deploy, name: str, is_catchup: bool
) -> None:
    """A push between the read of a claim and its commit wins; the claim follows what it says."""
    stack = running_since_nine(deploy, is_catchup=is_catchup)
    origins = Origins()
    is_overtaken = False

    def read_and_be_overtaken(ids: Any, **more: Any) -> list[Dags]:
        nonlocal is_overtaken
        rows = read_dags(ids, **more)
        if not is_overtaken:
            is_overtaken = True
            define_again(hourly(SCHEDULES[name], catchup=is_catchup), origins)
        return rows

    stack.clock.move(to=NOON.add(hours=1, seconds=5))
    with patch.object(claim_module, "read_dags", read_and_be_overtaken):
        claim_all(["dag"])
    stack.run_until_idle()
    tick_at(stack, NOON.add(hours=2, seconds=5))

    assert is_overtaken
    assert stack.dag("dag").schedule_error is None
    assert NOON in [run.logical_date for run in stack.runs("dag")]
    require_sound(origins)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_changed_there_and_back_neither_misses_nor_doubles(
    deploy: Deploy, name: str
) -> None:
    """Hourly, then something else, then hourly again: every step goes on where the last stood."""
    stack = running_since_nine(deploy)

    origins = Origins()
    define_again(hourly(SCHEDULES[name]), origins)
    tick_at(stack, NOON.add(hours=3, seconds=5))
    require_sound(origins)
    define_again(hourly(), origins)
    tick_at(stack, NOON.add(hours=20, seconds=5))

    assert stack.dag("dag").schedule_error is None
    require_sound(origins)


def test_definition_that_stays_keeps_the_stored_run(deploy: Deploy) -> None:
    """A push that changes neither schedule nor bounds leaves an overdue run where it is."""
    stack = running_since_nine(deploy, is_catchup=False)
    stack.clock.move(to=NOON.add(hours=9))
    before = stack.dag("dag")

    origins = Origins()
    define_again(hourly(catchup=False, description="new words"), origins)

    after = stack.dag("dag")
    assert (after.next_run, after.next_run_after) == (before.next_run, before.next_run_after)
    assert after.version != before.version
    require_sound(origins)
