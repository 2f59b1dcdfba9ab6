"""Runs that people ask for beside a schedule: dates already taken, limits, pauses."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.errors import RefusedError
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)
FIVE_PAST = MIDNIGHT.add(seconds=5)


def hourly(dag_id: str = "hourly", *, ended: int = 1, **arguments: Any) -> DAG:
    """Return an hourly DAG of which so many intervals have ended at midnight."""
    start = MIDNIGHT.subtract(hours=ended)
    return DAG(dag_id, schedule="0 * * * *", start_date=start, **arguments)


def unscheduled(**arguments: Any) -> DAG:
    """Return a DAG that only people start."""
    return DAG("unscheduled", schedule=None, start_date=MIDNIGHT.subtract(days=1), **arguments)


def ask(dag_id: str, *run_ids: str) -> None:
    """Ask for undated runs."""
    for run_id in run_ids:
        create_manual_run(dag_id, logical_date=None, run_id=run_id)


def types(stack: LocalStack, dag_id: str) -> list[str]:
    """Return what kind of run each date has, oldest first."""
    return [run.run_type for run in stack.runs(dag_id)]


@pytest.mark.parametrize("is_catchup", [True, False])
def test_manual_run_of_the_due_date_has_no_twin(deploy: Deploy, is_catchup: bool) -> None:
    """A manual run that took the due date keeps it; the schedule moves on and makes no second."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(catchup=is_catchup)])
    create_manual_run("hourly", logical_date=MIDNIGHT.subtract(hours=1))

    stack.tick()
    stack.run_until_idle()

    assert types(stack, "hourly") == ["manual"]
    assert stack.dag("hourly").next_run == MIDNIGHT
    require_sound()


@pytest.mark.parametrize("taken", [2, 9])
def test_manual_runs_of_many_dates_do_not_stop_the_schedule(deploy: Deploy, taken: int) -> None:
    """However many dates in a row are taken already, the schedule gets past all of them."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(ended=taken + 1, max_active_runs=taken + 3)])
    for hours in range(taken):
        date = MIDNIGHT.subtract(hours=taken + 1 - hours)
        create_manual_run("hourly", logical_date=date)

    stack.tick()
    stack.run_until_idle()

    assert types(stack, "hourly") == ["manual"] * taken + ["scheduled"]
    assert stack.dag("hourly").next_run == MIDNIGHT
    require_sound()


def test_manual_runs_of_every_other_date_leave_the_rest(deploy: Deploy) -> None:
    """Dates that are free get their scheduled run, dates that are taken keep their manual one."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(ended=6)])
    for hours in (2, 4, 6):
        create_manual_run("hourly", logical_date=MIDNIGHT.subtract(hours=hours))

    for _ in range(3):
        stack.tick()
        stack.run_until_idle()
        stack.clock.advance(timedelta(minutes=1))

    assert types(stack, "hourly") == ["manual", "scheduled"] * 3
    require_sound()


def test_manual_run_of_an_existing_date_is_refused(deploy: Deploy) -> None:
    """A date that has its run cannot get another one by hand."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])
    stack.tick()

    with pytest.raises(RefusedError, match="already"):
        create_manual_run("hourly", logical_date=MIDNIGHT.subtract(hours=1))

    assert types(stack, "hourly") == ["scheduled"]
    require_sound()


def test_manual_run_in_another_zone_is_the_same_date(deploy: Deploy) -> None:
    """A date is an instant: written in another zone it is still taken."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])
    stack.tick()

    with pytest.raises(RefusedError, match="already"):
        create_manual_run(
            "hourly", logical_date=MIDNIGHT.subtract(hours=1).in_timezone("Asia/Kathmandu")
        )


def test_manual_runs_at_the_limit_are_released_oldest_first(deploy: Deploy) -> None:
    """Runs that found no slot wait for one, and get it in the order in which they came."""
    stack = deploy(FIVE_PAST)
    store_dags([unscheduled(max_active_runs=1)])
    for run_id in ("zebra", "ant", "moth"):
        ask("unscheduled", run_id)
        stack.clock.advance(timedelta(seconds=1))
    order: list[str] = []

    while active := stack.dag("unscheduled").active:
        (key,) = active
        order.append(key)
        require_sound()
        finish_run("unscheduled", key, state="success")
        stack.run_until_idle()

    assert order == ["~zebra", "~ant", "~moth"]
    require_sound()


def test_manual_run_gets_the_next_slot_while_the_schedule_catches_up(deploy: Deploy) -> None:
    """What a person asked for comes first, then the schedule goes on where it was."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(ended=3, max_active_runs=1)])
    stack.tick()
    ask("hourly", "by-hand")
    order: list[str] = []

    while active := stack.dag("hourly").active:
        order += sorted(active)
        finish_run("hourly", order[-1], state="success")
        stack.run_until_idle()
        require_sound()

    assert [key[:13] for key in order] == [
        "2025-12-31T21",
        "~by-hand",
        "2025-12-31T22",
        "2025-12-31T23",
    ]


def test_manual_run_before_a_later_due_time_goes_first(deploy: Deploy) -> None:
    """A manual run that waited since before the next interval ended gets its slot before it."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=1)])
    stack.tick()
    ask("hourly", "by-hand")
    stack.advance(to=MIDNIGHT.add(hours=2, seconds=5))

    finish_run("hourly", stack.runs("hourly")[0].run_key, state="success")
    stack.run_until_idle()

    assert stack.dag("hourly").active == {"~by-hand"}
    assert stack.dag("hourly").next_run == MIDNIGHT
    require_sound()


def test_manual_run_of_a_paused_dag_waits_for_unpause(deploy: Deploy) -> None:
    """A paused DAG keeps what it was asked for, and starts it when it is un-paused."""
    stack = deploy(FIVE_PAST)
    store_dags([unscheduled()])
    pause("unscheduled")
    ask("unscheduled", "first", "second")
    stack.advance(hours=2)
    assert stack.dag("unscheduled").active is None
    require_sound()

    unpause("unscheduled")
    stack.run_until_idle()

    assert stack.dag("unscheduled").active == {"~first", "~second"}
    assert stack.dag("unscheduled").waiting is None
    require_sound()


@pytest.mark.parametrize(("asked", "limit"), [(30, 16), (120, 200)])
def test_waiting_runs_beyond_one_transaction_are_all_released(
    deploy: Deploy, asked: int, limit: int
) -> None:
    """More waiting runs than a transaction holds hold up nobody, and all get their slots."""
    stack = deploy(FIVE_PAST)
    store_dags([unscheduled(max_active_runs=limit), hourly()])
    pause("unscheduled")
    ask("unscheduled", *(f"run-{number:03}" for number in range(asked)))
    unpause("unscheduled")

    stack.tick()
    stack.run_until_idle()

    assert len(stack.runs("hourly")) == 1
    assert len(stack.dag("unscheduled").active or ()) == min(asked, limit)
    require_sound()


def test_manual_run_cancelled_while_it_waits_leaves_the_queue(deploy: Deploy) -> None:
    """A run that ends before it had a slot frees its place, and nobody else's slot."""
    stack = deploy(FIVE_PAST)
    store_dags([unscheduled(max_active_runs=1)])
    ask("unscheduled", "first", "second", "third")

    finish_run("unscheduled", "~second", state="cancelled")
    stack.run_until_idle()

    assert stack.dag("unscheduled").active == {"~first"}
    assert len(stack.dag("unscheduled").waiting or ()) == 1
    require_sound()


def test_manual_run_never_moves_the_position(deploy: Deploy) -> None:
    """A manual run far in the past or the future does not move where the schedule stands."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])
    stack.tick()
    before = stack.dag("hourly")

    for days in (-400, 400):
        create_manual_run("hourly", logical_date=MIDNIGHT.add(days=days, minutes=17))
    after = stack.dag("hourly")

    assert after.last_interval_start == before.last_interval_start
    assert after.next_run == before.next_run == MIDNIGHT
    require_sound()


@pytest.mark.parametrize("limit", [1, 16])
def test_waiting_run_whose_date_comes_due_keeps_its_place(deploy: Deploy, limit: int) -> None:
    """A manual run that waits is the run of its date; it gets a slot and the schedule a pass."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(ended=3, max_active_runs=limit)])
    pause("hourly")
    for hours in (2, 1):
        create_manual_run("hourly", logical_date=MIDNIGHT.subtract(hours=hours))
    order: list[str] = []

    unpause("hourly")
    stack.tick()
    stack.run_until_idle()
    while active := stack.dag("hourly").active:
        require_sound()
        order.append(min(active))
        finish_run("hourly", order[-1], state="success")
        stack.run_until_idle()

    assert sorted(order) == [run.run_key for run in stack.runs("hourly")]
    assert types(stack, "hourly") == ["scheduled", "manual", "manual"]
    require_sound()


def test_date_taken_amid_a_backlog_does_not_slow_it(deploy: Deploy) -> None:
    """The runs before a date that exists are created with the first tick, and those after it."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(ended=40, max_active_runs=100)])
    taken = create_manual_run("hourly", logical_date=MIDNIGHT.subtract(hours=25))
    finish_run("hourly", taken.run_key, state="success")

    stack.tick()

    assert types(stack, "hourly") == ["scheduled"] * 15 + ["manual"] + ["scheduled"] * 24
    require_sound()


def test_manual_run_of_a_type_that_is_not_allowed_is_refused(deploy: Deploy) -> None:
    """A DAG may say which types of runs it has; the error says how to change that."""
    deploy(MIDNIGHT)
    store_dags([DAG("only", schedule=None, allowed_run_types=["backfill", "scheduled"])])
    with pytest.raises(RefusedError, match="add 'manual' to its allowed_run_types"):
        create_manual_run("only", logical_date=None)
