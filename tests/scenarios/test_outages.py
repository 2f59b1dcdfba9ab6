"""Nobody ticks for days, or a DAG is paused that long: what is made up for, and what is not."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.tools.definitions import store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)


def six_hourly(dag_id: str, **arguments: Any) -> DAG:
    """Return a DAG whose first interval ends at six o'clock."""
    return DAG(dag_id, schedule="0 */6 * * *", start_date=MIDNIGHT, **arguments)


def logical_hours(stack: LocalStack, dag_id: str) -> list[int]:
    """Return the logical dates of a DAG's runs, in hours since midnight."""
    dates = (run.logical_date for run in stack.runs(dag_id))
    return [round((date - MIDNIGHT).total_seconds() / 3600) for date in dates if date is not None]


def finish_all(stack: LocalStack, dag_id: str) -> None:
    """Let runs end one after the other, oldest first, until none is left."""
    while keys := sorted(stack.dag(dag_id).active or ()):
        finish_run(dag_id, keys[0], state="success")
        stack.run_until_idle()


def running_since_six(deploy: Deploy) -> LocalStack:
    """Return a deployment with both kinds of DAG, each with its first run, at six o'clock."""
    stack = deploy(MIDNIGHT.add(hours=5, minutes=58))
    store_dags([six_hourly("all", max_active_runs=2), six_hourly("newest", catchup=False)])
    stack.advance(to=MIDNIGHT.add(hours=6, seconds=30))
    assert (logical_hours(stack, "all"), logical_hours(stack, "newest")) == ([0], [0])
    finish_all(stack, "all")
    return stack


@pytest.mark.parametrize("missed", [18, 72])
def test_outage_is_made_up_for_only_with_catchup(deploy: Deploy, missed: int) -> None:
    """After hours without a tick, catchup creates all in order, and its absence the newest one."""
    stack = running_since_six(deploy)
    stack.clock.advance(timedelta(hours=missed))

    stack.tick()
    stack.run_until_idle()
    assert logical_hours(stack, "all") == [0, 6, 12]
    require_sound()
    finish_all(stack, "all")

    assert logical_hours(stack, "all") == list(range(0, missed + 1, 6))
    assert logical_hours(stack, "newest") == [0, missed]
    require_sound()


def test_pause_of_days_is_made_up_for_only_with_catchup(deploy: Deploy) -> None:
    """Un-pausing after three days creates what was missed with catchup, else the newest run."""
    stack = running_since_six(deploy)
    for dag_id in ("all", "newest"):
        pause(dag_id)
    stack.advance(days=3)
    assert (logical_hours(stack, "all"), logical_hours(stack, "newest")) == ([0], [0])

    for dag_id in ("all", "newest"):
        unpause(dag_id)
    stack.run_until_idle()
    finish_all(stack, "all")

    assert logical_hours(stack, "all") == list(range(0, 73, 6))
    assert logical_hours(stack, "newest") == [0, 72]
    require_sound()


def test_unpause_recomputes_the_next_run_at_once(deploy: Deploy) -> None:
    """The row of an un-paused DAG names the newest interval before any tick has seen it."""
    stack = running_since_six(deploy)
    pause("newest")
    stack.clock.advance(timedelta(days=3))

    row = unpause("newest")

    assert row.next_run == MIDNIGHT.add(hours=72)
    assert row.next_run_after == row.next_run_create_after == MIDNIGHT.add(hours=78)
    require_sound()


def test_pause_between_two_intervals_changes_nothing(deploy: Deploy) -> None:
    """A pause that is over before the next interval is neither late nor early nor a run more."""
    stack = running_since_six(deploy)
    for dag_id in ("all", "newest"):
        pause(dag_id)
        pause(dag_id)
    stack.advance(minutes=20)
    for dag_id in ("all", "newest"):
        unpause(dag_id)
        unpause(dag_id)
    stack.advance(to=MIDNIGHT.add(hours=12, seconds=1))

    assert logical_hours(stack, "all") == [0, 6]
    assert logical_hours(stack, "newest") == [0, 6]
    lateness = stack.runs("all")[1].created_at - MIDNIGHT.add(hours=12)
    assert lateness <= timedelta(seconds=1)
    require_sound()


def test_dag_paused_from_birth_gets_nothing_until_unpaused(deploy: Deploy) -> None:
    """A DAG that is born paused is in no index, and has its first runs when it is un-paused."""
    stack = deploy(MIDNIGHT.add(hours=25))
    store_dags([six_hourly("asleep", is_paused_upon_creation=True)])
    stack.advance(minutes=10)
    assert stack.dag("asleep").due_shard is None
    assert stack.runs("asleep") == []

    unpause("asleep")
    stack.run_until_idle()

    assert logical_hours(stack, "asleep") == [0, 6, 12, 18]
    require_sound()


def test_outage_that_covers_the_end_date_loses_no_run(deploy: Deploy) -> None:
    """A schedule that ended while nobody ticked still gets the runs that it was owed."""
    stack = deploy(MIDNIGHT.add(hours=5, minutes=58))
    until: DateTime = MIDNIGHT.add(hours=18)
    store_dags(
        [six_hourly("all", end_date=until), six_hourly("newest", end_date=until, catchup=False)],
    )
    stack.clock.advance(timedelta(days=2))

    stack.tick()
    stack.run_until_idle()

    assert logical_hours(stack, "all") == [0, 6, 12, 18]
    assert logical_hours(stack, "newest") == [18]
    assert stack.dag("all").next_run_create_after is None
    require_sound()
