"""The whole schedule of an author's timetable, from where it began to the run that comes next.

Owns: asking the sandbox, as a backfill does. What is stored about the coming runs is what the
checker wants to verify, so it is not used here.
"""

from collections.abc import Iterator

from pendulum import DateTime

from lamplighter.dags.upcoming import next_runs_query
from lamplighter.errors import DefinitionError, TransientError
from lamplighter.registry.custom_timetables import NextRuns
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import (
    PrecomputedRuns,
    RunSource,
    schedule_in_force,
)
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo

_AT_ONCE = 500


def outlook_of(row: Dags, origin: DagRunInfo | None) -> RunSource | None:
    """Return what says which run follows which from `origin` on; None if nobody can say.

    Nobody can if the bundle is not there, if the timetable raises, or if it has no periods and
    therefore no schedule apart from the runs that were created.
    """
    if not schedule_in_force(row).is_custom:
        return cursor.timetable_runs(row)
    try:
        return _author_outlook(row, origin)
    except (DefinitionError, TransientError):
        return None


def _author_outlook(row: Dags, origin: DagRunInfo | None) -> RunSource | None:
    until = max(_places(row), default=None)
    runs: list[DagRunInfo] = []
    last = origin
    while True:
        found = _ask(row, last)
        if found.error is not None or _is_without_periods(found):
            return None
        new = [info for info in found.runs if last is None or place(info) > place(last)]
        runs += new
        if found.is_last or not new:
            return PrecomputedRuns(runs, is_last=True)
        last = new[-1]
        if until is None or place(last) > until:
            return PrecomputedRuns(runs, is_last=False)


def _places(row: Dags) -> Iterator[DateTime]:
    for info in (cursor.position(row), cursor.stored_next(row)):
        if info is not None:
            yield place(info)


def _ask(row: Dags, last: DagRunInfo | None) -> NextRuns:
    # Asked as of that time: without catchup, a timetable that sees today skips the past.
    schedule = schedule_in_force(row)
    seen_from = schedule.earliest if last is None else last.run_after
    assert seen_from is not None
    query = next_runs_query(row.dag_id, schedule.file, last, count=_AT_ONCE, at=seen_from)
    sandbox = Sandbox(schedule.bundle, schedule.bundle_version)
    return NextRuns.from_json(sandbox.upcoming_runs([query]).get(row.dag_id), limit=_AT_ONCE)


def _is_without_periods(found: NextRuns) -> bool:
    return not found.is_last and len(found.runs) < _AT_ONCE


def place(info: DagRunInfo) -> DateTime:
    """Return where a run stands in its schedule."""
    return info.logical_date or info.run_after
