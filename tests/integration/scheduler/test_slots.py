"""Slots that were damaged from outside: found, and put right."""

from unittest.mock import patch

import pytest

from lamplighter import DAG
from lamplighter.store.models import Dags, Runs
from lamplighter.store.runs import set_state_columns
from lamplighter_local.stack import LocalStack
from lamplighter_operations import repair
from lamplighter_operations.repair import Drift, find_drift, repair_dag
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags
from tests.tools.invariants.tables import violations


@pytest.fixture
def runs(stack: LocalStack) -> list[Runs]:
    """Return two active runs and one that waits for a slot."""
    register_dags(DAG("dag", max_active_runs=2), DAG("other"))
    now = stack.clock.now()
    return [create_manual_run("dag", logical_date=now.subtract(days=day)) for day in range(3)]


def drift() -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Return what is wrong with the one DAG that something may be wrong with."""
    found = find_drift()
    assert [each.dag_id for each in found] in ([], ["dag"])
    return (found[0].dead, found[0].lost) if found else None


def end(run: Runs, stack: LocalStack) -> None:
    """Let a run be over, and forget its slot."""
    run.state = "success"
    set_state_columns(run, stack.clock.now())
    run.save()


def test_slots_of_living_runs_are_no_drift(runs: list[Runs]) -> None:
    """What the protocols leave behind is right."""
    assert drift() is None
    assert repair_dag(Drift("dag", (), ())) is None


def test_slot_of_a_finished_run_is_released(stack: LocalStack, runs: list[Runs]) -> None:
    """The DAG gets it back, and the run that waits for it is released at once."""
    end(runs[0], stack)
    assert drift() == ((runs[0].run_key,), ())
    assert repair_dag(find_drift()[0]) == Drift("dag", (runs[0].run_key,), ())
    assert drift() is None
    stack.run_until_idle()
    assert stack.dag("dag").active == {runs[1].run_key, runs[2].run_key}
    assert violations() == []


def test_slot_of_a_deleted_run_is_released(stack: LocalStack, runs: list[Runs]) -> None:
    """Someone has deleted a row that waits, and one that is active."""
    runs[1].delete()
    runs[2].delete()
    assert drift() == (tuple(sorted((runs[1].run_key, runs[2].run_key))), ())
    repair_dag(find_drift()[0])
    row = stack.dag("dag")
    assert row.active == {runs[0].run_key}
    assert row.waiting is None
    assert violations() == []


def test_run_that_occupies_and_waits_keeps_its_slot(stack: LocalStack, runs: list[Runs]) -> None:
    """Of two places one is given up."""
    row = stack.dag("dag")
    row.active = {*(row.active or ()), runs[2].run_key}
    row.save()
    assert drift() == ((runs[2].run_key,), ())
    repair_dag(find_drift()[0])
    assert stack.dag("dag").waiting is None


def test_runs_without_a_place_get_one(stack: LocalStack, runs: list[Runs]) -> None:
    """One that runs has a slot in truth, whatever the limit; the others wait."""
    row = stack.dag("dag")
    row.active = row.waiting = None
    row.save()
    runs[0].update([Runs.state.set("running"), Runs.state_bucket.set("running#0")])
    assert drift() == ((), tuple(sorted(run.run_key for run in runs)))
    repair_dag(find_drift()[0])
    row = stack.dag("dag")
    assert row.active == {runs[0].run_key}
    assert [entry.partition("|")[2] for entry in sorted(row.waiting or ())] == sorted(
        run.run_key for run in runs[1:]
    )
    assert drift() is None


def test_row_that_moves_meanwhile_is_read_again(stack: LocalStack, runs: list[Runs]) -> None:
    """A run that ends between two reads, with its slot, is no drift."""
    living = repair._living
    moved: list[bool] = []

    def ends_before_it_is_read(dag_id: str, keys: set[str]) -> dict[str, Runs]:
        if not moved:
            moved.append(True)
            end(runs[0], stack)
            row = stack.dag("dag")
            row.update(
                [Dags.active.set({runs[1].run_key}), Dags.rev.set(Dags.rev + 1)],
            )
        return living(dag_id, keys)

    with patch.object(repair, "_living", ends_before_it_is_read):
        assert repair._drift_now("dag", ()) is None
    assert moved


def test_deleted_dag_is_left_alone(runs: list[Runs]) -> None:
    """Runs of a DAG that is gone have no row to be named in."""
    Dags("dag").delete()
    assert drift() is None
    assert repair_dag(Drift("dag", ("x",), ())) is None


def test_run_that_waits_for_its_past_is_not_lost(stack: LocalStack, runs: list[Runs]) -> None:
    """Whether it has begun or not, it has its place on the row."""
    row = stack.dag("dag")
    row.active, row.waiting = None, None
    row.waiting_for_past = {run.run_key for run in runs}
    row.save()
    runs[0].update([Runs.state.set("running"), Runs.state_bucket.set("running#0")])
    assert drift() is None


def test_finished_run_that_waits_for_its_past_is_forgotten(
    stack: LocalStack, runs: list[Runs]
) -> None:
    """One that is over, or has a slot as well, does not wait."""
    row = stack.dag("dag")
    row.waiting_for_past = {runs[0].run_key, "gone"}
    row.save()
    assert drift() == (tuple(sorted((runs[0].run_key, "gone"))), ())
    repair_dag(find_drift()[0])
    assert stack.dag("dag").waiting_for_past is None
    assert drift() is None
