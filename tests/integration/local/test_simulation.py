"""What is counted in a simulation, and drawn of it."""

from datetime import timedelta
from pathlib import Path

import pytest
from pendulum import DateTime, datetime

from lamplighter.zones import as_utc
from lamplighter_cli.simulate import parse_duration
from lamplighter_cli.simulate_output import duration_text
from lamplighter_local.simulation.plot import draw
from lamplighter_local.simulation.simulate import Peak, Simulation, levels, peak
from lamplighter_operations.views import Run, Step

START = as_utc(datetime(2026, 3, 27, 9, 30))


def minute(number: int) -> DateTime:
    """Return an instant."""
    return as_utc(START.add(minutes=number))


def run(dag_id: str, begin: int, end: int | None, *, due: int | None = None) -> Run:
    """Return a run with one step, between two minutes."""
    created, ended = minute(begin), None if end is None else minute(end)
    return Run(
        dag_id=dag_id,
        run_id=f"scheduled__{created}",
        run_type="scheduled",
        triggered_by="timetable",
        dag_version="000001",
        state="success",
        logical_date=created,
        data_interval_start=created,
        data_interval_end=created,
        run_after=created if due is None else minute(due),
        created_at=created,
        queued_at=created,
        ended_at=ended,
        steps=(
            Step(task_id="t", state="success", submitted_at=created, ended_at=ended or created),
        ),
    )


def simulation(*runs: Run, days: int = 1, more_dags: int = 0) -> Simulation:
    """Return a simulation that had these runs."""
    ids = {each.dag_id for each in runs} | {f"more_{number}" for number in range(more_dags)}
    end = as_utc(START.add(days=days))
    return Simulation(START, end, runs, {"a": 7}, {"a": minute(5)}, tuple(sorted(ids)))


def test_peak_counts_a_span_that_ends_as_gone() -> None:
    """What begins when something else ends takes its place, and does not add to it."""
    spans = [(minute(0), minute(10)), (minute(10), minute(20)), (minute(15), minute(16))]
    assert peak(spans) == Peak(2, minute(15))
    assert levels(spans) == [
        (minute(0), 1),
        (minute(15), 2),
        (minute(16), 1),
        (minute(20), 0),
    ]


def test_peak_counts_what_is_over_at_once() -> None:
    """A run without a step begins and ends at one instant, and was there all the same."""
    assert peak([(minute(3), minute(3))]) == Peak(1, minute(3))
    assert peak([]) == Peak(0, None)


def test_outlook_counts_lateness_of_own_days_only() -> None:
    """What was owed at the start is late by nature; the debt is told beside it."""
    runs = (run("a", 0, 1, due=-600), run("a", 20, 21, due=10), run("a", 30, None), run("b", 1, 2))
    first, second = simulation(*runs).summaries()
    assert (first.runs, first.late_runs, first.latest) == (3, 1, timedelta(minutes=10))
    assert (first.owed, first.behind_since, first.most_at_once) == (7, minute(5), 1)
    assert (second.dag_id, second.late_runs, second.owed, second.behind_since) == ("b", 0, 0, None)


def test_hours_are_those_in_which_runs_were_created() -> None:
    """Hours are whole hours of UTC, in their order, without the empty ones."""
    hours = simulation(run("b", 200, 201), run("a", 0, 1), run("a", 29, 30)).by_hour()
    assert [(hour.hour, dict(dags)) for hour, dags in hours.items()] == [
        (9, {"a": 2}),
        (12, {"b": 1}),
    ]


@pytest.mark.parametrize(("days", "dags"), [(1, 1), (30, 60), (366, 5)])
def test_picture_names_dags_and_groups_those_beyond_its_colours(
    tmp_path: Path, days: int, dags: int
) -> None:
    """Whatever the length, a picture comes out, and the legend has every DAG or its group."""
    runs = [run(f"dag_{number}", 60 * number, 60 * number + 90) for number in range(dags)]
    file = tmp_path / "picture.svg"
    draw(simulation(*runs, days=days, more_dags=1), file)
    text = file.read_text(encoding="utf-8")
    assert "<!-- dag_0 -->" in text
    assert ("<!-- 48 other DAGs -->" in text) == (dags == 60)


def test_picture_of_nothing_is_empty(tmp_path: Path) -> None:
    """Days without a run have a picture too."""
    draw(simulation(), tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1_000


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("90m", 5400), ("1h30m", 5400), ("0.5d", 43200), ("0s", 0)]
)
def test_duration_is_read_by_its_units(text: str, seconds: int) -> None:
    """Numbers with units add up."""
    assert parse_duration(text).total_seconds() == seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, ""), (45, "45 s"), (5400, "1 h 30 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
)
def test_duration_is_told_in_two_units(seconds: int, text: str) -> None:
    """The two largest units say enough."""
    assert duration_text(timedelta(seconds=seconds)) == text
