"""Slots: how many runs may be active, what frees a slot, and what happens when the DAG changes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pendulum import datetime

from lamplighter import DAG
from lamplighter.operations.pause import unpause
from lamplighter.operations.trigger import create_manual_run
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.dags import change_dag, read_dag
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import row_of, store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)
FIVE_PAST = MIDNIGHT.add(seconds=5)


def hourly(**arguments: Any) -> DAG:
    """Return an hourly DAG of which nine intervals have ended at midnight."""
    return DAG("hourly", schedule="0 * * * *", start_date=MIDNIGHT.subtract(hours=9), **arguments)


def redefine(**arguments: Any) -> None:
    """Define the DAG anew, as a push does, and tell the claim."""

    def change(row: Any) -> list[Any]:
        row_of(hourly(**arguments), row=row)
        return []

    change_dag("hourly", change)
    claim_all(["hourly"])


def active(stack: LocalStack) -> int:
    """Return how many slots are occupied."""
    return len(stack.dag("hourly").active or ())


def finish_one(stack: LocalStack, state: str = "success") -> bool:
    """Let the oldest active run end, and deliver what follows."""
    is_first = finish_run("hourly", min(stack.dag("hourly").active or ()), state=state)
    stack.run_until_idle()
    return is_first


def test_lowered_limit_creates_none_until_below_it(deploy: Deploy) -> None:
    """Active runs above a lowered limit go on; the next one starts when there is room again."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=5)])
    stack.tick()
    stack.run_until_idle()
    redefine(max_active_runs=2)
    assert active(stack) == 5

    for left in (4, 3, 2, 2, 2):
        finish_one(stack)
        assert active(stack) == left
        require_sound(limits={"hourly": 5})

    assert len(stack.runs("hourly")) == 7
    require_sound()


def test_raised_limit_fills_at_once(deploy: Deploy) -> None:
    """A DAG that was at its limit gets more runs as soon as the limit is raised."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=1)])
    stack.tick()
    stack.run_until_idle()
    assert active(stack) == 1

    redefine(max_active_runs=4)
    stack.run_until_idle()

    assert active(stack) == 4
    require_sound()


def test_finish_of_a_finished_run_changes_nothing(deploy: Deploy) -> None:
    """The second report of an end frees no second slot and counts no second failure."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=2, max_consecutive_failed_dag_runs=3)])
    stack.tick()
    stack.run_until_idle()
    key = min(stack.dag("hourly").active or ())

    assert finish_run("hourly", key, state="failed") is True
    before = stack.dag("hourly").rev
    assert finish_run("hourly", key, state="failed") is False
    assert finish_run("hourly", key, state="success") is False

    row = stack.dag("hourly")
    assert (row.rev, row.consecutive_failed_runs) == (before, 1)
    assert stack.runs("hourly")[0].state == "failed"
    require_sound()


def test_finish_of_a_run_that_never_was_changes_nothing(deploy: Deploy) -> None:
    """An end that is reported for an unknown run or DAG is not believed."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])

    assert finish_run("hourly", "2020-01-01T00:00:00+00:00", state="success") is False
    assert finish_run("unheard-of", "2020-01-01T00:00:00+00:00", state="success") is False

    assert stack.runs("hourly") == []
    require_sound()


def test_failures_in_a_row_pause_the_dag(deploy: Deploy) -> None:
    """After so many failures in a row the DAG is paused, says why, and gets no more runs."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=1, max_consecutive_failed_dag_runs=2)])
    stack.tick()
    stack.run_until_idle()
    for state in ("failed", "success", "failed"):
        finish_one(stack, state)
    assert stack.dag("hourly").is_paused is False

    finish_one(stack, "failed")
    stack.clock.advance(timedelta(minutes=1))
    stack.tick()

    row = stack.dag("hourly")
    assert row.is_paused is True
    assert (row.active or set(), row.due_shard or 0) == (set(), 0)
    assert row.pause_reason == "2 runs failed in a row"
    require_sound()

    unpause("hourly")
    stack.run_until_idle()
    finish_one(stack, "failed")
    assert stack.dag("hourly").is_paused is False
    assert active(stack) == 1
    require_sound()


def test_dag_deleted_while_a_run_lives_lets_it_end(deploy: Deploy) -> None:
    """A run whose DAG is gone still ends, and does not bring the DAG back."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=2)])
    stack.tick()
    stack.run_until_idle()
    first, second = stack.runs("hourly")
    stack.dag("hourly").delete()

    assert finish_run("hourly", first.run_key, state="success") is True
    assert finish_run("hourly", first.run_key, state="success") is False
    stack.clock.advance(timedelta(minutes=1))
    stack.tick()
    claim_all(["hourly"])

    assert [run.state for run in stack.runs("hourly")] == ["success", "queued"]
    assert second.run_key == stack.runs("hourly")[1].run_key
    assert read_dag("hourly") is None
    require_sound()


def test_dag_deleted_during_its_claim_gets_no_run(deploy: Deploy) -> None:
    """A claim that finds the DAG gone at the last moment creates nothing."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])
    row = stack.dag("hourly")
    row.delete()

    report = claim_all(["hourly"])

    assert report.claimed_runs == 0
    assert stack.runs("hourly") == []


def test_manual_run_at_the_limit_counts_once(deploy: Deploy) -> None:
    """Manual and scheduled runs share the slots: together they never exceed the limit."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=2)])
    create_manual_run("hourly", logical_date=None, run_id="by-hand")

    stack.tick()
    stack.run_until_idle()

    assert active(stack) == 2
    require_sound()
