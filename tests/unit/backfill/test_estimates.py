"""What a backfill may still cost and take, and how many runs its cap allows. Pure."""

from typing import Any

import pytest

from lamplighter.backfill.estimates import affordable, cost_of_a_run, seconds_left, total_seconds
from lamplighter.store.models import Backfills


def row(**columns: Any) -> Backfills:
    """Return a backfill of twenty runs, four at a time."""
    given: dict[str, Any] = {"total": 20, "max_active_runs": 4, "position": 0} | columns
    return Backfills("dag-1", dag_id="dag", state="running", **given)


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        ({}, 4),
        ({"position": 18}, 2),
        ({"active": {"a", "b", "c"}}, 1),
        ({"max_cost": 10.0}, 1),
        ({"max_cost": 10.0, "active": {"a"}}, 0),
        ({"max_cost": 10.0, "expected_cost": 4.0}, 2),
        ({"max_cost": 10.0, "expected_cost": 4.0, "active": {"a"}}, 1),
        ({"max_cost": 10.0, "expected_cost": 0.0}, 4),
        ({"max_cost": 10.0, "cost": 6.0, "succeeded": 2, "failed": 1}, 2),
        ({"max_cost": 10.0, "cost": 9.0, "succeeded": 3}, 0),
        ({"max_cost": 10.0, "cost": 12.0, "succeeded": 1}, 0),
        ({"max_cost": 0.3, "cost": 0.2, "succeeded": 2}, 1),
        # Runs that are not billed yet.
        ({"max_cost": 10.0, "succeeded": 1, "unbilled_runs": 1}, 0),
        ({"max_cost": 10.0, "expected_cost": 4.0, "succeeded": 2, "unbilled_runs": 2}, 0),
        ({"max_cost": 10.0, "cost": 2.0, "succeeded": 3, "unbilled_runs": 2}, 2),
        ({"max_cost": 10.0, "cost": 2.0, "succeeded": 2, "unbilled_runs": 1, "active": {"a"}}, 2),
    ],
)
def test_cap_allows_what_slots_and_money_do(columns: dict[str, Any], count: int) -> None:
    """What is under way or not billed counts as spent; unknown costs are found out one by one."""
    assert affordable(row(**columns)) == count


def test_cost_of_a_run_is_that_of_its_own_runs_once_there_are_any() -> None:
    """History counts until then."""
    assert cost_of_a_run(row(expected_cost=4.0)) == 4.0
    assert cost_of_a_run(row(expected_cost=4.0, cost=3.0, succeeded=1, cancelled=1)) == 1.5


@pytest.mark.parametrize(
    ("columns", "seconds"),
    [
        ({}, None),
        ({"expected_seconds": 60.0}, 300.0),
        ({"expected_seconds": 60.0, "seconds": 40.0, "succeeded": 4, "position": 4}, 40.0),
        ({"seconds": 40.0, "succeeded": 4, "position": 8, "active": {"a", "b", "c", "d"}}, 40.0),
        ({"seconds": 10.0, "succeeded": 20, "position": 20}, 0.0),
    ],
)
def test_rest_takes_as_long_as_what_is_over(columns: dict[str, Any], seconds: float | None) -> None:
    """So many at a time, each for as long as those before it."""
    assert seconds_left(row(**columns)) == seconds


def test_runs_that_do_not_fill_the_last_round_take_one() -> None:
    """Eleven runs, five at a time, are three rounds."""
    assert total_seconds(11, 5, 60.0) == 180.0
