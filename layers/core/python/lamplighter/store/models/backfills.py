"""Backfills: a second position over the dates of a DAG, with slots of its own."""

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, KeysOnlyProjection

from lamplighter.store.rows import Instant, Row


class _Due(GlobalSecondaryIndex["Backfills"]):
    """Backfills that may create a run, by since when. A hint, like that of DAGs."""

    class Meta:
        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = NumberAttribute(hash_key=True)
    next_run_create_after = Instant(range_key=True)


class Backfills(Row):
    """One request to run a DAG over a range of the past: start included, end excluded.

    The dates that it plans stand in rows of their own, `<backfill_id>#0` and so on, which are
    written with it and never change.
    """

    class Meta:
        table_name = "Backfills"

    backfill_id = UnicodeAttribute(hash_key=True)  # orders_hourly-1, orders_hourly-2, …
    # Raised by every writer, who writes only if it is still what was read.
    rev = NumberAttribute()
    dag_id = UnicodeAttribute()
    created_at = Instant()
    created_by = UnicodeAttribute()  # a request's mark: how it knows its own work

    # What was asked for.
    start = Instant()
    end = Instant()
    reprocess = UnicodeAttribute()  # none, failed, completed
    run_backwards = BooleanAttribute(default=False)
    max_active_runs = NumberAttribute()
    conf = JSONAttribute(null=True)
    max_cost = NumberAttribute(null=True)  # in dollars
    # What a run was expected to cost and to take, from the DAG's history.
    expected_cost = NumberAttribute(null=True)
    expected_seconds = NumberAttribute(null=True)

    state = UnicodeAttribute()  # running, paused, completed, cancelled
    reason = UnicodeAttribute(null=True)
    # Of a cancelled one: whether its running runs are to end too.
    cancels_running_runs = BooleanAttribute(null=True)
    ended_at = Instant(null=True)

    # The position: of so many planned runs, how many have had their turn.
    total = NumberAttribute()
    position = NumberAttribute(default=0)
    # Keys of runs that occupy one of its slots.
    active = UnicodeSetAttribute(null=True)
    # Of those that had their turn: what became of their runs, and how many needed none.
    succeeded = NumberAttribute(default=0)
    failed = NumberAttribute(default=0)
    cancelled = NumberAttribute(default=0)
    passed = NumberAttribute(default=0)
    # The newest that needed none, each with the reason: [run_key, "exists" or "in flight"].
    skipped_runs = JSONAttribute(null=True)
    # What its finished runs have cost, and how long they took together.
    cost = NumberAttribute(null=True)
    seconds = NumberAttribute(null=True)

    # Derived from all of the above in the same write.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)

    # Only in the rows of dates: JSON, compressed.
    dates = BinaryAttribute(null=True, legacy_encoding=False)

    due = _Due()
