"""What there is, for people who look at it. Reads only; runs and events newest first.

Runs of one DAG stand in the order of their logical dates; ids that people chose freely stand apart
and are put where they belong. Runs of all DAGs are found by state, in an index with a partition for
each state and shard and, of finished runs, day.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock
from lamplighter.errors import MalformedRowError
from lamplighter.identifiers import FREE_TEXT
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Catalog, Dags, Runs, Steps
from lamplighter.store.models.assets import CONSUMER, ITSELF
from lamplighter.store.runs import (
    CANCELLED,
    FAILED,
    FINISHED,
    QUEUED,
    RUNNING,
    SUCCESS,
    state_buckets,
)

STATES = (QUEUED, RUNNING, SUCCESS, FAILED, CANCELLED)
# Those of one DAG are read whole, because their keys say nothing about time.
_MAX_FREE = 1_000
_THREADS = 8


def runs_of(dag_id: str, *, limit: int, states: Collection[str] = ()) -> list[Runs]:
    """Return the newest runs of a DAG, by logical date or, where there is none, by creation.

    Two requests, where pages are not full.
    """
    wanted = Runs.state.is_in(*states) if states else None
    dated = Runs.query(
        dag_id,
        Runs.run_key < FREE_TEXT,
        filter_condition=wanted,
        scan_index_forward=False,
        limit=limit,
        # Else a filter that finds little would be asked in pages of `limit` rows.
        page_size=None if wanted is None else 1_000,
        consistent_read=True,
    )
    free = Runs.query(
        dag_id,
        Runs.run_key >= FREE_TEXT,
        filter_condition=wanted,
        limit=_MAX_FREE,
        consistent_read=True,
    )
    found = sorted([*dated, *free], key=_place, reverse=True)
    return found[:limit]


def _place(run: Runs) -> DateTime:
    return run.run_after if run.logical_date is None else run.logical_date


def last_runs(dag_ids: Sequence[str]) -> dict[str, Runs]:
    """Return the run of each DAG that has the newest date; one request each, several at once."""

    def last(dag_id: str) -> Runs | None:
        found = Runs.query(dag_id, Runs.run_key < FREE_TEXT, scan_index_forward=False, limit=1)
        return next(iter(found), None)

    with ThreadPoolExecutor(_THREADS) as threads:
        found = zip(dag_ids, threads.map(last, dag_ids), strict=True)
        return {dag_id: run for dag_id, run in found if run is not None}


class Listed(NamedTuple):
    """A run as the index by state has it."""

    since: DateTime
    dag_id: str
    run_key: str


def recent_runs(*, limit: int, days: int, states: Collection[str] = STATES) -> list[Runs]:
    """Return the runs of all DAGs whose states changed last; finished ones of so many days.

    A request for each shard of each state, and day if it is over, until there are enough.
    """
    listed = unfinished_runs(limit=limit, states=[each for each in states if each not in FINISHED])
    over = [each for each in states if each in FINISHED]
    now = clock.now()
    for day in (now - timedelta(days=back) for back in range(days if over else 0)):
        midnight = day.start_of("day")
        listed += _in_buckets(
            [bucket for state in over for bucket in state_buckets(state, midnight)], limit
        )
        # What ended on a day before that has not changed since.
        if sum(each.since >= midnight for each in listed) >= limit:
            break
    newest = sorted(listed, reverse=True)[:limit]
    order = {(each.dag_id, each.run_key): at for at, each in enumerate(newest)}
    rows = Runs.batch_get(order, consistent_read=True) if order else ()
    found = [run for run in rows if run.state in states]  # the index may lag behind
    return sorted(found, key=lambda run: order[run.dag_id, run.run_key])


def unfinished_runs(
    *, limit: int | None = None, states: Iterable[str] = (QUEUED, RUNNING)
) -> list[Listed]:
    """Return the runs that the index has as unfinished: of each shard, at most so many."""
    now = clock.now()
    return _in_buckets([bucket for state in states for bucket in state_buckets(state, now)], limit)


def _in_buckets(buckets: Sequence[str], limit: int | None) -> list[Listed]:
    def read(bucket: str) -> list[Listed]:
        found = Runs.by_state.query(bucket, scan_index_forward=False, limit=limit)
        return [Listed(run.state_since, run.dag_id, run.run_key) for run in found]

    with ThreadPoolExecutor(_THREADS) as threads:
        return [each for some in threads.map(read, buckets) for each in some]


def recent_events(asset_ids: Sequence[str], *, limit: int) -> list[AssetEvents]:
    """Return the newest events of assets; one request each, several at once."""

    def read(asset_id: str) -> list[AssetEvents]:
        return list(AssetEvents.by_seq.query(asset_id, scan_index_forward=False, limit=limit))

    with ThreadPoolExecutor(_THREADS) as threads:
        found = [event for some in threads.map(read, asset_ids) for event in some]
    return sorted(found, key=lambda event: (event.recorded_at, event.seq), reverse=True)[:limit]


def runs_in_state(state: str, day: DateTime, *, since: DateTime | None = None) -> Iterator[Runs]:
    """Yield the runs of a state as the index has them: of one day if they are over.

    Only the key, `run_id` and `run_type` of each are read.
    """
    newer = None if since is None else Runs.state_since >= since
    for bucket in state_buckets(state, day):
        yield from Runs.by_state.query(bucket, newer)


def all_runs() -> list[Runs]:
    """Return every run, as it is now; reads the whole table."""
    return list(Runs.scan(consistent_read=True))


# Steps.


def steps_of(run_ref: str) -> list[Steps]:
    """Return the steps that are stored under the key of a run, as they are now."""
    return list(Steps.query(run_ref, consistent_read=True))


def all_steps() -> list[Steps]:
    """Return every step, as it is now; reads the whole table."""
    return list(Steps.scan(consistent_read=True))


# DAGs. A scan each: they are few, and nothing is decided on what is found.


def all_dags(
    *, consistent_read: bool = False, malformed: list[MalformedRowError] | None = None
) -> list[Dags]:
    """Return all DAGs by id; what cannot be read is added to `malformed`."""
    rows = Dags.scan(consistent_read=consistent_read, malformed=malformed)
    return sorted(rows, key=lambda row: row.dag_id)


def dag_ids() -> list[str]:
    """Return the ids of all DAGs."""
    return [row.dag_id for row in Dags.scan(attributes_to_get=["dag_id"])]


def dags_with_schedule_errors() -> list[Dags]:
    """Return the DAGs whose schedules cannot be followed."""
    return list(Dags.scan(Dags.schedule_error.exists()))


def dags_with_backfills(*, consistent_read: bool = False) -> list[Dags]:
    """Return the DAGs that have had a backfill."""
    return list(Dags.scan(Dags.backfill.exists(), consistent_read=consistent_read))


# Assets.


def assets_and_consumers() -> tuple[list[Assets], Counter[str]]:
    """Return all assets, aliases and URIs, and how many DAGs wait for each, by id."""
    rows = list(Assets.scan())
    consumers = Counter(row.asset_id for row in rows if row.ref.startswith(CONSUMER))
    return [row for row in rows if row.ref == ITSELF], consumers


def names_of_assets() -> set[str]:
    """Return the names and URIs under which assets and aliases are known."""
    known = Assets.scan(Assets.ref == ITSELF, attributes_to_get=["name", "uri"])
    return {text for each in known for text in (each.name, each.uri) if text}


def assets_of_kind(kind: str) -> list[Assets]:
    """Return the assets, the aliases or the URIs."""
    return list(Assets.scan(Assets.kind == kind))


def last_updated_assets(*, limit: int) -> list[Assets]:
    """Return the assets that had the newest events, newest first."""
    # Under a URI or an alias stand only copies, unless no asset has the URI.
    found = Assets.scan((Assets.ref == ITSELF) & (Assets.seq > 0) & Assets.target.does_not_exist())
    updated = [(row.recorded_at, row) for row in found if row.kind != "alias"]
    dated = [(at, row) for at, row in updated if at is not None]
    return [row for _, row in sorted(dated, key=lambda pair: pair[0], reverse=True)][:limit]


def consumed_by(dag_ids: Mapping[str, Iterable[str]]) -> list[AssetQueue]:
    """Return how far DAGs have consumed assets, by asset and its consumers."""
    keys = [(dag_id, asset_id) for asset_id, ids in dag_ids.items() for dag_id in ids]
    return list(AssetQueue.batch_get(keys, consistent_read=True)) if keys else []


# Bundles.


def read_bundles() -> list[Catalog]:
    """Return all bundles with the numbers of their pushes."""
    return list(Catalog.query("bundle", consistent_read=True))
