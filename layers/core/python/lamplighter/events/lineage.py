"""Traces an event to its runs, and a run to its events. Read-only.

Everything is derived from the rows that decide: the sequence numbers that a DAG has consumed, the
ranges of its runs, and the ranges that were dropped.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from lamplighter import clock
from lamplighter.errors import RefusedError, TransientError
from lamplighter.events.record import event_id_of, recorded_event_id
from lamplighter.identifiers import asset_id, is_alias
from lamplighter.scheduler.pending import ids_of, pending_of, share_events
from lamplighter.store.assets import (
    all_asset_ids,
    consumers_of,
    events_between,
    read_asset_events,
    read_asset_queue,
    read_assets,
)
from lamplighter.store.dags import read_dag
from lamplighter.store.models import AssetEvents, AssetQueue, Dags, Runs
from lamplighter.store.models.assets import REJECTED
from lamplighter.store.runs import runs_from
from lamplighter.store.slots import free_slots
from lamplighter.zones import iso

# The index by sequence number lags behind the table by less than this.
_INDEX_LAG_SECONDS = 60


@dataclass(frozen=True)
class ConsumerStatus:
    """The status of an event for one consumer: consumed, pending, waiting, dropped or not owed."""

    dag_id: str
    state: str
    reason: str = ""
    run_id: str | None = None


@dataclass(frozen=True)
class EventTrace:
    """One event of one asset, and its status for each current consumer."""

    asset: str
    event: AssetEvents
    consumers: list[ConsumerStatus] = field(default_factory=list)

    @property
    def rejected(self) -> str | None:
        """Why it was rejected, if it was."""
        return self.event.rejected


# From an event to its runs.


def trace_event(event_id: str, *, asset: str | None = None) -> list[EventTrace]:
    """Return the traces of an event id, of one asset or of every asset that has it."""
    streams = all_asset_ids()
    keys = [(stream, event_id) for stream in (*streams, REJECTED) if not is_alias(stream)]
    found = [
        event
        for event in read_asset_events(keys)
        # A rejected one of an outlet is under `REJECTED`, too.
        if (event.rejected is None or event.asset_id == REJECTED)
        and event.origin is None
        and (asset is None or event.asset_id == asset_id(asset))
    ]
    if not found:
        of_asset = f" of asset {asset!r}" if asset is not None else ""
        raise RefusedError(
            f"there is no event {event_id!r}{of_asset}: it has not arrived, or has expired"
        )
    names = asset_names(event.asset_id for event in found)
    traces = []
    for event in found:
        recorded = [event, *_copies(event, streams)]
        statuses = dict.fromkeys(each for row in recorded for each in _consumer_statuses(row))
        traces.append(EventTrace(names.get(event.asset_id, ""), event, list(statuses)))
    return traces


def _copies(event: AssetEvents, streams: Iterable[str]) -> list[AssetEvents]:
    """Return the copies of an event under aliases and URIs."""
    keys = [
        (stream, recorded_event_id(stream, event.asset_id, event.event_id))
        for stream in streams
        if share_events([stream])
    ]
    return [row for row in read_asset_events(keys) if row.origin == event.asset_id]


def asset_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the display names of assets by id."""
    return {key: row.name or row.uri or key for key, row in read_assets(keys).items()}


def _consumer_statuses(event: AssetEvents) -> Iterator[ConsumerStatus]:
    if event.seq is None:
        return
    keys = [(dag_id, event.asset_id) for dag_id in consumers_of(event.asset_id)]
    found = {row.dag_id: row for row in read_asset_queue(keys)}
    for dag_id in sorted(found):
        yield _consumer_status(event, found[dag_id])


def _consumer_status(event: AssetEvents, queue: AssetQueue) -> ConsumerStatus:
    dag_id, seq = queue.dag_id, int(event.seq or 0)
    if seq <= queue.since_seq:
        return ConsumerStatus(dag_id, "not owed", "recorded before the DAG waited for it")
    for after, until, when, why in queue.dropped or ():
        if after < seq <= until:
            return ConsumerStatus(dag_id, "dropped", f"{why}, at {when}")
    if seq > queue.consumed_seq:
        row = read_dag(dag_id)
        return ConsumerStatus(dag_id, *(_why_pending(row) if row else ("pending", "no such DAG")))
    run = _run_with(event, dag_id)
    if run is None:
        return ConsumerStatus(dag_id, "consumed", "by a run that is no longer kept")
    return ConsumerStatus(dag_id, "consumed", run_id=run.run_id)


def _why_pending(row: Dags) -> tuple[str, str]:
    if row.is_paused:
        then = "kept for then" if row.catchup else "dropped then"
        return "pending", f"until the DAG is un-paused; {then}"
    if row.is_stale or row.has_import_errors:
        return "pending", "the DAG's file is gone or broken; kept until it is pushed again"
    if row.asset_start_at is not None:
        then = "kept for then" if row.catchup else "dropped then"
        return "pending", f"until the start date {iso(row.asset_start_at)}; {then}"
    missing = set(ids_of(row.asset_condition)) - pending_of([row])[row.dag_id].events.keys()
    if row.asset_condition_met_at is None and missing:
        names = asset_names(missing)
        return "pending", f"no event yet of {', '.join(sorted(names.get(k, k) for k in missing))}"
    if not free_slots(row):
        return "waiting", f"for a slot: {len(row.active or ())} of {row.max_active_runs:.0f} taken"
    return "pending", "about to become a run"


def _run_with(event: AssetEvents, dag_id: str) -> Runs | None:
    """Return the run that consumed an event; its key is not before the event's second."""
    # A run key is the instant of its newest event, whose fraction may be left out.
    not_before = event.recorded_at.format("YYYY-MM-DDTHH:mm:ss")
    for run in runs_from(dag_id, not_before):
        after, until = (run.events or {}).get(event.asset_id, (0, 0))
        if after < (event.seq or 0) <= until:
            return run
    return None


# From a run to its events.


@dataclass(frozen=True)
class RunEvents:
    """The events that a run consumed, and the number of expired ones by asset."""

    # With the name of the asset, oldest first.
    recorded: list[tuple[str, AssetEvents]]
    expired: Mapping[str, int]

    @property
    def events(self) -> dict[str, list[dict[str, Any]]]:
        """The events as jobs see them, by asset."""
        found: dict[str, list[dict[str, Any]]] = {}
        for asset, row in self.recorded:
            found.setdefault(asset, []).append(_described(row))
        return found


def triggering_asset_events(run: Runs) -> RunEvents:
    """Return the events that a run consumed, oldest first, without duplicates."""
    rows: dict[tuple[str, str], AssetEvents] = {}
    expired: dict[str, int] = {}
    for stream, (after, until) in sorted((run.events or {}).items()):
        found = events_between(stream, after=after, until=until)
        # Sequence numbers have no gaps, so missing events can be counted.
        missing = until - after - len(found)
        if missing and _may_be_lagging(run):
            raise TransientError(
                f"the newest events of run {run.run_id} are not listed yet; try again"
            )
        expired |= {stream: missing} if missing else {}
        # An event that also came through an alias is in both streams.
        rows |= {(row.origin or row.asset_id, event_id_of(row)): row for row in found}
    names = asset_names({*expired, *(origin for origin, _ in rows)})
    recorded = [
        (names.get(origin, origin), row)
        for (origin, _), row in sorted(rows.items(), key=lambda item: item[1].recorded_at)
    ]
    return RunEvents(recorded, {names.get(key, key): count for key, count in expired.items()})


def _may_be_lagging(run: Runs) -> bool:
    return (clock.now() - run.created_at).total_seconds() < _INDEX_LAG_SECONDS


def _described(row: AssetEvents) -> dict[str, Any]:
    return {
        "event_id": event_id_of(row),
        "timestamp": iso(row.timestamp),
        "extra": row.extra or {},
        "source": row.source,
        "partition_key": row.partition_key,
    }
