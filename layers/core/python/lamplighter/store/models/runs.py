"""Runs, which people look at; their steps, jobs on Lambda, and shared limits; and backfills."""

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
    """Runs by wake time: unfinished ones, and those that wait for bills of their jobs."""

    class Meta:
        index_name = "wake"
        projection = KeysOnlyProjection()

    wake_shard = NumberAttribute(hash_key=True)
    wake_at = Instant(range_key=True)


class Runs(Row):
    """One run of a DAG. The key prevents two runs of one logical date."""

    class Meta:
        table_name = "Runs"

    dag_id = UnicodeAttribute(hash_key=True)
    run_key = UnicodeAttribute(range_key=True)
    run_id = UnicodeAttribute()
    run_type = UnicodeAttribute()  # scheduled, manual, asset_triggered, backfill
    triggered_by = UnicodeAttribute()  # timetable, cli, asset, backfill
    state = UnicodeAttribute()  # queued, running, success, failed, cancelled
    # Raised by every decision about the run or its steps; a stale decision is refused.
    rev = NumberAttribute(default=1)
    logical_date = Instant(null=True)
    data_interval_start = Instant(null=True)
    data_interval_end = Instant(null=True)
    partition_key = UnicodeAttribute(null=True)
    run_after = Instant()
    conf = JSONAttribute(null=True)

    # The definition that it is pinned to.
    dag_version = UnicodeAttribute()
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()

    created_at = Instant()
    queued_at = Instant()
    started_at = Instant(null=True)
    ended_at = Instant(null=True)

    # The final state of a run whose last jobs are being cancelled, and why.
    target_state = UnicodeAttribute(null=True)
    reason = UnicodeAttribute(null=True)
    # Marks of the run and its steps, newest last: who, when, what, why.
    marks = JSONAttribute(null=True)

    # Sums over its steps, and how many of their jobs are over and missing in them.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)
    storage_gb_hours = NumberAttribute(null=True)
    cost = NumberAttribute(null=True)
    unbilled_jobs = NumberAttribute(null=True)

    # The highest submission number of any step when the run last finished; expired steps continue
    # counting from here.
    submission_floor = NumberAttribute(null=True)

    # Identifies a claim's own run after a lost response.
    claim_id = UnicodeAttribute()
    # The backfill that created it or started it again, and its position there; and the backfill
    # whose slot it holds, if not one of its DAG's.
    backfill_id = UnicodeAttribute(null=True)
    backfill_ordinal = NumberAttribute(null=True)
    slot_backfill_id = UnicodeAttribute(null=True)
    # If assets triggered it: {asset id: [last seq consumed before, last seq consumed]}.
    events = JSONAttribute(null=True)

    state_bucket = UnicodeAttribute()
    state_since = Instant()
    wake_shard = NumberAttribute(null=True)
    wake_at = Instant(null=True)
    expires_at = TTLAttribute(null=True)

    by_state = _ByState()
    wake = _Wake()


class _Waiting(GlobalSecondaryIndex["Steps"]):
    """Steps that wait for a limit, by limit and since when. A hint: the step decides."""

    class Meta:
        index_name = "waiting"
        projection = IncludeProjection(["turn"])

    waits_for = UnicodeAttribute(hash_key=True)
    waits_since = Instant(range_key=True)


class _Turns(GlobalSecondaryIndex["Steps"]):
    """The same steps, by limit, weight and due time."""

    class Meta:
        index_name = "turns"
        projection = IncludeProjection(["waits_since"])

    waits_for = UnicodeAttribute(hash_key=True)
    turn = UnicodeAttribute(range_key=True)


class Steps(Row):
    """One task in one run. Every decision about it also raises the run's `rev`."""

    class Meta:
        table_name = "Steps"

    run_ref = UnicodeAttribute(hash_key=True)  # dag_id|run_key
    step_id = UnicodeAttribute(range_key=True)
    state = UnicodeAttribute()
    # When its run was created: a step may outlive its run, and keys can be reused.
    run_created_at = Instant()
    # The current or last try, and the maximum.
    try_number = NumberAttribute(default=0)
    max_try_number = NumberAttribute(default=1)
    # Counts every submission; never reset.
    submission = NumberAttribute(default=0)
    # The executor of its job, as several may be in use.
    executor = UnicodeAttribute(null=True)
    job_run_id = UnicodeAttribute(null=True)
    # What the report of its current submission must repeat; in no log and no listing.
    report_secret = UnicodeAttribute(null=True)
    submitted_at = Instant(null=True)
    # When its job was last requested.
    asked_at = Instant(null=True)
    started_at = Instant(null=True)
    ended_at = Instant(null=True)
    retry_at = Instant(null=True)
    # Its time limit in seconds, if that is too short for its executor to enforce.
    scheduler_timeout_seconds = NumberAttribute(null=True)
    # Why its job is being cancelled: timeout, cancel, clear, or the state it was marked as.
    cancel_action = UnicodeAttribute(null=True)
    error = UnicodeAttribute(null=True)
    # Who marked it, when and why; missing if it was not marked.
    marked = JSONAttribute(null=True)
    # The limit that it waits for, since when, and its weight and due time as text that sorts. A
    # start that is reserved is for whoever is next then.
    waits_for = UnicodeAttribute(null=True)
    waits_since = Instant(null=True)
    turn = UnicodeAttribute(null=True)
    start_reserved_at = Instant(null=True)
    # What it has taken from limits, by limit and resource, until its job is over.
    holds = JSONAttribute(null=True)
    # Since when it has waited for capacity: its submissions since then cost no try.
    capacity_since = Instant(null=True)
    # The newest finished attempts: submission, try, job, state, times, error.
    tries = JSONAttribute(null=True)

    # Sums over its jobs, at the prices when their bills were read.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)
    storage_gb_hours = NumberAttribute(null=True)
    cost = NumberAttribute(null=True)
    # Jobs that are over and not billed yet: job, executor, and the backfill that pays for it.
    unbilled_jobs = JSONAttribute(null=True)
    expires_at = TTLAttribute(null=True)

    waiting = _Waiting()
    turns = _Turns()

    def __repr__(self) -> str:
        return f"Steps({self.run_ref!r}, {self.step_id!r}, {self.state!r})"  # not its secret


class Jobs(Row):
    """One job on Lambda: whoever moves it to RUNNING runs it, and nobody else ever does."""

    class Meta:
        table_name = "Jobs"

    job_id = UnicodeAttribute(hash_key=True)  # the name of the submission
    state = UnicodeAttribute()  # SUBMITTED, RUNNING, SUCCESS, FAILED, CANCELLING, CANCELLED
    context_uri = UnicodeAttribute()
    bundle_uri = UnicodeAttribute()
    timeout_seconds = NumberAttribute(null=True)
    requested_at = Instant()

    # The invocation that runs it; after the deadline it is certainly dead.
    claim_id = UnicodeAttribute(null=True)
    started_at = Instant(null=True)
    deadline = Instant(null=True)
    # What is billed: missing if nothing is.
    memory_mb = NumberAttribute(null=True)
    architecture = UnicodeAttribute(null=True)

    ended_at = Instant(null=True)
    details = UnicodeAttribute(null=True)
    expires_at = TTLAttribute(null=True)


class Limits(Row):
    """A counter (a pool, the capacity of an executor) or a token bucket (its job starts)."""

    class Meta:
        table_name = "Limits"

    limit_id = UnicodeAttribute(hash_key=True)  # pool:etl, capacity:emr-serverless, starts:…

    # A counter: its size by resource, and what is free of each; negative after it was lowered.
    sizes = JSONAttribute(null=True)
    free_slots = NumberAttribute(null=True)
    free_vcpus = NumberAttribute(null=True)
    free_memory_gb = NumberAttribute(null=True)
    free_disk_gb = NumberAttribute(null=True)
    description = UnicodeAttribute(null=True)  # of a pool
    # When a step last had to wait for it; whoever frees something then starts those that wait.
    waited_at = Instant(null=True)

    # A token bucket: the newest start that was reserved, perhaps in the future, and until when the
    # rate is lowered because a call was throttled.
    last_start_at = Instant(null=True)
    slow_until = Instant(null=True)


class Variables(Row):
    """A text for templates and jobs, or a reference to a secret. Only `submit` reads them."""

    class Meta:
        table_name = "Variables"

    name = UnicodeAttribute(hash_key=True)
    value = UnicodeAttribute()
    updated_at = Instant(null=True)


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

    # What was asked for.
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
    # The total cost and duration of its finished runs; how many of these have jobs that are not
    # billed yet, and when the last of them ended.
    cost = NumberAttribute(null=True)
    seconds = NumberAttribute(null=True)
    unbilled_runs = NumberAttribute(null=True)
    last_unbilled_at = Instant(null=True)

    # Derived from the above in the same write.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)

    # Only in the rows of dates: JSON, compressed.
    dates = BinaryAttribute(null=True, legacy_encoding=False)

    due = _Due()
