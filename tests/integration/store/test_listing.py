"""Lists of runs and events for people: what comes first, and how much is read for it."""

from datetime import timedelta

import pytest
from pendulum import DateTime

from lamplighter import DAG, Asset
from lamplighter.store.assets import recent_events
from lamplighter.store.models import Runs
from lamplighter.store.runs import (
    last_runs,
    recent_runs,
    runs_of,
    set_state_columns,
    unfinished_runs,
)
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags

SHARDS = 8


@pytest.fixture
def dags(stack: LocalStack) -> LocalStack:
    """Return a deployment with two DAGs that run only when asked."""
    register_dags(DAG("a", max_active_runs=99), DAG("b"))
    return stack


def make(stack: LocalStack, dag_id: str, date: DateTime | None, run_id: str | None = None) -> Runs:
    """Create a run a second after the one before."""
    stack.clock.advance(timedelta(seconds=1))
    return create_manual_run(dag_id, logical_date=date, run_id=run_id)


def end(run: Runs, state: str, at: DateTime) -> None:
    """Let a run be over."""
    run.state = state
    set_state_columns(run, at)
    run.save()


def test_runs_of_a_dag_are_in_the_order_of_their_dates(dags: LocalStack) -> None:
    """Dates decide, and where someone chose the id, when the run was created."""
    now = dags.clock.now()
    made = [
        make(dags, "a", now.subtract(days=1)),
        make(dags, "a", None, run_id="zebra"),
        make(dags, "a", now.add(days=1)),
        make(dags, "a", None, run_id="ant"),
    ]
    listed = runs_of("a", limit=9)
    assert [run.run_id for run in listed] == [made[at].run_id for at in (2, 3, 1, 0)]
    assert [run.run_id for run in runs_of("a", limit=2)] == [made[2].run_id, "ant"]


def test_runs_of_a_state_are_found_behind_others(dags: LocalStack) -> None:
    """A filter does not make the list shorter than it could be."""
    runs = [make(dags, "a", dags.clock.now().subtract(days=day)) for day in range(6)]
    end(runs[5], "failed", dags.clock.now())
    assert [run.run_id for run in runs_of("a", limit=2, states=["failed"])] == [runs[5].run_id]


def test_last_runs_are_those_with_the_newest_dates(dags: LocalStack) -> None:
    """A DAG without dated runs has none."""
    make(dags, "a", dags.clock.now().subtract(days=1))
    newest = make(dags, "a", dags.clock.now())
    make(dags, "a", None, run_id="zebra")
    assert {key: run.run_id for key, run in last_runs(["a", "b"]).items()} == {"a": newest.run_id}


def test_recent_runs_are_those_that_changed_last(dags: LocalStack) -> None:
    """Of all DAGs and states, by when they came into their state."""
    now = dags.clock.now()
    old, failed, fine = (make(dags, "a", now.subtract(hours=hour)) for hour in range(3))
    queued = make(dags, "b", now)
    end(failed, "failed", now.add(minutes=2))
    end(fine, "success", now.add(minutes=1))
    end(old, "success", now.subtract(days=1))
    dags.clock.advance(timedelta(minutes=3))
    ids = [(run.dag_id, run.state) for run in recent_runs(limit=9, days=2)]
    assert ids == [("a", "failed"), ("a", "success"), ("b", "queued"), ("a", "success")]
    assert [run.run_id for run in recent_runs(limit=9, days=1)][-1] == queued.run_id
    assert [run.run_id for run in recent_runs(limit=1, days=9)] == [failed.run_id]
    assert [run.state for run in recent_runs(limit=9, days=2, states=["queued"])] == ["queued"]


def test_recent_runs_read_no_more_days_than_needed(dags: LocalStack) -> None:
    """Once there are enough, older days are left alone: three states, a request per shard."""
    end(make(dags, "a", dags.clock.now()), "success", dags.clock.now())
    with counted_calls() as calls:
        recent_runs(limit=1, days=90)
    assert calls["Query"] == 2 * SHARDS + 3 * SHARDS
    assert calls["BatchGetItem"] == 1


def test_unfinished_runs_are_all_that_are_not_over(dags: LocalStack) -> None:
    """Without a limit there is none."""
    runs = [make(dags, "a", dags.clock.now().subtract(days=day)) for day in range(5)]
    end(runs[0], "success", dags.clock.now())
    assert {run.run_key for run in unfinished_runs()} == {run.run_key for run in runs[1:]}


def test_recent_events_are_merged_by_when_they_were_recorded(stack: LocalStack) -> None:
    """The newest of several assets, the newest first."""
    register_dags(DAG("a", schedule=[Asset("x"), Asset("y")]))
    for asset, event_id in (("x", "e1"), ("y", "e2"), ("x", "e3")):
        stack.emit(asset, event_id=event_id)
        stack.run_until_idle()
        stack.clock.advance(timedelta(seconds=1))
    assert [event.event_id for event in recent_events(["x", "y"], limit=2)] == ["e3", "e2"]
