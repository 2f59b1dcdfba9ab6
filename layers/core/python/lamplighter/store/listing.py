"""Runs and events for people who look at them, newest first, in few requests. Reads only.

Runs of one DAG stand in the order of their logical dates; ids that people chose freely stand apart
and are put where they belong. Runs of all DAGs are found by state, in an index with a partition for
each state and shard and, of finished runs, day.
"""

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import NamedTuple

from pendulum import DateTime

from lamplighter import clock
from lamplighter.identifiers import FREE_TEXT
from lamplighter.store.models import AssetEvents, Runs
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
