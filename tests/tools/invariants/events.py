"""What must be true of asset events: each is recorded once, and reaches each consumer once.

Owns: the promises about assets, their events and their consumers, which `invariants` checks with
all others. Refuses: believing what a column says about events; who has had which of them is worked
out from the events and the runs.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Self

from lamplighter import clock, settings
from lamplighter.events.record import event_id_of
from lamplighter.scheduler.pending import ids_of, is_met
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Dags, Runs
from lamplighter.store.models.assets import CONSUMER, ITSELF, REJECTED

RunsByDag = Mapping[str, Collection[Runs]]

# The sweep comes every five minutes, and an event that it finds has waited for two.
_PATIENCE = timedelta(minutes=30)


class _Range(NamedTuple):
    """The numbers after the first and up to the second, and what became of these events."""

    after: int
    until: int
    taker: str


@dataclass
class _Tables:
    """All that the tables say about assets; an alias and a URI are streams of events as well."""

    streams: dict[str, Assets] = field(default_factory=dict)
    references: set[tuple[str, str]] = field(default_factory=set)
    events: dict[str, list[AssetEvents]] = field(default_factory=lambda: defaultdict(list))
    queue: dict[tuple[str, str], AssetQueue] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Self:
        """Return the tables as they are now."""
        this = cls()
        for row in Assets.scan(consistent_read=True):
            if row.ref == ITSELF:
                this.streams[row.asset_id] = row
            else:
                this.references.add((row.ref.removeprefix(CONSUMER), row.asset_id))
        for event in AssetEvents.scan(consistent_read=True):
            # An outlet's event waits for its number; see `step_invariants`.
            if event.asset_id != REJECTED and event.message is None:
                this.events[event.asset_id].append(event)
        for waiting in AssetQueue.scan(consistent_read=True):
            this.queue[waiting.dag_id, waiting.asset_id] = waiting
        return this


def event_violations(dags: Iterable[Dags], runs: RunsByDag, *, is_idle: bool) -> Iterator[str]:
    """Yield what is wrong with asset events; `is_idle` if nothing is on its way to a consumer."""
    tables = _Tables.read()
    for stream in sorted(tables.streams.keys() | tables.events.keys()):
        for text in _of_stream(stream, tables, is_idle=is_idle):
            yield f"asset {stream}: {text}"
    for dag_id, stream in sorted(tables.queue.keys() ^ tables.references):
        yield f"DAG {dag_id} has only half a reference to asset {stream}"
    for (dag_id, stream), row in sorted(tables.queue.items()):
        for text in _of_consumer(row, tables.streams.get(stream), runs.get(dag_id, ())):
            yield f"DAG {dag_id}, asset {stream}: {text}"
    for dag_id in sorted(runs.keys() | {dag_id for dag_id, _ in tables.queue}):
        for text in _of_attached(dag_id, runs.get(dag_id, ()), tables):
            yield f"DAG {dag_id}: {text}"
    for dag in dags:
        for text in _of_condition(dag, tables, is_idle=is_idle):
            yield f"DAG {dag.dag_id}: {text}"


# The events of one asset, alias or URI.


def _of_stream(stream: str, tables: _Tables, *, is_idle: bool) -> Iterator[str]:
    events, row = tables.events[stream], tables.streams.get(stream)
    if row is None:
        yield f"there are {len(events)} events of it, but it is not there"
        return
    yield from _of_numbers(row, events)
    yield from _of_uri(row, tables)
    yield from _of_open(row) if is_idle else ()
    for origin in sorted({event.origin for event in events if event.origin is not None}):
        known = {original.event_id for original in tables.events[origin]}
        copies = {event_id_of(e) for e in events if e.origin == origin and not _is_over(e)}
        if strange := copies - known:
            yield f"it has copies of events that asset {origin} never had: {sorted(strange)}"


def _of_open(row: Assets) -> Iterator[str]:
    """Check that someone comes to an asset whose newest event may not have reached everyone."""
    if row.open_shard is None or row.recorded_at is None:
        return
    if row.recorded_at <= clock.now() - _PATIENCE:
        yield f"its event of {row.recorded_at} has not reached everyone, and nobody will look at it"


def _of_numbers(row: Assets, events: Collection[AssetEvents]) -> Iterator[str]:
    given = Counter(int(event.seq or 0) for event in events)
    newest = int(row.seq or 0)
    if doubled := sorted(seq for seq, times in given.items() if times > 1):
        yield f"several events have the number {doubled}"
    if strange := sorted(seq for seq in given if not 1 <= seq <= newest):
        yield f"its numbers go from 1 to {newest}, but there are events {strange}"
    if missing := sorted(set(range(_oldest(row, events), newest + 1)) - given.keys()):
        yield f"no event has the number {missing}, though {newest} were given"
    if newest and row.recorded_at is None:
        yield "it does not say when its newest event was recorded"


def _oldest(row: Assets, events: Iterable[AssetEvents]) -> int:
    """Return the number from which on no event can have expired."""
    begin = clock.now().subtract(days=settings.current().event_retention_days)
    if row.created_at is not None and row.created_at > begin:
        return 1
    newest = int(row.seq or 0)
    is_newest_kept = row.recorded_at is not None and row.recorded_at > begin
    kept = [int(event.seq or 0) for event in events if not _is_over(event)]
    return min(kept, default=newest if is_newest_kept else newest + 1)


def _is_over(event: AssetEvents) -> bool:
    """Return whether the service may remove it at any time, in whichever order it likes."""
    return event.expires_at is not None and event.expires_at <= clock.now()


def _of_uri(row: Assets, tables: _Tables) -> Iterator[str]:
    """Check that events go to a URI exactly while someone waits for it and it leads to them."""
    for key in row.mirrored_uris or ():
        uri = tables.streams.get(key)
        if uri is None or not uri.has_consumers or uri.target != row.asset_id:
            yield f"its events go to {key} as well, where nobody wants them"
    target = tables.streams.get(row.target) if row.has_consumers and row.target else None
    if target is not None and row.asset_id not in (target.mirrored_uris or ()):
        yield f"it is waited for, but does not get the events of asset {row.target}"


# What one DAG has had of one asset.


def _of_consumer(row: AssetQueue, asset: Assets | None, runs: Iterable[Runs]) -> Iterator[str]:
    since, consumed = int(row.since_seq), int(row.consumed_seq)
    newest = 0 if asset is None else int(asset.seq or 0)
    if asset is None:
        yield "it waits for an asset that is not there"
    if not since <= consumed <= newest:
        yield f"it began after {since} and consumed up to {consumed} of {newest}"
    at = since
    # What it had before it stopped to wait for the asset and began again is another story.
    taken = [one for one in _taken(row.asset_id, runs, row) if one.until > since]
    for one in sorted(taken):
        if one.after >= one.until:
            yield f"{one.taker} has no events: {one.after} to {one.until}"
        if one.after > at:
            yield f"nobody has had the events after {at} up to {one.after}"
        if one.after < at:
            yield f"the events after {one.after} up to {at} have had two fates, one is {one.taker}"
        at = max(at, one.until)
    if at != consumed:
        yield f"events up to {at} have had a fate, and up to {consumed} are consumed"


def _taken(stream: str, runs: Iterable[Runs], row: AssetQueue | None) -> Iterator[_Range]:
    for run in runs:
        if run.events and stream in run.events:
            after, until = run.events[stream]
            yield _Range(after, until, f"run {run.run_key}")
    for after, until, when, _why in (row.dropped if row is not None else None) or ():
        yield _Range(after, until, f"dropped at {when}")


def _of_attached(dag_id: str, runs: Collection[Runs], tables: _Tables) -> Iterator[str]:
    """Check that no event came twice, once through its asset and once through another stream."""
    streams = {stream for run in runs for stream in run.events or ()}
    streams |= {stream for consumer, stream in tables.queue if consumer == dag_id}
    takers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for stream in streams:
        taken = list(_taken(stream, runs, tables.queue.get((dag_id, stream))))
        for event in tables.events.get(stream, ()):
            found = {one.taker for one in taken if one.after < int(event.seq or 0) <= one.until}
            takers[event.origin or stream, event_id_of(event)] |= found
    for (asset, event_id), found in sorted(takers.items()):
        if len(found) > 1:
            yield f"event {event_id} of asset {asset} came several times: {sorted(found)}"


# Whether a DAG has what it waits for.


def _of_condition(dag: Dags, tables: _Tables, *, is_idle: bool) -> Iterator[str]:
    ids = set(ids_of(dag.asset_condition))
    known = {key for key in ids if (dag.dag_id, key) in tables.queue and key in tables.streams}
    if missing := ids - known:
        yield f"it waits for {sorted(missing)}, which know nothing of it"
        return
    if not is_idle or any(tables.streams[key].open_shard is not None for key in ids):
        return  # someone is about to look at it
    pending = {
        key
        for key in ids
        if int(tables.streams[key].seq or 0) > int(tables.queue[dag.dag_id, key].consumed_seq)
    }
    if is_met(dag.asset_condition, pending) and dag.asset_condition_met_at is None:
        yield f"events of {sorted(pending)} are enough for a run, and nobody will look at it"
