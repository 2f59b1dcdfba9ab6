"""Backfills: a second position over the same schedule."""

from pynamodb.attributes import NumberAttribute, UnicodeAttribute
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection

from lamplighter.store.attributes import Instant
from lamplighter.store.rows import Row


class _Due(GlobalSecondaryIndex["Backfills"]):
    """Backfills that may create a run, by when."""

    class Meta:
        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = NumberAttribute(hash_key=True)
    next_run_create_after = Instant(range_key=True)


class Backfills(Row):
    """One request to run a DAG over a range of the past: start included, end excluded."""

    class Meta:
        table_name = "Backfills"

    backfill_id = UnicodeAttribute(hash_key=True)
    rev = NumberAttribute()
    dag_id = UnicodeAttribute()
    start = Instant()
    end = Instant()
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)

    due = _Due()
