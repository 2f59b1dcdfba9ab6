"""What the tests of the checker plant in the tables, and how they look for it."""

from datetime import timedelta
from typing import Any, Self

from pendulum import datetime

from lamplighter import DAG
from lamplighter.store.models import Catalog, Runs
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter_local.stack import LocalStack
from tests.tools.invariants.tables import violations

NINE = datetime(2026, 1, 5, 9)
NOON = datetime(2026, 1, 5, 12, 0, 5)


class Every(Timetable):
    """An author's timetable: so many hours, and then the next so many."""

    def __init__(self, hours: int = 1) -> None:
        self.hours = hours

    def serialize(self) -> dict[str, Any]:
        return {"hours": self.hours}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        return cls(**data)

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        assert start is not None
        return DagRunInfo.interval(start, start.add(hours=self.hours))


def plant(row: Any, **columns: Any) -> None:
    """Let a row say something else."""
    model = type(row)
    row.update(
        [
            getattr(model, name).remove() if value is None else getattr(model, name).set(value)
            for name, value in columns.items()
        ]
    )


def own(hours: int = 1, **arguments: Any) -> DAG:
    """Return a DAG on an author's timetable, which begins at nine."""
    return DAG("own", schedule=Every(hours), start_date=NINE, **arguments)


def run_at(hour: int, dag_id: str = "own") -> Runs:
    """Return the run whose interval begins at an hour."""
    return next(run for run in Runs.query(dag_id) if run.logical_date == NINE.at(hour))


def stuck(dag_id: str) -> list[str]:
    """Return what is wrong with a DAG that must go on and does not."""
    return [text for text in violations() if text.startswith(f"DAG {dag_id}: ")]


def pretend_ticks(stack: LocalStack, *, minutes: int) -> None:
    """Let time pass and ticks be recorded that look at nothing."""
    stack.clock.advance(timedelta(minutes=minutes))
    ahead = stack.clock.now().add(seconds=stack.settings.look_ahead_seconds)
    Catalog("tick", "look-ahead").update([Catalog.covered_until.set(ahead)])
