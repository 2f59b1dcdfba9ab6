"""Runs, which people look at; their steps, one task in one run each; and backfills."""

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)
from pynamodb.indexes import GlobalSecondaryIndex, IncludeProjection, KeysOnlyProjection

from lamplighter.store.rows import Instant, Row


class _ByState(GlobalSecondaryIndex["Runs"]):
    """Runs by state and since when: `queued#3`, `failed#2026-01-31#3`."""

    class Meta:
        index_name = "by_state"
        projection = IncludeProjection(["run_id", "run_type"])

    state_bucket = UnicodeAttribute(hash_key=True)
    state_since = Instant(range_key=True)


class _Wake(GlobalSecondaryIndex["Runs"]):
    """Unfinished runs, by when someone must look at them again."""

    class Meta:
        index_name = "wake"
        projection = KeysOnlyProjection()

    wake_shard = NumberAttribute(hash_key=True)
    wake_at = Instant(range_key=True)


class Runs(Row):
    """One run of a DAG. The key itself forbids two runs of one logical date."""

    class Meta:
        table_name = "Runs"

    dag_id = UnicodeAttribute(hash_key=True)
    run_key = UnicodeAttribute(range_key=True)
    run_id = UnicodeAttribute()
    run_type = UnicodeAttribute()  # scheduled, manual, asset_triggered, backfill
    triggered_by = UnicodeAttribute()  # timetable, cli, asset, backfill
    state = UnicodeAttribute()  # queued, running, success, failed, cancelled
    # Raised with every decision about the run or its steps, by whoever read both before.
    rev = NumberAttribute(default=1)
    logical_date = Instant(null=True)
    data_interval_start = Instant(null=True)
    data_interval_end = Instant(null=True)
    partition_key = UnicodeAttribute(null=True)
    run_after = Instant()
    conf = JSONAttribute(null=True)

    # Which definition it runs, whatever is pushed later.
    dag_version = UnicodeAttribute()
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()

    created_at = Instant()
    queued_at = Instant()
    started_at = Instant(null=True)
    ended_at = Instant(null=True)

    # What a run that is being ended will be when its last job is over, and why.
    target_state = UnicodeAttribute(null=True)
    reason = UnicodeAttribute(null=True)
    # What people said became of it or of its steps, newest last: who, when, what, why.
    marks = JSONAttribute(null=True)

    # Of all its steps.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)
    storage_gb_hours = NumberAttribute(null=True)
    cost = NumberAttribute(null=True)

    # No job of a step has had a higher number when the run was last over. Steps that have expired
    # since then go on counting from here.
    submission_floor = NumberAttribute(null=True)

    # Whose transaction created it: how a claim knows its own work after a lost answer.
    claim_id = UnicodeAttribute()
    # The backfill that created it, or let it begin anew, and its place there; and whose slot it
    # occupies while it is not over, if not one of its DAG's.
    backfill_id = UnicodeAttribute(null=True)
    backfill_ordinal = NumberAttribute(null=True)
    slot_backfill_id = UnicodeAttribute(null=True)
    # For a run that assets triggered: {asset id: [last sequence consumed before, last one now]}.
    events = JSONAttribute(null=True)

    state_bucket = UnicodeAttribute()
    state_since = Instant()
    wake_shard = NumberAttribute(null=True)
    wake_at = Instant(null=True)
    expires_at = TTLAttribute(null=True)

    by_state = _ByState()
    wake = _Wake()


class Steps(Row):
    """What became of a task in a run. Whoever decides about it writes the run's `rev` too."""

    class Meta:
        table_name = "Steps"

    run_ref = UnicodeAttribute(hash_key=True)  # dag_id|run_key
    step_id = UnicodeAttribute(range_key=True)
    state = UnicodeAttribute()
    # When its run was created: rows expire one by one, and a step may outlive the run it was of.
    run_created_at = Instant()
    # The attempt that is under way or was the last, and the last that may be made.
    try_number = NumberAttribute(default=0)
    max_try_number = NumberAttribute(default=1)
    # Counts every job that was ever asked for, and never begins again.
    submission = NumberAttribute(default=0)
    # Which executor has its job: written with the submission, as several may be in use.
    executor = UnicodeAttribute(null=True)
    job_run_id = UnicodeAttribute(null=True)
    submitted_at = Instant(null=True)
    # When someone last was about to ask for the job.
    asked_at = Instant(null=True)
    started_at = Instant(null=True)
    ended_at = Instant(null=True)
    retry_at = Instant(null=True)
    # Seconds that it may run, where that is too short for its executor to end it.
    scheduler_timeout_seconds = NumberAttribute(null=True)
    # While its job is being cancelled: timeout, cancel or clear, or what it was marked as.
    cancel_action = UnicodeAttribute(null=True)
    error = UnicodeAttribute(null=True)
    # Who said what became of it, when and why; missing if nobody did.
    marked = JSONAttribute(null=True)
    # Attempts in a row that found no capacity, and cost no try.
    capacity_rejections = NumberAttribute(null=True)
    # The newest attempts that are over: submission, try, job, state, times, error.
    tries = JSONAttribute(null=True)

    # Of all its jobs together; the price is that of the settings at their ends.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)
    storage_gb_hours = NumberAttribute(null=True)
    cost = NumberAttribute(null=True)
    expires_at = TTLAttribute(null=True)


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
