"""Reads the due index: which DAGs may need a claim, and when. Answers are hints."""

import logging
from typing import NamedTuple

from pendulum import DateTime

from lamplighter.store.dags import due_keys
from lamplighter.zones import UTC, parse_instant

log = logging.getLogger(__name__)

# When a DAG counts as due whose row does not say it.
UNKNOWN = DateTime(1970, 1, 1, tzinfo=UTC)


class DueDag(NamedTuple):
    """A DAG as the index knows it."""

    due_at: DateTime
    dag_id: str


def due_until(until: DateTime, *, shards: int) -> list[DueDag]:
    """Return every DAG that the index has up to an instant, oldest first, whatever their number."""
    found = sorted(pair for shard in range(shards) for pair in due_keys(shard, until))
    return [DueDag(_instant(text, dag_id), dag_id) for text, dag_id in found]


def _instant(text: str, dag_id: str) -> DateTime:
    try:
        return parse_instant(text)
    except ValueError:
        # The row is malformed. It counts as due, so that the claim marks and skips it.
        log.exception("due time is malformed", extra={"dag_id": dag_id})
        return UNKNOWN
