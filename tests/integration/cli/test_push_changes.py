"""What `lamplighter push` says before it acts: next runs, debts, events that nobody will take."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter.zones import iso
from lamplighter_local.stack import LocalStack

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]

HEAD = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.base import DagRunInfo, Timetable
NINE = pendulum.datetime(2026, 1, 5, 9)
"""


def dag(**arguments: str) -> str:
    """Return a file with one DAG."""
    given = {"schedule": "'0 * * * *'", "start_date": "NINE", "max_active_runs": "99"} | arguments
    return HEAD + f"DAG('dag', {', '.join(f'{name}={text}' for name, text in given.items())})\n"


@pytest.fixture(name="push")
def make_push(lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle) -> Command:
    """Return a function that pushes a file, and lets all that follows happen."""

    def push(text: str, *options: str) -> Any:
        result = lamplighter("push", write_bundle({"dags/a.py": text}), "--bundle", "b", *options)
        stack.run_until_idle()
        return result

    return push


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            {"schedule": "'0 0 * * *'"},
            (
                "dag: schedule 0 * * * * → 0 0 * * *;"
                " next run after 2026-01-06 00:00 UTC (was after 2026-01-05 13:00 UTC)"
            ),
        ),
        (
            {"schedule": "[Asset('a')]"},
            (
                "dag: schedule 0 * * * * → Asset; next run unscheduled"
                " (was after 2026-01-05 13:00 UTC)"
            ),
        ),
        (
            {"start_date": "NINE.add(days=3)"},
            (
                "dag: schedule changes;"
                " next run after 2026-01-08 10:00 UTC (was after 2026-01-05 13:00 UTC)"
            ),
        ),
        (
            {"schedule": "'30 6 * * *'", "start_date": "NINE.in_timezone('Europe/Zurich')"},
            (
                "dag: schedule 0 * * * * → 30 6 * * *;"
                " next run after 2026-01-06 05:30 UTC (was after 2026-01-05 13:00 UTC)"
            ),
        ),
    ],
)
def test_edited_schedule_tells_the_next_run_before_and_after(
    push: Command, stack: LocalStack, edit: dict[str, str], said: str
) -> None:
    """What is said before the push is what the row says after it."""
    push(dag())
    result = push(dag(**edit), "--json")
    (change,) = json.loads(result.out)["changes"]
    at = stack.dag("dag").next_run_after
    assert change["next_run_then"] == (None if at is None else iso(at))
    push(dag())
    assert said in push(dag(**edit)).out


def test_schedule_that_goes_there_and_back_never_repeats_an_interval(
    push: Command, stack: LocalStack
) -> None:
    """Hourly, daily, hourly, by assets and hourly again: each interval has one run at most."""
    edits = ["'0 * * * *'", "'0 0 * * *'", "'0 * * * *'", "[Asset('a')]", "'0 * * * *'"]
    for schedule in edits:
        assert push(dag(schedule=schedule)).code == 0
        stack.advance(hours=5)
    runs = [run for run in stack.runs("dag") if run.data_interval_start is not None]
    starts = [run.data_interval_start for run in runs]
    assert len(starts) == len(set(starts)) > 8
    row = stack.dag("dag")
    assert row.next_run_after is not None
    assert row.next_run_after > stack.clock.now()


def test_events_that_nobody_will_take_are_counted(push: Command, stack: LocalStack) -> None:
    """A DAG that stops waiting for an asset loses the events of it that it has not taken."""
    push(dag(schedule="(Asset('a') & Asset('b'))"))
    for _ in range(3):
        stack.emit("a")
    stack.run_until_idle()
    result = push(dag(schedule="[Asset('b')]"))
    assert "dag: schedule changes; next run unscheduled; 3 pending events are dropped" in (
        result.out
    )


def test_dag_that_leaves_is_told_of(push: Command) -> None:
    """Its next run is named, which will not come."""
    push(dag())
    result = push(dag().replace("'dag'", "'other'"))
    assert result.out.splitlines()[0] == (
        "dag is removed from the bundle: no more runs (next was after 2026-01-05 13:00 UTC)"
    )


def test_same_bundle_changes_nothing(push: Command) -> None:
    """An author's timetable is asked each time, and what it says again is not told again."""
    own = """
class Own(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=1))
"""
    text = HEAD + own + "DAG('dag', schedule=Own(), start_date=NINE.add(days=1))\n"
    push(text)
    (line,) = push(text).out.splitlines()
    assert line.startswith("pushed 'b': push 2, 1 DAGs, version ")


def test_broken_file_does_not_make_its_dags_leave(push: Command) -> None:
    """A DAG whose file cannot be imported waits for its author, and is not said to go."""
    push(dag())
    assert "leaves the bundle" not in push("raise ValueError\n", "--force").out


# Schedules that are replaced while runs are due, or where the two do not meet.

EVERY = """
class Every(Timetable):
    def __init__(self, minutes, skew=0):
        self.minutes, self.skew = minutes, skew
    def serialize(self):
        return {"minutes": self.minutes, "skew": self.skew}
    @classmethod
    def deserialize(cls, data):
        return cls(**data)
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        if start.minute == 0:
            start = start.add(minutes=self.skew)
        return DagRunInfo.interval(start, start.add(minutes=self.minutes))
"""


def own_dag(**arguments: str) -> str:
    """Return a file with one DAG that has a timetable of its author's."""
    return dag(**arguments).replace("DAG('dag'", f"{EVERY}\nDAG('dag'")


def test_runs_due_under_the_old_schedule_are_said_to_come_first(
    push: Command, stack: LocalStack
) -> None:
    """A push over a schedule that owes runs counts them, and says when the new one begins."""
    push(dag())
    stack.clock.move(to=stack.clock.now().add(hours=3))
    first, second, *_ = push(dag(schedule="'30 * * * *'")).out.splitlines()
    assert first == (
        "dag: schedule 0 * * * * → 30 * * * *; next run after 2026-01-05 13:00 UTC; due runs come"
        " first, then the new schedule starts with a run after 2026-01-05 15:30 UTC"
    )
    assert second == "dag has 3 runs that are already due"
    assert len(stack.runs("dag")) == 6


def test_owed_runs_that_are_skipped_are_counted(push: Command, stack: LocalStack) -> None:
    """With --skip-owed nothing is asked, the skipped runs are counted and never created."""
    push(dag())
    stack.clock.move(to=stack.clock.now().add(hours=200))
    assert push(dag(schedule="'30 * * * *'")).code == 3
    result = push(dag(schedule="'30 * * * *'"), "--skip-owed")
    assert result.code == 0
    assert "dag skips 200 runs that are already due" in result.out
    assert "next run after 2026-01-13 20:30 UTC" in result.out
    row = stack.dag("dag")
    assert row.next_run_after is not None
    assert iso(row.next_run_after) == "2026-01-13T20:30:00+00:00"
    assert len(stack.runs("dag")) == 3


def test_hole_that_a_timetable_leaves_is_named(push: Command) -> None:
    """An author's timetable that begins later than the old schedule ended leaves time out."""
    push(dag())
    result = push(own_dag(schedule="Every(60, skew=20)"), "--json")
    (change,) = json.loads(result.out)["changes"]
    assert change["uncovered"] == ["2026-01-05T12:00:00+00:00", "2026-01-05T12:20:00+00:00"]
    assert change["repeated"] is None


def test_overlap_that_a_timetable_makes_is_named(push: Command) -> None:
    """An author's timetable that begins earlier than the old schedule ended repeats some time."""
    push(dag())
    result = push(own_dag(schedule="Every(60, skew=-30)"))
    assert "2026-01-05 11:30 UTC to 2026-01-05 12:00 UTC is covered again" in result.out


def test_time_before_a_later_start_date_is_named(push: Command) -> None:
    """A start date after the last interval is the author's wish, and told."""
    push(dag())
    result = push(dag(start_date="NINE.add(days=1)"))
    assert "2026-01-05 12:00 UTC to 2026-01-06 09:00 UTC is not covered" in result.out


def test_old_schedule_that_is_followed_is_shown(
    push: Command, stack: LocalStack, lamplighter: Command
) -> None:
    """`dags show` says which schedule the owed runs come from, and until when."""
    push(dag())
    stack.clock.move(to=stack.clock.now().add(hours=3))
    lamplighter("dags", "pause", "dag")
    push(dag(schedule="'0 0 * * *'"))
    assert "0 * * * *, for the runs that were due until 2026-01-05 15:00 UTC" in (
        lamplighter("dags", "show", "dag").out
    )
    shown = json.loads(lamplighter("dags", "show", "dag", "--json").out)
    assert (shown["previous_schedule"], shown["schedule_switch_at"]) == (
        "0 * * * *",
        "2026-01-05T15:00:00+00:00",
    )


def test_dry_run_shows_the_same_and_pushes_nothing(push: Command, stack: LocalStack) -> None:
    """The DAG is as it was, whatever the preview says."""
    push(dag())
    result = push(dag(schedule="'0 0 * * *'"), "--dry-run")

    assert result.code == 0
    assert "dag: schedule 0 * * * * → 0 0 * * *; next run" in result.out
    assert stack.dag("dag").schedule == "0 * * * *"


def test_dry_run_of_a_new_dag_says_when_it_runs_first(push: Command) -> None:
    """Nothing changes for a DAG that is not there, but its schedule begins."""
    result = push(dag(start_date="NINE.add(days=3)"), "--dry-run")

    assert result.out.splitlines() == [
        "A push of 'b' has 1 DAG",
        "dag is new: 0 * * * *, first run after 2026-01-08 10:00 UTC",
    ]


def test_dry_run_with_many_owed_runs_says_so_without_asking(push: Command) -> None:
    """A comment is not the place to confirm anything; programs can read it too."""
    many = dag(start_date="NINE.subtract(days=30)")
    shown, told = push(many, "--dry-run"), push(many, "--dry-run", "--json")

    assert shown.code == told.code == 0
    assert "runs are already due: the push needs --yes or --skip-owed" in shown.out
    assert json.loads(told.out)["needs_confirmation"] is True


def test_dry_run_as_markdown_is_one_block_that_nothing_ends(push: Command) -> None:
    """Names that authors choose are shown as they are, and read as nothing."""
    result = push(dag(schedule="[Asset('a')]"), "--dry-run", "--markdown")

    head, empty, begin, *lines, end = result.out.splitlines()
    assert (head, empty, begin, end) == ("**A push of 'b' has 1 DAG**", "", "```text", "```")
    assert lines == ["dag is new: Asset, first run unscheduled"]


def test_markdown_without_a_dry_run_is_refused(push: Command) -> None:
    """A push that was meant to be tried would be one."""
    assert push(dag(), "--markdown").code == 2
