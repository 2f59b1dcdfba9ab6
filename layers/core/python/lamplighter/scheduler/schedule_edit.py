"""A push replaces a schedule: runs of the old one that are due are created, then the new begins.

Owns: the columns `previous_schedule` and `schedule_switch_at`. Assigns, writes nothing.
"""

from copy import copy

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import UNREADABLE, DefinitionError, in_short
from lamplighter.scheduler import cursor
from lamplighter.scheduler.cursor import Due
from lamplighter.scheduler.schedules import Schedule, schedule_in_force
from lamplighter.store.models import Dags
from lamplighter.timetables.base import DagRunInfo


def keep_previous_if_due(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Let claims follow the schedule that was just replaced, if runs of it are due."""
    # One that is followed already stays: the schedule between was never in force.
    if row.schedule_switch_at is None and is_owing(row, now=now):
        keep(row, old, now=now)


def keep(row: Dags, old: Schedule, *, now: DateTime) -> None:
    """Let claims follow a schedule up to the last of its runs that is due."""
    row.previous_schedule = old.as_json()
    try:
        row.schedule_switch_at = _last_due(row, now)
    except UNREADABLE:  # nobody could follow it
        forget(row)


def is_owing(row: Dags, *, now: DateTime) -> bool:
    """Return whether the next run of the schedule in force is due."""
    return row.next_run_after is not None and row.next_run_after <= now


def forget(row: Dags) -> None:
    """Let claims follow the row's own schedule."""
    row.previous_schedule = row.schedule_switch_at = None


def _last_due(row: Dags, now: DateTime) -> DateTime:
    """Return when the last due run may be created; where that is not known, no later than now."""
    stored = cursor.stored_next(row)
    if schedule_in_force(row).is_custom or cursor.is_continuous(row) or stored is None:
        return now
    rule = cursor.timetable_runs(row)
    newest = cursor.newest_due(rule, stored, now=now)
    following = rule.after(newest, catchup=True)
    return now if following is not None and following.run_after <= now else newest.run_after


# Moving on.


def move_on(row: Dags, due: Due, *, now: DateTime) -> None:
    """Let the schedule stand after runs that were created or skipped."""
    cursor.set_position(row, due.runs[-1])
    cursor.set_next(row, due.then)
    switch_if_done(row, now=now)


def switch_if_done(row: Dags, *, now: DateTime) -> None:
    """Begin the new schedule if all runs of the old one that were due at the push are created."""
    following = row.next_run_after
    if row.schedule_switch_at is not None and (following is None or following > row.schedule_switch_at):
        switch(row, now=now)


def switch(row: Dags, *, now: DateTime) -> None:
    """Begin the new schedule where the old one stands."""
    forget(row)
    if row.is_custom:
        # The sandbox must be asked first. Until then the DAG stays due, so that the claim asks for
        # it, with a next run that exists already and therefore cannot be created again.
        cursor.set_next(row, cursor.position(row))
    else:
        # Claims skip what is due without catchup; a timetable that did so here could skip it all.
        ask_schedule(row, now=now, catchup=True)


def has_switched(row: Dags) -> bool:
    """Return whether the schedule has changed since the row was read.

    What the caller knows of its runs is then of the old one; the next claim goes on.
    """
    return row.schedule_switch_at is None and row.stored.get("schedule_switch_at") is not None


def after_old(row: Dags, newest: DagRunInfo, *, now: DateTime) -> Dags:
    """Return a copy of the row as it will be when the old schedule has had its last due run."""
    later = copy(row)
    later.attribute_values = dict(row.attribute_values)
    cursor.set_position(later, newest)
    switch(later, now=now)
    return later


# Asking a built-in timetable.


def ask_schedule(row: Dags, *, now: DateTime, catchup: bool | None = None) -> None:
    """Let the next run be what the built-in timetable says, from where the schedule stands."""
    if row.schedule_switch_at is not None:
        return  # the next run is the old schedule's, until then
    row.schedule_error = None
    try:
        with clock.at(now):
            info = next_run_of(row, now=now, catchup=row.catchup if catchup is None else catchup)
    except DefinitionError as error:
        info = None
        row.schedule_error = in_short(error)
    cursor.set_next(row, info)


def next_run_of(row: Dags, *, now: DateTime, catchup: bool) -> DagRunInfo | None:
    """Return the run that follows the row's position."""
    if cursor.is_continuous(row):
        end = row.last_interval_end
        if end is not None and end == row.last_interval_start:
            # Another schedule's run at this very instant has the key that this one would take.
            end = end.add(microseconds=1)
        return cursor.next_continuous(row, end, now=now)
    return cursor.timetable_runs(row).after_another(cursor.position(row), catchup=catchup)
