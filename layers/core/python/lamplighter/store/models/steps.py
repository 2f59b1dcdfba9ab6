"""Steps: one task in one run."""

from pynamodb.attributes import JSONAttribute, NumberAttribute, TTLAttribute, UnicodeAttribute

from lamplighter.store.rows import Instant
from lamplighter.store.rows import Row


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
