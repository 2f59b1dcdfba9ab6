"""Catalog: what there is one of, or few of: bundles, import errors, watchers, what was covered."""

from pynamodb.attributes import (
    BinaryAttribute,
    BooleanAttribute,
    JSONAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UnicodeSetAttribute,
)

from lamplighter.store.rows import Instant, Row


class Catalog(Row):
    """A row of one of several kinds; `kind` says which of the columns it has."""

    class Meta:
        table_name = "Catalog"

    kind = UnicodeAttribute(hash_key=True)
    id = UnicodeAttribute(range_key=True)
    updated_at = Instant(null=True)

    # kind "bundle", id = its name. Pushes are numbered; a smaller number never follows a larger.
    pushed = NumberAttribute(null=True)
    registering = NumberAttribute(null=True)
    registered = NumberAttribute(null=True)
    unreadable_push = NumberAttribute(null=True)  # the newest one of which nothing could be read
    # When the newest push, if it is not registered, is sent again, and how often it was.
    resend_at = Instant(null=True)
    resends = NumberAttribute(null=True)
    bundle_version = UnicodeAttribute(null=True)

    # kind "problems#<bundle>", id = a file that failed or was warned about.
    push = NumberAttribute(null=True)
    has_errors = BooleanAttribute(null=True)
    is_broken = BooleanAttribute(null=True)  # it could not be imported
    refused = UnicodeSetAttribute(null=True)  # DAGs of it that could not be stored
    problems = JSONAttribute(null=True)

    # kind "runs", id = a DAG with an author's timetable: the runs that the sandbox precomputed.
    version = UnicodeAttribute(null=True)  # with `bundle_version`: whose answers these are
    runs = JSONAttribute(null=True)
    is_last = BooleanAttribute(null=True)
    asked_at = Instant(null=True)  # for more of them

    # kind "tick", id "look-ahead".
    covered_until = Instant(null=True)
    due_shards = NumberAttribute(null=True)  # the most that have ever been in use

    # kind "watchers#<queue>", or "watchers#" if polled; id = DAG, asset, trigger hash and name.
    bundle = UnicodeAttribute(null=True)  # and `push`, `bundle_version`
    watcher = JSONAttribute(null=True)
    created_at = Instant(null=True)

    # kind "stream", id = of a source that is polled: who polls it, and what was seen there.
    lease_owner = UnicodeAttribute(null=True)
    lease_expires_at = Instant(null=True)
    polled_at = Instant(null=True)
    seen_items = BinaryAttribute(null=True, legacy_encoding=False)

    # kind "fired", id = a watcher: how often in a minute. kind "parked": those who fired too often.
    minute = Instant(null=True)
    fired = NumberAttribute(null=True)
