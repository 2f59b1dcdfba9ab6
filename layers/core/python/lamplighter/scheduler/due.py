"""Reads the due index: which DAGs may need a claim, and when. Answers are hints."""

from typing import NamedTuple

from pendulum import DateTime

from lamplighter import settings
from lamplighter.store.wire import due_keys
from lamplighter.zones import parse_instant


class DueDag(NamedTuple):
    """A DAG as the index knows it."""

    due_at: DateTime
    dag_id: str


def due_until(until: DateTime) -> list[DueDag]:
    """Return every DAG that the index has up to an instant, oldest first, whatever their number."""
    found = sorted(
        pair for shard in range(settings.current().due_shards) for pair in due_keys(shard, until)
    )
    return [DueDag(parse_instant(text), dag_id) for text, dag_id in found]
