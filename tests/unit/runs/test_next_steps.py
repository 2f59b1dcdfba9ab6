"""What follows from the states of steps: what may run, in which order, and how a run ends."""

from itertools import pairwise
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.runs.dependencies import next_steps, removed_tasks
from tests.unit.runs.rows import MIDNIGHT, make_dag, make_run, make_undated_run

CHAIN = [("a", "b"), ("b", "c")]
NOTHING: dict[str, Any] = {}


def chain(**b: Any) -> DAG:
    """Return three tasks in a row, the one in the middle with options."""
    return make_dag(CHAIN, a=NOTHING, b=b, c=NOTHING)


def test_next_steps_of_new_run_begins_with_first_tasks() -> None:
    """Only tasks with nothing before them may begin, and the run goes on."""
    found = next_steps(make_dag([("a", "c"), ("b", "c")], a={}, b={}, c={}), {})

    assert (found.ready, found.moves, found.final_state) == (("a", "b"), {}, None)


@pytest.mark.parametrize("state", ["submitted", "running", "cancelling", "up_for_retry"])
def test_next_steps_while_a_step_is_under_way_does_nothing(state: str) -> None:
    """A step that is under way is not begun again, and what follows it waits."""
    found = next_steps(chain(), {"a": state})

    assert (found.ready, found.moves, found.final_state) == ((), {}, None)


def test_next_steps_after_a_failure_fails_all_that_follows_at_once() -> None:
    """What can never run is moved in one go, however far away it is, and the run has failed."""
    found = next_steps(chain(), {"a": "failed"})

    assert found.moves == {"b": "upstream_failed", "c": "upstream_failed"}
    assert (found.ready, found.final_state) == ((), "failed")


def test_next_steps_after_a_skip_skips_until_someone_does_not_mind() -> None:
    """Skips spread along default rules, and end where a rule accepts them."""
    dag = make_dag([*CHAIN, ("c", "d")], a={}, b={}, c={}, d={"trigger_rule": "none_failed"})

    found = next_steps(dag, {"a": "skipped"})

    assert found.moves == {"b": "skipped", "c": "skipped"}
    assert (found.ready, found.final_state) == (("d",), None)


def test_next_steps_orders_by_weight_of_all_that_follows() -> None:
    """A task comes before another if it and all after it, each counted once, weigh more."""
    links = [("long", "x"), ("long", "y"), ("x", "z"), ("y", "z")]
    tasks = dict.fromkeys(("long", "x", "y", "z"), NOTHING)
    dag = make_dag(links, **tasks, heavy={"priority_weight": 5}, four={"priority_weight": 4})

    assert next_steps(dag, {}).ready == ("heavy", "four", "long")


def test_next_steps_orders_equal_weights_by_name() -> None:
    """Nothing but the name decides between equals, so that every function decides alike."""
    assert next_steps(make_dag(c={}, a={}, b={}), {}).ready == ("a", "b", "c")


def test_next_steps_takes_retries_in_the_same_order() -> None:
    """A step that is to be tried again waits in line with the others by its weight."""
    dag = make_dag(a={}, b={"priority_weight": 9}, c={"priority_weight": -3})

    found = next_steps(dag, {"b": "up_for_retry"}, also_ready=["b"])

    assert found.ready == ("b", "a", "c")


@pytest.mark.parametrize(
    ("last", "final_state"),
    [
        ({"b": "success", "c": "success"}, "success"),
        ({"b": "skipped", "c": "skipped"}, "success"),
        ({"b": "success", "c": "failed"}, "failed"),
        ({"b": "upstream_failed", "c": "success"}, "failed"),
        ({"b": "success", "c": "removed"}, "success"),
        ({"b": "success", "c": "up_for_retry"}, None),
        ({"b": "success", "c": "running"}, None),
    ],
)
def test_final_state_of_run_is_that_of_its_last_tasks(
    last: dict[str, str], final_state: str | None
) -> None:
    """A run is over when all its tasks are, and has failed if one of the last ones did."""
    dag = make_dag([("a", "b"), ("a", "c")], a={}, b={}, c={})

    assert next_steps(dag, {"a": "success", **last}).final_state == final_state


def test_final_state_ignores_a_failure_that_someone_dealt_with() -> None:
    """A failure in the middle does not count if the tasks after it succeed all the same."""
    dag = chain(trigger_rule="all_done")

    assert next_steps(dag, {"a": "failed", "b": "success", "c": "success"}).final_state == "success"


def test_final_state_waits_for_a_branch_that_is_no_longer_needed() -> None:
    """A last task that has failed does not end the run while another task still runs."""
    dag = make_dag([("a", "b")], a={}, b={}, other={})

    assert next_steps(dag, {"a": "failed", "other": "running"}).final_state is None


def test_run_without_tasks_is_a_success() -> None:
    """Nothing to do is done at once."""
    assert next_steps(DAG("orders", schedule=None), {}).final_state == "success"


def test_next_steps_with_unknown_steps_ignores_them() -> None:
    """A step of a task that the definition does not have decides nothing."""
    assert next_steps(chain(), {"gone": "failed"}).ready == ("a",)


def test_next_steps_of_a_deep_dag_reaches_its_end() -> None:
    """A row of as many tasks as a DAG may have is planned like any other."""
    names = [f"t{number:03}" for number in range(500)]
    dag = make_dag(pairwise(names), **dict.fromkeys(names, NOTHING))

    found = next_steps(dag, {"t000": "failed"})

    assert set(found.moves) == set(names[1:])
    assert found.final_state == "failed"


# Dates of tasks.

JANUARY = {"start_date": datetime(2026, 1, 1), "end_date": MIDNIGHT}


@pytest.mark.parametrize(
    ("options", "is_removed"),
    [
        ({}, False),
        (JANUARY, False),
        ({"start_date": MIDNIGHT}, False),
        ({"start_date": MIDNIGHT.add(seconds=1)}, True),
        ({"end_date": MIDNIGHT.subtract(seconds=1)}, True),
    ],
)
def test_task_whose_dates_leave_out_the_run_is_removed(
    options: dict[str, Any], is_removed: bool
) -> None:
    """A task is part of the runs from its start to its end, both included."""
    found = removed_tasks(make_dag(load=options), make_run())

    assert found == ({"load": "removed"} if is_removed else {})


def test_task_with_dates_is_part_of_undated_runs_and_backfills() -> None:
    """A run without a date has all tasks, and so has a backfill, which asks for them."""
    dag = make_dag(load={"start_date": MIDNIGHT.add(years=1)})

    assert removed_tasks(dag, make_undated_run()) == {}
    assert removed_tasks(dag, make_run(run_type="backfill")) == {}


def test_removed_task_lets_those_after_it_run() -> None:
    """A default rule does not wait for a task that is no part of the run."""
    found = next_steps(make_dag([("a", "b")], a={}, b={}), {"a": "removed"})

    assert (found.ready, found.moves) == (("b",), {})


def test_run_whose_tasks_are_all_removed_is_a_success() -> None:
    """A run in which no task has a part is over at once."""
    assert next_steps(chain(), dict.fromkeys("abc", "removed")).final_state == "success"
