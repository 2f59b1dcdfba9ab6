"""Dags: where each schedule stands, for claims to decide on. DagVersions: every definition."""

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
    """DAGs that may get a run, by when. A hint: it lags behind the table and is never believed."""

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
    """One DAG: its schedule, its limits, its next run, and the slots that its runs occupy."""

    class Meta:
        table_name = "Dags"

    dag_id = UnicodeAttribute(hash_key=True)
    # Raised by every writer, who writes only if it is still what was read.
    rev = NumberAttribute()

    # Where it came from.
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()
    source_key = UnicodeAttribute()  # file#dag_id
    push = NumberAttribute()
    version = UnicodeAttribute()
    hash = UnicodeAttribute()

    # The schedule, as the claim needs it: the bounds include those of the tasks.
    schedule = UnicodeAttribute()
    timetable = UnicodeAttribute()  # JSON
    is_custom = BooleanAttribute(
        null=True
    )  # an author's timetable: never asked outside the sandbox
    earliest = Instant(null=True)
    latest = Instant(null=True)
    catchup = BooleanAttribute()
    max_active_runs = NumberAttribute()
    max_consecutive_failed_runs = NumberAttribute(null=True)
    allowed_run_types = JSONAttribute(null=True)  # missing: all

    # What keeps it out of the index.
    is_paused = BooleanAttribute(default=False)
    is_stale = BooleanAttribute(default=False)
    has_import_errors = BooleanAttribute(default=False)
    pause_reason = UnicodeAttribute(null=True)
    schedule_error = UnicodeAttribute(null=True)

    # The position: the last run that the schedule gave, whatever became of it.
    last_run_after = Instant(null=True)
    last_interval_start = Instant(null=True)
    last_interval_end = Instant(null=True)

    # The next run, as the timetable announced it.
    next_run = Instant(null=True)
    next_interval_start = Instant(null=True)
    next_interval_end = Instant(null=True)
    next_partition_key = UnicodeAttribute(null=True)
    next_run_after = Instant(null=True)

    # A schedule that a push has replaced while runs of it were due. Claims follow it up to and
    # including the last of those (`run_after` <= `schedule_switch_at`), then both are removed.
    previous_schedule = JSONAttribute(null=True)  # see `scheduler.schedules`
    schedule_switch_at = Instant(null=True)

    # Slots: run keys that occupy one, and `instant|run_key` of those that wait for one.
    active = UnicodeSetAttribute(null=True)
    waiting = UnicodeSetAttribute(null=True)
    # Keys of runs that gave their slot back because all they have left to do waits for the run
    # before; while there are any, they count against new runs of the schedule.
    waiting_for_past = UnicodeSetAttribute(null=True)
    # Kinds that had a slot in this round: manual, scheduled, asset_triggered. They take turns.
    served_run_types = UnicodeSetAttribute(null=True)
    # Since when the asset condition holds without having become a run.
    asset_condition_met_at = Instant(null=True)
    asset_condition = JSONAttribute(null=True)
    referenced_assets = UnicodeSetAttribute(null=True)  # assets that may have it for a consumer
    watchers = UnicodeSetAttribute(null=True)  # places of watchers that it may have
    consecutive_failed_runs = NumberAttribute(null=True)

    # Claims that got nowhere since the last one that did: how often in a row, when, and why.
    claim_failures = NumberAttribute(null=True)
    claim_failed_at = Instant(null=True)
    claim_error = UnicodeAttribute(null=True)

    # Up to which instant all that was missed is made up for, because someone wished it.
    catch_up_until = Instant(null=True)
    # The newest backfill; its number says how many there have been.
    backfill = UnicodeAttribute(null=True)

    # Derived from all of the above in the same write; see `due`.
    next_run_create_after = Instant(null=True)
    due_shard = NumberAttribute(null=True)

    due = _Due()
    by_file = _ByFile()

    @property
    def file(self) -> str:
        """The DAG file that defines it."""
        return self.source_key.rpartition("#")[0]


class DagVersions(Row):
    """One definition of a DAG, as the document that its bundle gave. It never changes."""

    class Meta:
        table_name = "DagVersions"

    dag_id = UnicodeAttribute(hash_key=True)
    version = UnicodeAttribute(range_key=True)  # 000001, 000002, …
    hash = UnicodeAttribute()
    bundle = UnicodeAttribute()
    bundle_version = UnicodeAttribute()  # the first that had this definition
    created_at = Instant()
    # One of the two: JSON to read, or compressed where it is long.
    document = UnicodeAttribute(null=True)
    document_gzip = BinaryAttribute(null=True, legacy_encoding=False)
