"""Moves of steps and runs: those in the table, and no others."""

from itertools import product

import pytest

from lamplighter.runs.states import LIVE, OVER, RUN_MOVES, STEP_MOVES, move_run, move_step
from tests.unit.runs.rows import make_run, make_step

# Written down a second time, so that a slip in the table does not go unseen.
STEPS = {
    "none": {"scheduled", "submitted", "success", "failed", "skipped", "upstream_failed"},
    "scheduled": {"submitted", "failed", "skipped", "upstream_failed", "none"},
    "submitted": {
        "scheduled",
        "running",
        "cancelling",
        "success",
        "failed",
        "up_for_retry",
        "skipped",
    },
    "running": {"cancelling", "success", "failed", "up_for_retry", "skipped"},
    "cancelling": {"none", "success", "failed", "up_for_retry", "skipped"},
    "up_for_retry": {"scheduled", "submitted", "failed", "none"},
    "success": {"none"},
    "failed": {"none"},
    "skipped": {"none"},
    "upstream_failed": {"none"},
}
RUNS = {
    "queued": {"running", "success", "failed", "cancelled"},
    "running": {"success", "failed", "cancelled"},
    "success": {"queued"},
    "failed": {"queued"},
    "cancelled": {"queued"},
}


@pytest.mark.parametrize(("before", "after"), list(product(STEPS, repeat=2)))
def test_move_of_step_is_in_the_table_or_refused(before: str, after: str) -> None:
    """A legal move of a step is made; any other is an error that names step, run and states."""
    run = make_run()
    step = make_step(run, state=before)

    if after in STEPS[before]:
        move_step(step, after)
        assert step.state == after
    else:
        with pytest.raises(ValueError, match=f"'load' of orders.* cannot go {before} -> {after}"):
            move_step(step, after)
        assert step.state == before


@pytest.mark.parametrize(("before", "after"), list(product(RUNS, repeat=2)))
def test_move_of_run_is_in_the_table_or_refused(before: str, after: str) -> None:
    """A legal move of a run is made; any other is an error that names run, DAG and states."""
    run = make_run(state=before)

    if after in RUNS[before]:
        move_run(run, after)
        assert run.state == after
    else:
        with pytest.raises(ValueError, match=f"'orders' cannot go {before} -> {after}"):
            move_run(run, after)
        assert run.state == before


def test_tables_of_moves_know_all_states_and_no_others() -> None:
    """Every state has its moves, every move leads to a state, and live steps are never over."""
    assert {state: set(after) for state, after in STEP_MOVES.items()} == STEPS
    assert {state: set(after) for state, after in RUN_MOVES.items()} == RUNS
    assert not LIVE & OVER


@pytest.mark.parametrize("state", ["", "gone", "SUCCESS"])
def test_move_to_a_state_that_is_none_is_refused(state: str) -> None:
    """A word that is no state is never assigned."""
    with pytest.raises(ValueError, match="cannot go"):
        move_step(make_step(make_run()), state)
