"""Slots of a DAG's row: how runs move between occupying one, waiting for one, and neither."""

from collections.abc import Callable
from typing import Any

import pytest
from pendulum import datetime

from lamplighter.store import slots
from lamplighter.store.models import Dags

NINE, TEN = datetime(2026, 1, 1, 9), datetime(2026, 1, 1, 10)
AT_NINE, AT_TEN = slots.waiting_entry(NINE, "x"), slots.waiting_entry(TEN, "x")


def row(**columns: Any) -> Dags:
    """Return the row of a DAG with two slots."""
    return Dags("dag", **{"max_active_runs": 2, **columns})


def places(row: Dags) -> dict[str, set[str]]:
    """Return the columns that name runs."""
    columns = ("active", "waiting", "waiting_for_past")
    return {name: value for name in columns if (value := getattr(row, name)) is not None}


@pytest.mark.parametrize(
    ("before", "move", "after"),
    [
        ({}, lambda dag: slots.occupy(dag, ["x"]), {"active": {"x"}}),
        ({"active": {"a"}}, lambda dag: slots.occupy(dag, ["x"]), {"active": {"a", "x"}}),
        ({}, lambda dag: slots.occupy(dag, []), {}),
        ({}, lambda dag: slots.wait_for_slot(dag, "x", since=NINE), {"waiting": {AT_NINE}}),
        ({"waiting": {AT_NINE}}, lambda dag: slots.stop_waiting(dag, [AT_NINE]), {}),
        ({"waiting": {AT_NINE}}, lambda dag: slots.stop_waiting(dag, [AT_TEN]),
         {"waiting": {AT_NINE}}),
        ({"active": {"x", "a"}}, lambda dag: slots.give_back(dag, "x"),
         {"active": {"a"}, "waiting_for_past": {"x"}}),
        ({"active": {"a"}}, lambda dag: slots.give_back(dag, "x"), {"active": {"a"}}),
        ({"waiting_for_past": {"x"}}, lambda dag: slots.queue_again(dag, "x", now=TEN),
         {"waiting": {AT_TEN}}),
        ({"active": {"x"}}, lambda dag: slots.release(dag, "x"), {}),
        ({"waiting": {AT_NINE}}, lambda dag: slots.release(dag, "x"), {}),
        ({"waiting_for_past": {"x", "a"}}, lambda dag: slots.release(dag, "x"),
         {"waiting_for_past": {"a"}}),
    ],
    ids=["occupy the first", "occupy another", "occupy none", "wait", "stop waiting",
         "stop waiting of another", "give back", "give back without a slot", "queue again",
         "release a slot", "release a place in line", "release one that waits for its past"],
)  # fmt: skip
def test_run_moves_between_the_columns(
    before: dict[str, set[str]], move: Callable[[Dags], None], after: dict[str, set[str]]
) -> None:
    """Each move changes the columns that it means, and leaves no empty set behind."""
    dag = row(**before)
    move(dag)
    assert places(dag) == after


@pytest.mark.parametrize(
    ("columns", "is_running", "expected"),
    [
        ({"active": {"x"}}, False, True),
        ({}, False, False),
        ({}, True, True),
        ({"waiting": {AT_NINE}}, True, False),
        ({"waiting_for_past": {"x"}}, True, False),
    ],
    ids=["named", "queued", "running and not named", "running and waiting", "gave it back"],
)
def test_running_run_holds_its_slot_unless_it_waits(
    columns: dict[str, set[str]], *, is_running: bool, expected: bool
) -> None:
    """A run that has begun occupies a slot even if someone has edited the row by hand."""
    assert slots.holds_slot(row(**columns), "x", is_running=is_running) is expected


@pytest.mark.parametrize(
    ("columns", "running", "queued", "dead", "lost", "after"),
    [
        ({"active": {"x"}}, {"x"}, {}, set(), set(), {"active": {"x"}}),
        ({"active": {"x"}}, set(), {}, {"x"}, set(), {}),
        ({}, {"x"}, {}, set(), {"x"}, {"active": {"x"}}),
        ({}, set(), {"x": NINE}, set(), {"x"}, {"waiting": {AT_NINE}}),
        ({"waiting": {AT_TEN}}, set(), {"x": NINE}, set(), set(), {"waiting": {AT_TEN}}),
        ({"active": {"x"}, "waiting": {AT_NINE}}, {"x"}, {}, {"x"}, set(), {"active": {"x"}}),
        ({"waiting": {AT_NINE}, "waiting_for_past": {"x"}}, set(), {"x": NINE}, {"x"}, set(),
         {"waiting": {AT_NINE}}),
        ({"waiting_for_past": {"x", "a"}}, {"x"}, {}, {"a"}, set(), {"waiting_for_past": {"x"}}),
    ],
    ids=["right", "over", "running and not named", "queued and not named", "waiting", "twice",
         "in line and waiting for its past", "waiting for its past and over"],
)  # fmt: skip
def test_slots_are_corrected_by_the_runs(  # noqa: PLR0917 - the columns of a table
    columns: dict[str, set[str]],
    running: set[str],
    queued: dict[str, Any],
    dead: set[str],
    lost: set[str],
    after: dict[str, set[str]],
) -> None:
    """Every unfinished run has one place, finished ones have none, and what changed is told."""
    dag = row(**columns)
    assert slots.correct(dag, running=running, queued=queued) == (dead, lost)
    assert places(dag) == after
