"""Runs, which people look at, and their steps: one task in one run each."""

from pynamodb.attributes import (
    JSONAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
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
