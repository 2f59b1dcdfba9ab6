"""When the timers could find something to do, so that they need not fire at every minute.

Owns: the instants of the timers. Refuses: firing them.
"""

from base64 import b64decode
from collections.abc import Iterator
from datetime import timedelta

from pendulum import DateTime

from lamplighter.registry.pushes import resend_due_at
from lamplighter.settings import Settings
from lamplighter.store.bundles import BUNDLE
from lamplighter.store.models import Catalog
from lamplighter.store.watchers import watcher_row_kind
from lamplighter.streams.watchers import watchers_in
from lamplighter.topology import FUNCTIONS
from lamplighter.zones import as_utc, parse_instant
from lamplighter_local.emulator.moto_memory import items_of, texts_of
from lamplighter_local.given_sources import GivenSources

_MINUTE = timedelta(minutes=1)
_SWEEP_MINUTES = FUNCTIONS["sweep"].every_minutes


def next_tick(now: DateTime, made: Settings) -> DateTime | None:
    """Return the next minute at which a tick finds something due, or sends something ahead."""
    due = texts_of(f"{made.table_prefix}Dags", "next_run_create_after", listed_by="due_shard")
    if not due:
        return None
    covered = _covered_until(made)
    ahead = timedelta(seconds=made.look_ahead_seconds)
    # A message was sent for all up to `covered`: only if it gets lost, the minute after it acts.
    instants = (_instant(text, now) for text in set(due))
    minutes = (
        _minute_after(at) if covered and at <= covered else _minute_from(as_utc(at - ahead))
        for at in instants
    )
    return max(min(minutes), _minute_after(now))


def _instant(text: str, now: DateTime) -> DateTime:
    try:
        return parse_instant(text)
    except ValueError:
        return now  # a malformed row is found by every tick


def _covered_until(made: Settings) -> DateTime | None:
    for item in items_of(f"{made.table_prefix}Catalog"):
        if "covered_until" in item.attrs:
            return parse_instant(item.attrs["covered_until"].value)
    return None


def _minute_after(at: DateTime) -> DateTime:
    return as_utc(at.start_of("minute") + _MINUTE)


def _minute_from(at: DateTime) -> DateTime:
    minute = at.start_of("minute")
    return minute if minute == at else _minute_after(at)


def next_sweep(now: DateTime, made: Settings, *, with_runs: bool) -> DateTime | None:
    """Return the next time at which a sweep finds something that was left behind."""
    soonest = min(_left_behind(made, with_runs=with_runs), default=None)
    if soonest is None:
        return None
    soonest = max(soonest, now)
    minutes = soonest.minute // _SWEEP_MINUTES * _SWEEP_MINUTES
    before = soonest.replace(minute=minutes, second=0, microsecond=0)
    return as_utc(before + _MINUTE * _SWEEP_MINUTES)


def _left_behind(made: Settings, *, with_runs: bool) -> Iterator[DateTime]:
    waits = timedelta(seconds=made.resend_after_seconds)
    opened = texts_of(f"{made.table_prefix}Assets", "open_since", listed_by="open_shard")
    if opened:
        yield as_utc(parse_instant(min(opened)) + waits)
    sends = texts_of(f"{made.table_prefix}AssetEvents", "send_at", listed_by="pending_shard")
    if sends:
        yield parse_instant(min(sends))
    for row in _rows(made, BUNDLE):
        if (resend_at := resend_due_at(row)) is not None:
            yield resend_at
    due = texts_of(f"{made.table_prefix}Backfills", "next_run_create_after", listed_by="due_shard")
    if due:
        yield as_utc(parse_instant(min(due)) + waits)
    waited = texts_of(f"{made.table_prefix}Limits", "waited_at", listed_by="waited_at")
    if waited:
        yield parse_instant(min(waited))
    if with_runs:
        wakes = texts_of(f"{made.table_prefix}Runs", "wake_at", listed_by="wake_shard")
        if wakes:
            yield parse_instant(min(wakes))


def next_poll(now: DateTime, made: Settings, given: GivenSources | None) -> DateTime | None:
    """Return the next minute, if there are watchers whose source is polled and may have news."""
    watchers = watchers_in(_rows(made, watcher_row_kind(None)))
    has_listings = any(watcher.stream_info.feed.bucket for watcher in watchers)
    if watchers and given is not None and not has_listings:
        return _minute_after(now) if given.has_news(_seen_items(made)) else None
    return _minute_after(now) if watchers else None


def _seen_items(made: Settings) -> dict[str, bytes]:
    """Return what was seen at polled sources, by stream."""
    return {
        item.attrs["id"].value: b64decode(item.attrs["seen_items"].to_json()["B"])
        for item in items_of(f"{made.table_prefix}WatcherStates")
        if "seen_items" in item.attrs
    }


def watched_queues(made: Settings) -> list[str]:
    """Return the names of the queues that watchers read."""
    of_queues = watcher_row_kind(None)
    kinds = sorted(kind for kind in _kinds(made) if kind.startswith(of_queues))
    return [name for kind in kinds if (name := kind.removeprefix(of_queues))]


def _kinds(made: Settings) -> set[str]:
    """Return the kinds of rows that the catalog has."""
    return {item.attrs["kind"].value for item in items_of(f"{made.table_prefix}Catalog")}


def _rows(made: Settings, kind: str) -> Iterator[Catalog]:
    """Yield the rows of a kind that the catalog has."""
    for item in items_of(f"{made.table_prefix}Catalog"):
        if item.attrs["kind"].value == kind:
            row = Catalog()
            row.deserialize({name: value.to_json() for name, value in item.attrs.items()})
            yield row
