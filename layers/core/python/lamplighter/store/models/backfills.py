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
    """Backfills that may create a run, by instant. A hint, like the index of DAGs."""

    class Meta:
        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = NumberAttribute(hash_key=True)
    next_run_create_after = Instant(range_key=True)


class Backfills(Row):
    """One request to run a DAG over a range of the past: start included, end excluded.

    The planned dates are in rows of their own, `<backfill_id>#0` and so on, which never change.
    """

    class Meta:
        table_name = "Backfills"

    backfill_id = UnicodeAttribute(hash_key=True)  # orders_hourly-1, orders_hourly-2, …
    # Raised by every write, which is refused if it has changed since it was read.
    rev = NumberAttribute()
    dag_id = UnicodeAttribute()
    created_at = Instant()
    created_by = UnicodeAttribute()  # identifies the request after a lost response

    # The request.
    start = Instant()
    end = Instant()
    reprocess = UnicodeAttribute()  # none, failed, completed
    run_backwards = BooleanAttribute(default=False)
    max_active_runs = NumberAttribute()
    conf = JSONAttribute(null=True)
    max_cost = NumberAttribute(null=True)  # in dollars
    # The expected cost and duration of a run, from the DAG's history.
    expected_cost = NumberAttribute(null=True)
    expected_seconds = NumberAttribute(null=True)

    state = UnicodeAttribute()  # running, paused, completed, cancelled
    reason = UnicodeAttribute(null=True)
    # Of a cancelled one: whether its running runs are cancelled too.
    cancels_running_runs = BooleanAttribute(null=True)
    ended_at = Instant(null=True)

    # The position: how many of the planned runs have had their turn.
    total = NumberAttribute()
    position = NumberAttribute(default=0)
    # Keys of runs that hold a slot.
    active = UnicodeSetAttribute(null=True)
    # Results of these runs, and how many were not needed.
    succeeded = NumberAttribute(default=0)
    failed = NumberAttribute(default=0)
    cancelled = NumberAttribute(default=0)
    passed = NumberAttribute(default=0)
    # The newest that were not needed: [run_key, "exists" or "in flight"].
    skipped_runs = JSONAttribute(null=True)
    # The total cost and duration of its finished runs.
    cost = NumberAttribute(null=True)
    seconds = NumberAttribute(null=True)

    # Derived from the above in the same write.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)

    # Only in the rows of dates: JSON, compressed.
    dates = BinaryAttribute(null=True, legacy_encoding=False)

    due = _Due()
