"""Asks an author's timetable for more runs when half of the foretold ones are used."""

from collections.abc import Sequence

from lamplighter import clock, queues
from lamplighter.errors import DefinitionError, in_short
from lamplighter.registry import authors
from lamplighter.registry.sandbox import Sandbox
from lamplighter.store.due import announcement
from lamplighter.store.models import Dags
from lamplighter.store.transactions import Write, change_dag, read_dag


def refill(dag_id: str) -> None:
    """Replace what is foretold for a DAG by what its timetable says now."""
    row = read_dag(dag_id)
    if row is None or not row.is_custom or row.is_stale:
        return
    asked = authors.question(dag_id, row.place.rpartition("#")[0], row, now=clock.now())
    try:
        answer = authors.ask(Sandbox(row.bundle, row.bundle_version), [asked])[dag_id]
    except DefinitionError as error:  # the bundle itself is gone
        answer = authors.Answer(error=in_short(error))
    version = row.bundle_version

    def change(row: Dags) -> Sequence[Write] | None:
        if row.bundle_version != version or not row.is_custom:
            return None  # pushed again meanwhile: that push has asked
        return [answer.apply(row)]

    written = change_dag(dag_id, change, row=row)
    if written is not None:
        queues.announce_due(announcement(written))
