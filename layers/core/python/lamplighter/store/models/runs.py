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

    dag_id = UnicodeAttribute(hash_key=True)  # the id of the DAG
    run_key = UnicodeAttribute(range_key=True)  # the part of `run_id` after `__`
    run_id = UnicodeAttribute()  # its id, such as `scheduled__2026-01-31T06:00:00Z`
    run_type = UnicodeAttribute()  # scheduled, manual, asset_triggered, backfill
    triggered_by = UnicodeAttribute()  # timetable, cli, asset, backfill
    state = UnicodeAttribute()  # queued, running, success, failed, cancelled
    # Raised by every decision about the run or its steps; a stale decision is refused.
    rev = NumberAttribute(default=1)
    logical_date = Instant(null=True)  # the start of its data interval
    data_interval_start = Instant(null=True)  # included
    data_interval_end = Instant(null=True)  # excluded
    partition_key = UnicodeAttribute(null=True)  # the partition that it builds
    run_after = Instant()  # from when on it could be created
    conf = JSONAttribute(null=True)  # what was given when it was triggered

    # The definition that it is pinned to.
    dag_version = UnicodeAttribute()
    bundle = UnicodeAttribute()  # the bundle of the DAG
    bundle_version = UnicodeAttribute()  # the archive that its jobs use

    created_at = Instant()  # when the row was written
    queued_at = Instant()  # when it last became queued
    started_at = Instant(null=True)  # when it began to run
    ended_at = Instant(null=True)  # when it reached its final state

    # The final state of a run whose last jobs are being cancelled, and why.
    target_state = UnicodeAttribute(null=True)
    reason = UnicodeAttribute(null=True)  # why it failed or was cancelled
    # Marks of the run and its steps, newest last: who, when, what, why.
    marks = JSONAttribute(null=True)

    # Sums over its steps, and how many of their jobs are over and missing in them.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)  # memory of its jobs
    storage_gb_hours = NumberAttribute(null=True)  # disk of its jobs beyond what is free
    cost = NumberAttribute(null=True)  # in dollars
    unbilled_jobs = NumberAttribute(null=True)  # how many jobs are over and not in the sums

    # The highest submission number of any step when the run last finished; expired steps continue
    # counting from here.
    submission_floor = NumberAttribute(null=True)

    # Identifies a claim's own run after a lost response.
    claim_id = UnicodeAttribute()
    # The backfill that created it or started it again, and its position there; and the backfill
    # whose slot it holds, if not one of its DAG's.
    backfill_id = UnicodeAttribute(null=True)
    backfill_ordinal = NumberAttribute(null=True)  # its position in that one
    slot_backfill_id = UnicodeAttribute(null=True)  # whose slot it holds
    # If assets triggered it: {asset id: [last seq consumed before, last seq consumed]}.
    events = JSONAttribute(null=True)

    state_bucket = UnicodeAttribute()  # state, date if it is final, and shard
    state_since = Instant()  # since when it has this state
    wake_shard = NumberAttribute(null=True)  # the partition of the index
    wake_at = Instant(null=True)  # when the sweep looks at it
    expires_at = TTLAttribute(null=True)  # when DynamoDB deletes it

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
    step_id = UnicodeAttribute(range_key=True)  # the id of its task
    state = UnicodeAttribute()  # such as scheduled, queued, running, success, failed
    # When its run was created: a step may outlive its run, and keys can be reused.
    run_created_at = Instant()
    # The current or last try, and the maximum.
    try_number = NumberAttribute(default=0)
    max_try_number = NumberAttribute(default=1)  # the last try that retries allow
    # Counts every submission; never reset.
    submission = NumberAttribute(default=0)
    # The executor of its job, as several may be in use.
    executor = UnicodeAttribute(null=True)
    job_run_id = UnicodeAttribute(null=True)  # the id of its job there
    # What the report of its current submission must repeat; in no log and no listing.
    report_secret = UnicodeAttribute(null=True)
    submitted_at = Instant(null=True)  # when its current job was submitted
    # When its job was last requested.
    asked_at = Instant(null=True)
    started_at = Instant(null=True)  # when its current job began to run
    ended_at = Instant(null=True)  # when the step ended
    retry_at = Instant(null=True)  # when the next try may start
    # Its time limit in seconds, if that is too short for its executor to enforce.
    scheduler_timeout_seconds = NumberAttribute(null=True)
    # Why its job is being cancelled: timeout, cancel, clear, or the state it was marked as.
    cancel_action = UnicodeAttribute(null=True)
    error = UnicodeAttribute(null=True)  # why it failed or was skipped
    # Who marked it, when and why; missing if it was not marked.
    marked = JSONAttribute(null=True)
    # The limit that it waits for, since when, and its weight and due time as text that sorts. A
    # start that is reserved is for whoever is next then.
    waits_for = UnicodeAttribute(null=True)
    waits_since = Instant(null=True)  # since when it waits
    turn = UnicodeAttribute(null=True)  # weight and due time
    start_reserved_at = Instant(null=True)  # when a reserved start is
    # What it has taken from limits, by limit and resource, until its job is over.
    holds = JSONAttribute(null=True)
    # Since when it has waited for capacity: its submissions since then cost no try.
    capacity_since = Instant(null=True)
    # The newest finished attempts: submission, try, job, state, times, error.
    tries = JSONAttribute(null=True)

    # Sums over its jobs, at the prices when their bills were read.
    vcpu_hours = NumberAttribute(null=True)
    memory_gb_hours = NumberAttribute(null=True)  # memory of its jobs
    storage_gb_hours = NumberAttribute(null=True)  # disk of its jobs beyond what is free
    cost = NumberAttribute(null=True)  # in dollars
    # Jobs that are over and not billed yet: job, executor, and the backfill that pays for it.
    unbilled_jobs = JSONAttribute(null=True)
    expires_at = TTLAttribute(null=True)  # when DynamoDB deletes it

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
    context_uri = UnicodeAttribute()  # where its context is
    bundle_uri = UnicodeAttribute()  # where the archive of its bundle is
    timeout_seconds = NumberAttribute(null=True)  # the limit of the task
    requested_at = Instant()  # when it was submitted

    # The invocation that runs it; after the deadline it is certainly dead.
    claim_id = UnicodeAttribute(null=True)
    started_at = Instant(null=True)  # when it was claimed
    deadline = Instant(null=True)  # when that invocation is over in any case
    # What is billed: missing if nothing is.
    memory_mb = NumberAttribute(null=True)
    architecture = UnicodeAttribute(null=True)  # of the function

    ended_at = Instant(null=True)  # when it ended
    details = UnicodeAttribute(null=True)  # why it failed
    expires_at = TTLAttribute(null=True)  # when DynamoDB deletes it


class Limits(Row):
    """A counter (a pool, the capacity of an executor) or a token bucket (its job starts)."""

    class Meta:
        table_name = "Limits"

    limit_id = UnicodeAttribute(hash_key=True)  # pool:etl, capacity:emr-serverless, starts:…

    # A counter: its size by resource, and what is free of each; negative after it was lowered.
    sizes = JSONAttribute(null=True)
    free_slots = NumberAttribute(null=True)  # of a pool
    free_vcpus = NumberAttribute(null=True)  # of an executor
    free_memory_gb = NumberAttribute(null=True)  # of an executor
    free_disk_gb = NumberAttribute(null=True)  # of an executor
    description = UnicodeAttribute(null=True)  # of a pool
    # When a step last had to wait for it; whoever frees something then starts those that wait.
    waited_at = Instant(null=True)

    # A token bucket: the newest start that was reserved, perhaps in the future, and until when the
    # rate is lowered because a call was throttled.
    last_start_at = Instant(null=True)
    slow_until = Instant(null=True)  # when the rate is the usual one again


class Variables(Row):
    """A text for templates and jobs, or a reference to a secret. Only `submit` reads them."""

    class Meta:
        table_name = "Variables"

    name = UnicodeAttribute(hash_key=True)  # as templates and jobs write it
    value = UnicodeAttribute()  # the text, or the reference
    updated_at = Instant(null=True)  # when it was last changed


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
    dag_id = UnicodeAttribute()  # the id of the DAG
    created_at = Instant()  # when it was requested
    created_by = UnicodeAttribute()  # identifies the request after a lost response

    # What was asked for.
    start = Instant()
    end = Instant()  # excluded
    reprocess = UnicodeAttribute()  # none, failed, completed
    run_backwards = BooleanAttribute(default=False)  # whether the newest date comes first
    max_active_runs = NumberAttribute()  # how many of its runs may hold a slot
    conf = JSONAttribute(null=True)  # for each of its runs
    max_cost = NumberAttribute(null=True)  # in dollars
    # The expected cost and duration of a run, from the DAG's history.
    expected_cost = NumberAttribute(null=True)
    expected_seconds = NumberAttribute(null=True)  # how long a run is expected to take

    state = UnicodeAttribute()  # running, paused, completed, cancelled
    reason = UnicodeAttribute(null=True)  # why it was paused or cancelled
    # Of a cancelled one: whether its running runs are cancelled too.
    cancels_running_runs = BooleanAttribute(null=True)
    ended_at = Instant(null=True)  # when it ended

    # The position: how many of the planned runs have had their turn.
    total = NumberAttribute()
    position = NumberAttribute(default=0)  # how many have had their turn
    # Keys of runs that hold a slot.
    active = UnicodeSetAttribute(null=True)
    # Results of these runs, and how many were not needed.
    succeeded = NumberAttribute(default=0)
    failed = NumberAttribute(default=0)  # how many failed
    cancelled = NumberAttribute(default=0)  # how many were cancelled
    passed = NumberAttribute(default=0)  # how many dates needed no run
    # The newest that were not needed: [run_key, "exists" or "in flight"].
    skipped_runs = JSONAttribute(null=True)
    # The total cost and duration of its finished runs; how many of these have jobs that are not
    # billed yet, and when the last of them ended.
    cost = NumberAttribute(null=True)
    seconds = NumberAttribute(null=True)  # how long its finished runs took
    unbilled_runs = NumberAttribute(null=True)  # of how many the cost is not known yet
    last_unbilled_at = Instant(null=True)  # when the last of them ended

    # Derived from the above in the same write.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)  # the partition of the index

    # Only in the rows of dates: JSON, compressed.
    dates = BinaryAttribute(null=True, legacy_encoding=False)

    due = _Due()
