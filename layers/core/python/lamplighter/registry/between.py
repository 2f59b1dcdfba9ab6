"""The runs of an author's timetable in a range of the past: asked in the sandbox, page by page.

Only those between the bounds of the DAG, which the timetable itself is told of.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from pendulum import DateTime

from lamplighter import clock
from lamplighter.bundles.following import Question
from lamplighter.errors import RefusedError
from lamplighter.registry import authors
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler.schedules import run_as_json
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo
from lamplighter.zones import iso

if TYPE_CHECKING:
    from lamplighter.bundles.following import LastRun

_AT_ONCE = 5_000


def author_runs_between(row: Dags, start: DateTime, end: DateTime) -> Iterator[DagRunInfo]:
    """Yield the runs whose dates are in the range and whose data is complete, oldest first."""
    now = clock.now()
    sandbox = Sandbox(row.bundle, row.bundle_version)
    last: DagRunInfo | None = None
    while True:
        said = authors.read_answer(_ask(sandbox, row, last, at=start), limit=_AT_ONCE)
        if said.error is not None:
            raise RefusedError(f"DAG {row.dag_id!r}: its timetable cannot answer: {said.error}")
        for info in said.runs:
            if info == last:
                continue  # without catchup an answer begins with the newest that is due
            if _place(info) >= end or _complete_at(info) >= now:
                return
            if _place(info) >= start:
                yield info
        if said.is_last or not said.runs or said.runs[-1] == last:
            return
        last = said.runs[-1]


def _ask(sandbox: Sandbox, row: Dags, last: DagRunInfo | None, *, at: DateTime) -> object:
    # Seen from the beginning of the range, or a timetable without catchup would skip it.
    seen_from = at if last is None else last.run_after
    known = None if last is None else {**run_as_json(last), "partition_date": None}
    question = Question(
        dag_id=row.dag_id,
        file=row.place.rpartition("#")[0],
        last=cast("LastRun | None", known),
        count=_AT_ONCE,
        at=iso(seen_from),
    )
    return sandbox.coming_runs([question]).get(row.dag_id, "no answer")


def _place(info: DagRunInfo) -> DateTime:
    return info.logical_date or info.run_after


def _complete_at(info: DagRunInfo) -> DateTime:
    return info.run_after if info.data_interval is None else info.data_interval.end
