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

    kind = UnicodeAttribute(hash_key=True)  # which of the kinds below
    id = UnicodeAttribute(range_key=True)  # the name within its kind
    updated_at = Instant(null=True)  # when it was last written

    # kind "bundle", id = its name. An older push never replaces a newer one.
    pushed = NumberAttribute(null=True)
    registering = NumberAttribute(null=True)  # the number of the push that is being registered
    registered = NumberAttribute(null=True)  # the number of the newest registered push
    unreadable_push = NumberAttribute(null=True)  # the newest one that could not be read
    # When the newest push is sent again if it is not registered, and how often it was.
    resend_at = Instant(null=True)
    resends = NumberAttribute(null=True)  # how often it was sent again
    bundle_version = UnicodeAttribute(null=True)  # the archive of that push, by hash

    # kind "pushes#<bundle>", id = the number of a push (`push`) modulo those that are kept; also
    # `bundle_version` and `created_at`.
    pushed_by = UnicodeAttribute(null=True)  # as the one who pushed told it
    why = UnicodeAttribute(null=True)  # the reason that was given
    origin = JSONAttribute(null=True)  # a push, a promotion or a rollback, and of what
    outcome = UnicodeAttribute(null=True)  # "registered" or "unreadable"; since `updated_at`
    errors = NumberAttribute(null=True)  # how many import errors there were

    # kind "problems#<bundle>", id = a file with errors or warnings.
    push = NumberAttribute(null=True)
    has_errors = BooleanAttribute(null=True)  # whether any is an error
    is_broken = BooleanAttribute(null=True)  # it could not be imported
    refused = UnicodeSetAttribute(null=True)  # its DAGs that could not be stored
    problems = JSONAttribute(null=True)  # errors and warnings, with their lines

    # kind "runs", id = a DAG with a custom timetable: its precomputed runs.
    version = UnicodeAttribute(null=True)  # with `bundle_version`: the definition they are of
    runs = JSONAttribute(null=True)  # what the timetable answered
    is_last = BooleanAttribute(null=True)  # whether the timetable has no more
    asked_at = Instant(null=True)  # when more were requested

    # kind "tick", id "look-ahead".
    covered_until = Instant(null=True)
    due_shards = NumberAttribute(null=True)  # the maximum ever in use

    # kind "watchers#<queue>", or "watchers#" if polled; id = DAG, asset, trigger hash and name.
    bundle = UnicodeAttribute(null=True)  # and `push`, `bundle_version`
    watcher = JSONAttribute(null=True)  # its trigger and what feeds it
    created_at = Instant(null=True)  # when it was registered


class WatcherStates(Row):
    """A row of one of several kinds; `kind` determines which columns it has."""

    class Meta:
        table_name = "WatcherStates"

    kind = UnicodeAttribute(hash_key=True)  # which of the kinds below
    id = UnicodeAttribute(range_key=True)  # the name within its kind
    updated_at = Instant(null=True)  # when it was last written

    # kind "stream", id = a polled source: its lease and seen items, and by watcher how many
    # sessions in a row have failed at the events of the author's own producer.
    lease_owner = UnicodeAttribute(null=True)
    lease_expires_at = Instant(null=True)  # when another session may take it
    polled_at = Instant(null=True)  # when it was last read
    seen_items = BinaryAttribute(null=True, legacy_encoding=False)  # as short hashes
    failed_sessions = JSONAttribute(null=True)  # by watcher

    # kind "fired", id = a watcher: events per minute. kind "parked": those that fire too often.
    minute = Instant(null=True)
    fired = NumberAttribute(null=True)  # how many events in that minute
