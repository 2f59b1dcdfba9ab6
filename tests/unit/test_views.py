"""The read model: rows as the values that people and programs look at."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from pendulum import datetime

from lamplighter.errors import RefusedError
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter_operations.views import Run, run_summary, view_backfill, view_dag, view_steps
from tests.unit.runs.rows import NOON, make_run, make_step, make_undated_run

FUNCTIONS = Path(__file__).parents[2] / "functions"


def dag_row(**columns: Any) -> Dags:
    """Return the row of a DAG that may run."""
    given = {
        "schedule": "0 * * * *",
        "timetable": '{"type": "CronDataIntervalTimetable", "data": {"timezone": "Europe/Zurich"}}',
        "catchup": False,
        "max_active_runs": 3,
        "bundle": "shop",
        "bundle_version": "v1",
        "push": 2,
        "source_key": "dags/sales.py#sales",
        "version": "000001",
        **columns,
    }
    return Dags("sales", **given)


def backfill_row(**columns: Any) -> Backfills:
    """Return the row of a backfill of ten dates."""
    given = {
        "dag_id": "sales",
        "state": "running",
        "reprocess": "none",
        "start": datetime(2026, 1, 1),
        "end": datetime(2026, 1, 11),
        "total": 10,
        "max_active_runs": 2,
        "created_at": NOON,
        **columns,
    }
    return Backfills("sales-1", **given)


def test_field_of_a_run_is_the_column_of_its_name() -> None:
    """What is declared as a field is shown, without another line for it."""
    derived = {"conf", "marks", "events", "steps", "expired_events"}
    columns = {field.name for field in fields(Run)} - derived
    assert columns <= Runs.get_attributes().keys()
    row = make_run(reason="by hand", cost=0.5, unbilled_jobs=2)
    assert {name: getattr(run_summary(row), name) for name in columns} == {
        name: getattr(row, name) for name in columns
    }


def test_run_knows_its_name_and_key_and_how_late_it_was() -> None:
    """All three follow from its columns."""
    run = run_summary(make_run(created_at=datetime(2026, 2, 1, 0, 5)))
    assert run.name == f"orders/{run.run_id}"
    assert run.run_key == "2026-01-31T00:00:00+00:00"
    assert run.delay.total_seconds() == 300
    undated = make_undated_run()
    assert run_summary(undated).run_key == undated.run_key


def test_run_of_a_list_has_no_steps_and_says_so() -> None:
    """A step that is asked for by name is refused with the names that there are."""
    run = run_summary(make_run(events={"x": [0, 1]}))
    assert (run.steps, run.events, run.conf, run.error) == ((), (), {}, None)
    with pytest.raises(RefusedError, match=r"has no step 'load' \(there are: none yet"):
        run.step("load")


def test_steps_stand_in_the_order_of_their_submissions() -> None:
    """Those that have not been submitted come last, by name."""
    run = make_run()
    rows = [
        make_step(run, "b", state="none"),
        make_step(run, "a", state="none"),
        make_step(run, "second", submitted_at=NOON.add(seconds=1)),
        make_step(run, "first", submitted_at=NOON, error="Traceback\nValueError: no"),
    ]
    steps = view_steps(rows)
    assert [step.task_id for step in steps] == ["first", "second", "a", "b"]
    assert (steps[0].try_number, steps[0].tries, steps[0].error) == (1, (), rows[3].error)


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({}, "active"),
        ({"is_paused": True}, "paused"),
        ({"is_paused": True, "schedule_error": "never"}, "broken"),
        ({"has_import_errors": True}, "broken"),
        ({"is_stale": True, "has_import_errors": True}, "stale"),
    ],
)
def test_dag_has_one_word_for_its_state(columns: dict[str, Any], state: str) -> None:
    """Of several reasons the one that must go first is named."""
    assert view_dag(dag_row(**columns)).state == state


@pytest.mark.parametrize(
    ("timetable", "zone"),
    [
        ('{"data": {"timezone": "Europe/Zurich"}}', "Europe/Zurich"),
        ('{"data": {"timetable": {"data": {"timezone": "Asia/Tokyo"}}}}', "Asia/Tokyo"),
        ('{"data": {}}', None),
        ("not JSON", None),
    ],
)
def test_zone_of_a_dag_is_that_of_its_schedule(timetable: str, zone: str | None) -> None:
    """A schedule within another has it too; where none can be read there is none."""
    found = view_dag(dag_row(timetable=timetable)).zone
    assert (None if found is None else found.name) == zone


def test_dag_lists_its_runs_and_its_file() -> None:
    """Sets become sorted tuples, and entries of those that wait become keys."""
    waiting = {"2026-01-02|b", "2026-01-01|c"}
    dag = view_dag(dag_row(active={"z", "a"}, waiting=waiting, asset_condition={"all": ["y", "x"]}))
    assert (dag.active, dag.waiting, dag.asset_ids) == (("a", "z"), ("c", "b"), ("x", "y"))
    assert (dag.file, dag.push) == ("dags/sales.py", 2)


@pytest.mark.parametrize(("state", "seconds"), [("running", 249.9), ("completed", None)])
def test_backfill_says_how_long_it_takes_while_it_is_open(
    state: str, seconds: float | None
) -> None:
    """Five dates are left, two at a time, at the pace of those that are over."""
    row = backfill_row(state=state, position=5, succeeded=3, failed=1, passed=1, seconds=333.2)
    backfill = view_backfill(row)
    assert (backfill.done, backfill.is_open) == (5, state == "running")
    assert backfill.seconds_left == (None if seconds is None else pytest.approx(seconds))


def test_no_function_imports_the_read_model() -> None:
    """It serves people; a cold start does not pay for it."""
    sources = [path.read_text(encoding="utf-8") for path in FUNCTIONS.rglob("*.py")]
    assert sources
    assert not [source for source in sources if "lamplighter_operations.views" in source]
