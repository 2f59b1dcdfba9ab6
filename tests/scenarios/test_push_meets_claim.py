"""A push that arrives between the moment a claim reads its row and the moment it commits."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import DateTime, datetime

from lamplighter.scheduler import claim as claim_module
from lamplighter.store.transactions import transact as real_transact
from lamplighter_local import LocalDeployment

pytestmark = pytest.mark.interferes

# The run of the first day is due in five seconds.
BEFORE_MIDNIGHT = datetime(2026, 1, 5, 23, 59, 55)
TIMETABLE = """
import pendulum
from lamplighter.timetables.base import DagRunInfo, Timetable

class Every(Timetable):
    HOURS = {step}
    def __init__(self, hours=0):
        self.hours = hours
    def serialize(self):
        return {{"hours": self.hours}}
    @classmethod
    def deserialize(cls, data):
        return cls(data["hours"])
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=self.hours or self.HOURS))
"""
DAG_FILE = """
import pendulum
from lamplighter import DAG
from timetables.every import Every

DAG("dag", schedule={schedule}, start_date=pendulum.datetime(2026, 1, 5), max_active_runs=100)
"""


def write(root: Path, schedule: str, *, step: int = 24) -> Path:
    """Write a bundle with one DAG and a timetable of its author's."""
    for folder in ("dags", "timetables"):
        (root / folder).mkdir(exist_ok=True)
    (root / "timetables" / "every.py").write_text(TIMETABLE.format(step=step), encoding="utf-8")
    (root / "dags" / "dag.py").write_text(DAG_FILE.format(schedule=schedule), encoding="utf-8")
    return root


@contextmanager
def overtaken(push: Any) -> Iterator[None]:
    """Let something happen between the next claim's reading and its commit."""
    is_done = False

    def transact(writes: Sequence[Any]) -> None:
        nonlocal is_done
        if not is_done:
            is_done = True
            push()
        real_transact(writes)

    with patch.object(claim_module, "transact", transact):
        yield
    assert is_done


def push(lamp: LocalDeployment, root: Path) -> None:
    """Push and register a bundle; no claim is made meanwhile."""
    lamp.stack.push(root, bundle=root.name, until_idle=False)


def intervals(lamp: LocalDeployment) -> list[tuple[DateTime, DateTime]]:
    """Return the data intervals of all runs, oldest first."""
    runs = lamp.runs("dag")
    return sorted(
        (run.data_interval_start, run.data_interval_end)
        for run in runs
        if run.data_interval_start is not None and run.data_interval_end is not None
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Every(24)", "Every(1)"),
        ("Every(1)", "Every(24)"),
        ("'0 0 * * *'", "Every(1)"),
        ("Every(24)", "'0 * * * *'"),
        ("'0 0 * * *'", "'0 * * * *'"),
        ("Every()", "Every()"),  # only the code of the timetable changes: from 24 hours to one
    ],
)
def test_push_between_reading_and_committing_leaves_no_hole_and_no_overlap(
    tmp_path: Path, before: str, after: str
) -> None:
    """Whatever the claim had read of the old schedule, every interval runs once and none twice."""
    root = write(tmp_path, before)
    with LocalDeployment(root, at=BEFORE_MIDNIGHT) as lamp:
        with overtaken(lambda: push(lamp, write(root, after, step=1))):
            lamp.advance(minutes=5)
        lamp.advance(hours=49)

        assert lamp.dag("dag").schedule_error is None
        found = intervals(lamp)
        assert found[0][0] == datetime(2026, 1, 5)
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(found))
        # All that was complete has its run.
        assert (lamp.now - found[-1][1]).total_hours() < 25


def test_push_of_a_custom_timetable_during_a_claim_leaves_the_dag_runnable(tmp_path: Path) -> None:
    """A DAG that changes from a cron text to an author's timetable goes on, without an error."""
    root = write(tmp_path, "'0 0 * * *'")
    with LocalDeployment(root, at=BEFORE_MIDNIGHT) as lamp:
        with overtaken(lambda: push(lamp, write(root, "Every(24)"))):
            lamp.advance(minutes=5)
        lamp.advance(days=3)

        assert lamp.dag("dag").schedule_error is None
        assert [start.day for start, _ in intervals(lamp)] == [5, 6, 7, 8]
