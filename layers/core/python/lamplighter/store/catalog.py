"""The rows of Catalog: what there is one of, or few of."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.errors import MalformedRowError
from lamplighter.store.models import Catalog
from lamplighter.store.rows import Malformed
from lamplighter.store.transactions import (
    TransactionCanceled,
    Update,
    transact_with_retry,
    update_if,
)

_LOOK_AHEAD = ("tick", "look-ahead")


class LookAhead(NamedTuple):
    """How far ahead the ticks have sent messages, and how many shards of the due index are in use.

    Both only ever rise: a DAG stays in the shard that its row was last written to, so that all
    shards that have ever been in use must be read, also after the setting was lowered.
    """

    covered_until: DateTime | None
    due_shards: int


def read_look_ahead() -> LookAhead:
    """Return what the ticks before this one have noted."""
    try:
        row = Catalog.get(*_LOOK_AHEAD, consistent_read=True)
    except Catalog.DoesNotExist:
        return LookAhead(None, 0)
    return LookAhead(row.covered_until, int(row.due_shards or 0))


def raise_covered_until(instant: DateTime, *, due_shards: int) -> None:
    """Record that messages were sent up to `instant`, unless another tick was further already."""
    is_ahead = Catalog.covered_until.does_not_exist() | (Catalog.covered_until < instant)
    actions = [Catalog.covered_until.set(instant), Catalog.due_shards.set(due_shards)]
    update_if(Catalog(*_LOOK_AHEAD), actions, is_ahead)


# Runs of authors' timetables, worked out ahead in the sandbox.

PRECOMPUTED_RUNS = "runs"


def read_precomputed_runs(
    dag_ids: Iterable[str], *, malformed: list[Malformed] | None = None
) -> Iterator[Catalog]:
    """Yield the rows of the DAGs that have any, as they are now."""
    keys = [(PRECOMPUTED_RUNS, dag_id) for dag_id in dag_ids]
    return Catalog.batch_get(keys, consistent_read=True, malformed=malformed)


def note_refill(dag_id: str, *, now: DateTime, unless_since: DateTime) -> bool:
    """Note that more runs are being worked out for a DAG; return False if that is known already."""
    is_malformed = ~Catalog.asked_at.is_type()  # type: ignore[no-untyped-call] # PynamoDB's
    is_time = Catalog.asked_at.does_not_exist() | is_malformed | (Catalog.asked_at < unless_since)
    row = Catalog(PRECOMPUTED_RUNS, dag_id)
    try:
        # As a transaction, which does not read the row back: it may be malformed.
        transact_with_retry([Update(row, [Catalog.asked_at.set(now)], is_time)])
    except (TransactionCanceled, MalformedRowError):
        return False
    return True
