"""Dags: the state of each schedule, for claims. DagVersions: every definition."""

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


class _Due(GlobalSecondaryIndex["Dags"]):
    """DAGs that may get a run, by instant. A hint: it lags behind the table."""

    class Meta:
        index_name = "due"
        projection = KeysOnlyProjection()

    due_shard = NumberAttribute(hash_key=True)
    next_run_create_after = Instant(range_key=True)


class _ByFile(GlobalSecondaryIndex["Dags"]):
    """The DAGs of a bundle, file by file."""

    class Meta:
        index_name = "by_file"
        projection = KeysOnlyProjection()

    bundle = UnicodeAttribute(hash_key=True)
    source_key = UnicodeAttribute(range_key=True)


class Dags(Row):
    """One DAG: its schedule, limits, next run, and the slots of its runs."""

    class Meta:
        table_name = "Dags"

    dag_id = UnicodeAttribute(hash_key=True)  # its id in the deployment
    # Raised by every write, which is refused if it has changed since it was read.
    rev = NumberAttribute()

    # Its origin.
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()  # the archive that it came with, by hash
    source_key = UnicodeAttribute()  # file#dag_id
    push = NumberAttribute()  # the number of the push that registered it
    version = UnicodeAttribute()  # that of its definition in `DagVersions`
    hash = UnicodeAttribute()  # of its definition

    # The schedule for claims; the bounds include those of the tasks.
    schedule = UnicodeAttribute()
    timetable = UnicodeAttribute()  # JSON
    is_custom = BooleanAttribute(null=True)  # a custom timetable: only the sandbox may run it
    earliest = Instant(null=True)  # the earliest start date of the DAG and its tasks
    latest = Instant(null=True)  # the latest end date
    catchup = BooleanAttribute()  # whether missed runs are created
    max_active_runs = NumberAttribute()  # how many runs may hold a slot
    max_consecutive_failed_runs = NumberAttribute(null=True)  # after so many it is paused
    allowed_run_types = JSONAttribute(null=True)  # missing: all

    # Flags that keep it out of the index.
    is_paused = BooleanAttribute(default=False)
    is_stale = BooleanAttribute(default=False)  # its bundle no longer has it
    has_import_errors = BooleanAttribute(default=False)  # its file cannot be imported
    pause_reason = UnicodeAttribute(null=True)  # why the scheduler paused it
    schedule_error = UnicodeAttribute(null=True)  # what its timetable did wrong

    # The position: the last run of the schedule, whatever its state.
    last_run_after = Instant(null=True)
    last_interval_start = Instant(null=True)  # of its data interval
    last_interval_end = Instant(null=True)  # of its data interval

    # The next run as announced by the timetable.
    next_run = Instant(null=True)
    next_interval_start = Instant(null=True)  # of its data interval
    next_interval_end = Instant(null=True)  # of its data interval
    next_partition_key = UnicodeAttribute(null=True)  # the partition that it builds
    next_run_after = Instant(null=True)  # when it may be created

    # A schedule that was replaced by a push while runs of it were due. Claims follow it up to the
    # last of those (`run_after` <= `schedule_switch_at`), then both are removed. `schedules` in
    # `scheduler` has its form.
    previous_schedule = JSONAttribute(null=True)
    schedule_switch_at = Instant(null=True)  # the last instant of the previous schedule

    # Slots: keys of runs that hold one, and `instant|run_key` of those that wait for one.
    active = UnicodeSetAttribute(null=True)
    waiting = UnicodeSetAttribute(null=True)  # runs that wait for a slot, as `instant|run_key`
    # Runs that gave their slot back because they wait for the previous run. They count against new
    # runs of the schedule.
    waiting_for_past = UnicodeSetAttribute(null=True)
    # Run types that had a slot in this round: manual, scheduled, asset_triggered.
    served_run_types = UnicodeSetAttribute(null=True)
    # Since when the asset condition is met without a run.
    asset_condition_met_at = Instant(null=True)
    asset_condition = JSONAttribute(null=True)  # an asset id, or an operator on several
    # Asset-triggered runs since the start of an hour, which are limited.
    asset_hour_start = Instant(null=True)
    asset_runs_in_hour = NumberAttribute(null=True)  # how many since then
    # A start date that is still to come: until then, events cause no run.
    asset_start_at = Instant(null=True)
    referenced_assets = UnicodeSetAttribute(null=True)  # assets that may list it as a consumer
    watchers = UnicodeSetAttribute(null=True)  # keys of watchers that it may have
    consecutive_failed_runs = NumberAttribute(null=True)  # since the last success

    # Failed claims since the last successful one: how many, when, and why.
    claim_failures = NumberAttribute(null=True)
    claim_failed_at = Instant(null=True)  # when the last one failed
    claim_error = UnicodeAttribute(null=True)  # why it failed

    # Missed runs up to this instant are created, because an operator chose to catch up.
    catch_up_until = Instant(null=True)
    # The newest backfill; its number is the count of backfills.
    backfill = UnicodeAttribute(null=True)

    # Derived from the above in the same write; see `due`.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)  # the partition of the index

    due = _Due()
    by_file = _ByFile()

    @property
    def file(self) -> str:
        """The DAG file that defines it."""
        return self.source_key.rpartition("#")[0]


class DagVersions(Row):
    """One immutable definition of a DAG: the document from its bundle."""

    class Meta:
        table_name = "DagVersions"

    dag_id = UnicodeAttribute(hash_key=True)  # the id of the DAG
    version = UnicodeAttribute(range_key=True)  # 000001, 000002, …
    hash = UnicodeAttribute()  # of the definition
    bundle = UnicodeAttribute()  # the bundle that it came from
    bundle_version = UnicodeAttribute()  # the first one with this definition
    created_at = Instant()  # when it was registered
    # One of these: readable JSON, or compressed if it is long.
    document = UnicodeAttribute(null=True)
    document_gzip = BinaryAttribute(null=True, legacy_encoding=False)  # the same, compressed
