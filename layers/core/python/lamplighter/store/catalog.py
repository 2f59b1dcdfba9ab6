"""How far ahead the ticks have sent messages, and how many shards of the due index are in use.

One row. Both only ever rise: a DAG stays in the shard that its row was last written to, so that all
shards that have ever been in use must be read, also after the setting was lowered.
"""

from typing import NamedTuple

from pendulum import DateTime

from lamplighter.store.models import Catalog
from lamplighter.store.transactions import update_if

_KEY = ("tick", "look-ahead")


class LookAhead(NamedTuple):
    """What the ticks before this one have noted."""

    covered_until: DateTime | None
    due_shards: int


def read_look_ahead() -> LookAhead:
    """Return what the ticks before this one have noted."""
    try:
        row = Catalog.get(*_KEY, consistent_read=True)
    except Catalog.DoesNotExist:
        return LookAhead(None, 0)
    return LookAhead(row.covered_until, int(row.due_shards or 0))


def raise_covered_until(instant: DateTime, *, due_shards: int) -> None:
    """Record that messages were sent up to `instant`, unless another tick was further already."""
    is_ahead = Catalog.covered_until.does_not_exist() | (Catalog.covered_until < instant)
    actions = [Catalog.covered_until.set(instant), Catalog.due_shards.set(due_shards)]
    update_if(Catalog(*_KEY), actions, is_ahead)
