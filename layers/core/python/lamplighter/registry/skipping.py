"""Skips the runs that a DAG owes: its schedule goes on as if they had been created."""

from collections.abc import Sequence

from pendulum import DateTime

from lamplighter.bundles.following import Question
from lamplighter.errors import DefinitionError
from lamplighter.registry import authors
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import cursor
from lamplighter.scheduler.cursor import Due
from lamplighter.scheduler.schedules import followed_until, schedule_in_force
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write
from lamplighter.timetables.base import DagRunInfo

# So much of what an author's timetable owes is walked through.
_RUNS_AT_ONCE, _MAX_ANSWERS = 5_000, 20


def skip_owed(row: Dags, *, now: DateTime) -> Sequence[Write]:
    """Let the schedule stand after the last run that is due; return the other writes for it."""
    if row.schedule_switch_at is not None:
        _skip_old(row, now)
    stored = cursor.stored_next(row)
    if stored is None or stored.run_after > now:
        return []
    if schedule_in_force(row).is_custom:
        sandbox = _skip_custom(row, now)
        file = schedule_in_force(row).file
        asked = authors.question(row.dag_id, file, row, now=now)
        return [authors.ask(sandbox, [asked])[row.dag_id].apply(row)]
    if cursor.is_continuous(row):
        cursor.set_next(row, cursor.next_continuous(row, now, now=now))
    else:
        _skip_built_in(row, stored, now)
    return []


def _skip_old(row: Dags, now: DateTime) -> None:
    stored, until = cursor.stored_next(row), followed_until(row, now)
    if schedule_in_force(row).is_custom:
        _skip_custom(row, until)
    elif stored is not None and cursor.is_continuous(row):
        cursor.set_position(row, cursor.continuous_now(row, stored, now=until))
    elif stored is not None:
        _skip_built_in(row, stored, until)
    if row.schedule_switch_at is not None:
        cursor.switch_schedule(row, now=now)


def _skip_built_in(row: Dags, stored: DagRunInfo, now: DateTime) -> None:
    rule = cursor.timetable_runs(row)
    newest = cursor.newest_due(rule, stored, now=now)
    cursor.advance(row, Due((newest,), rule.after(newest, catchup=True)), now=now)


def _skip_custom(row: Dags, now: DateTime) -> Sandbox:
    """Ask an author's timetable on and on, until it speaks of the future; return its sandbox."""
    schedule = schedule_in_force(row)
    sandbox = Sandbox(schedule.bundle, schedule.bundle_version)
    for _ in range(_MAX_ANSWERS):
        asked = authors.question(row.dag_id, schedule.file, row, now=now)
        try:
            found = sandbox.coming_runs([Question(**{**asked, "count": _RUNS_AT_ONCE})])
        except DefinitionError:  # the bundle is gone, and with it what was owed
            break
        said = authors.read_answer(found[row.dag_id], limit=_RUNS_AT_ONCE)
        due = [info for info in said.runs if info.run_after <= now]
        if due:
            cursor.set_position(row, due[-1])
        if len(due) < len(said.runs) or not due:
            break
    return sandbox
