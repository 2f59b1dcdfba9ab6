"""Catalog: bundles, import errors, watchers, look-ahead and other small kinds of rows.

And WatcherStates: all that the function which runs watchers may write.
"""

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
    """A row of one of several kinds; `kind` determines which columns it has."""

    class Meta:
        table_name = "Catalog"

    kind = UnicodeAttribute(hash_key=True)
    id = UnicodeAttribute(range_key=True)
    updated_at = Instant(null=True)

    # kind "bundle", id = its name. An older push never replaces a newer one.
    pushed = NumberAttribute(null=True)
    registering = NumberAttribute(null=True)
    registered = NumberAttribute(null=True)
    unreadable_push = NumberAttribute(null=True)  # the newest one that could not be read
    # When the newest push is sent again if it is not registered, and how often it was.
    resend_at = Instant(null=True)
    resends = NumberAttribute(null=True)
    bundle_version = UnicodeAttribute(null=True)

    # kind "pushes#<bundle>", id = the number of a push (`push`) modulo those that are kept; also
    # `bundle_version` and `created_at`.
    pushed_by = UnicodeAttribute(null=True)  # as the one who pushed told it
    why = UnicodeAttribute(null=True)
    origin = JSONAttribute(null=True)  # a push, a promotion or a rollback, and of what
    outcome = UnicodeAttribute(null=True)  # "registered" or "unreadable"; since `updated_at`
    errors = NumberAttribute(null=True)

    # kind "problems#<bundle>", id = a file with errors or warnings.
    push = NumberAttribute(null=True)
    has_errors = BooleanAttribute(null=True)
    is_broken = BooleanAttribute(null=True)  # it could not be imported
    refused = UnicodeSetAttribute(null=True)  # its DAGs that could not be stored
    problems = JSONAttribute(null=True)

    # kind "runs", id = a DAG with a custom timetable: its precomputed runs.
    version = UnicodeAttribute(null=True)  # with `bundle_version`: the definition they are of
    runs = JSONAttribute(null=True)
    is_last = BooleanAttribute(null=True)
    asked_at = Instant(null=True)  # when more were requested

    # kind "tick", id "look-ahead".
    covered_until = Instant(null=True)
    due_shards = NumberAttribute(null=True)  # the maximum ever in use

    # kind "watchers#<queue>", or "watchers#" if polled; id = DAG, asset, trigger hash and name.
    bundle = UnicodeAttribute(null=True)  # and `push`, `bundle_version`
    watcher = JSONAttribute(null=True)
    created_at = Instant(null=True)


class WatcherStates(Row):
    """A row of one of several kinds; `kind` determines which columns it has."""

    class Meta:
        table_name = "WatcherStates"

    kind = UnicodeAttribute(hash_key=True)
    id = UnicodeAttribute(range_key=True)
    updated_at = Instant(null=True)

    # kind "stream", id = a polled source: its lease and seen items, and by watcher how many
    # sessions in a row have failed at the events of the author's own producer.
    lease_owner = UnicodeAttribute(null=True)
    lease_expires_at = Instant(null=True)
    polled_at = Instant(null=True)
    seen_items = BinaryAttribute(null=True, legacy_encoding=False)
    failed_sessions = JSONAttribute(null=True)

    # kind "fired", id = a watcher: events per minute. kind "parked": those that fire too often.
    minute = Instant(null=True)
    fired = NumberAttribute(null=True)
