"""Asks an author's timetable for more runs when half of the foretold ones are used."""

from collections.abc import Sequence

from lamplighter import clock, queues
from lamplighter.errors import DefinitionError, TransientError, in_short
from lamplighter.registry import authors
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler.schedules import (
    Schedule,
    followed_until,
    is_custom,
    schedule_in_force,
)
from lamplighter.store.dags import change_dag, read_dag
from lamplighter.store.due import announcement
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write, retry_attempts


def refill(dag_id: str) -> None:
    """Replace what is foretold for a DAG by what its timetable says now."""
    for _ in retry_attempts():
        row = read_dag(dag_id)
        if row is None or row.is_stale or not is_custom(row):
            return
        if _refill(row):
            return
    raise TransientError(f"the schedule of DAG {dag_id!r} is being changed; try again")


def _refill(row: Dags) -> bool:
    """Ask about the schedule in force; return False if it is another one by now."""
    schedule = schedule_in_force(row)
    answer = _ask(row, schedule)
    is_same = True

    def change(row: Dags) -> Sequence[Write] | None:
        nonlocal is_same
        is_same = schedule_in_force(row).source == schedule.source
        return [answer.apply(row)] if is_same else None

    written = change_dag(row.dag_id, change, row=row)
    if written is not None:
        queues.announce_due(announcement(written))
    return is_same


def _ask(row: Dags, schedule: Schedule) -> authors.Answer:
    # Of an old schedule, what was due when it was replaced: without catchup that is one run.
    at = followed_until(row, clock.now())
    asked = authors.question(row.dag_id, schedule.file, row, now=at)
    try:
        return authors.ask(Sandbox(schedule.bundle, schedule.bundle_version), [asked])[row.dag_id]
    except DefinitionError as error:  # the bundle itself is gone
        return authors.Answer(error=in_short(error))
