"""Rows of Catalog and Variables: things of which there are one or few."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import MalformedRowError
from lamplighter.store.models import Catalog, Variables
from lamplighter.store.rows import Malformed
from lamplighter.store.transactions import (
    TransactionCanceled,
    Update,
    delete_if,
    transact_with_retry,
    update,
    update_if,
)

_LOOK_AHEAD = ("tick", "look-ahead")


class LookAhead(NamedTuple):
    """How far ahead ticks have sent messages, and how many shards of the due index are in use.

    Both only rise: a DAG stays in the shard that its row was last written to, so all shards ever
    used must be read, even after the setting was lowered.
    """

    covered_until: DateTime | None
    due_shards: int


def read_look_ahead() -> LookAhead:
    """Return the look-ahead of earlier ticks."""
    try:
        row = Catalog.get(*_LOOK_AHEAD, consistent_read=True)
    except Catalog.DoesNotExist:
        return LookAhead(None, 0)
    return LookAhead(row.covered_until, int(row.due_shards or 0))


def raise_covered_until(instant: DateTime, *, due_shards: int) -> None:
    """Record that messages were sent up to `instant`, unless another tick got further."""
    is_ahead = Catalog.covered_until.does_not_exist() | (Catalog.covered_until < instant)
    actions = [Catalog.covered_until.set(instant), Catalog.due_shards.set(due_shards)]
    update_if(Catalog(*_LOOK_AHEAD), actions, is_ahead)


# Precomputed runs of custom timetables.

PRECOMPUTED_RUNS = "runs"


def read_precomputed_runs(
    dag_ids: Iterable[str], *, malformed: list[Malformed] | None = None
) -> Iterator[Catalog]:
    """Yield the rows of the DAGs that have any."""
    keys = [(PRECOMPUTED_RUNS, dag_id) for dag_id in dag_ids]
    return Catalog.batch_get(keys, consistent_read=True, malformed=malformed)


def note_refill(dag_id: str, *, now: DateTime, unless_since: DateTime) -> bool:
    """Record that more runs were requested; return False if that was done recently."""
    is_malformed = ~Catalog.asked_at.is_type()  # type: ignore[no-untyped-call] # PynamoDB's
    is_time = Catalog.asked_at.does_not_exist() | is_malformed | (Catalog.asked_at < unless_since)
    row = Catalog(PRECOMPUTED_RUNS, dag_id)
    try:
        # As a transaction, which does not read the row back: it may be malformed.
        transact_with_retry([Update(row, [Catalog.asked_at.set(now)], is_time)])
    except (TransactionCanceled, MalformedRowError):
        return False
    return True


# Variables: texts for templates and jobs.


def read_variables() -> dict[str, str]:
    """Return all variables; a job that is started sees the newest ones."""
    return {row.name: row.value for row in variable_rows()}


def variable_rows() -> list[Variables]:
    """Return the rows of all variables by name."""
    return sorted(Variables.scan(consistent_read=True), key=lambda row: str(row.name))


def set_variable(name: str, value: str) -> Variables:
    """Create a variable or change it; return its row."""
    row = Variables(name)
    update(row, [Variables.value.set(value), Variables.updated_at.set(clock.now())])
    return row


def delete_variable(name: str) -> bool:
    """Delete a variable; return whether there was one."""
    return delete_if(Variables(name), Variables.name.exists())
