"""A run's columns that follow from its state: where it is found, and until when it is kept."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from pendulum import DateTime

from lamplighter import settings
from lamplighter.identifiers import run_key
from lamplighter.store.due import shard_of
from lamplighter.store.models import Dags, Runs
from lamplighter.store.rows import Malformed
from lamplighter.store.transactions import Update
from lamplighter.timetables.base import DagRunInfo

log = logging.getLogger(__name__)

QUEUED, RUNNING, SUCCESS, FAILED, CANCELLED = "queued", "running", "success", "failed", "cancelled"
# Runs without a date stand between those with one; beyond so many the past is too far away.
_MAX_RUNS_BEFORE = 500
FINISHED = frozenset({SUCCESS, FAILED, CANCELLED})


def new_run(
    dag: Dags, info: DagRunInfo, *, run_id: str, now: DateTime, claim_id: str, **columns: Any
) -> Runs:
    """Return a queued run of a DAG as it is defined now, for the beginning of its interval."""
    start, end = info.data_interval or (None, None)
    columns.setdefault("logical_date", start)
    return Runs(
        dag.dag_id,
        run_key(run_id),
        run_id=run_id,
        state=QUEUED,
        rev=1,
        data_interval_start=start,
        data_interval_end=end,
        partition_key=info.partition_key,
        run_after=info.run_after,
        dag_version=dag.version,
        bundle=dag.bundle,
        bundle_version=dag.bundle_version,
        created_at=now,
        queued_at=now,
        claim_id=claim_id,
        state_bucket=state_bucket(dag.dag_id, QUEUED, now),
        state_since=now,
        wake_shard=shard_of(dag.dag_id, settings.current().run_shards),
        wake_at=wake_time(now),
        **columns,
    )


def log_move(run: Runs) -> None:
    """Write the one line in the log that every change of a run's state has."""
    moved = {"from": run.stored.get("state"), "to": run.state}
    log.info(
        "run is %s",
        run.state,
        extra={"dag_id": run.dag_id, "run_id": run.run_id, "run_key": run.run_key, **moved},
    )


def state_bucket(dag_id: str, state: str, since: DateTime) -> str:
    """Return the partition of the index by state: finished runs are bucketed by day."""
    return _bucket(state, since, shard_of(dag_id, settings.current().run_shards))


def state_buckets(state: str, since: DateTime) -> list[str]:
    """Return all partitions of the index that hold runs of a state, of a day if they are over."""
    return [_bucket(state, since, shard) for shard in range(settings.current().run_shards)]


def _bucket(state: str, since: DateTime, shard: int) -> str:
    day = f"#{since.to_date_string()}" if state in FINISHED else ""
    return f"{state}{day}#{shard}"


def wake_time(now: DateTime) -> DateTime:
    """Return when a run that was just handed on is looked at again, should its message be lost."""
    return now.add(seconds=settings.current().wake_after_seconds)


def set_state_columns(run: Runs, now: DateTime) -> None:
    """Assign what follows from a run's new state; one that is over leaves the index of wakes."""
    run.state_bucket = state_bucket(run.dag_id, run.state, now)
    run.state_since = now
    is_over = run.state in FINISHED
    run.ended_at = now if is_over else None
    run.expires_at = now.add(days=settings.current().keep_finished_runs_days) if is_over else None
    run.wake_shard = None if is_over else shard_of(run.dag_id, settings.current().run_shards)
    run.wake_at = None if is_over else wake_time(now)


def release(dag_id: str, key: str, *, now: DateTime, claim_id: str) -> Update:
    """Return the write that lets a waiting run go: it has a slot now.

    It is refused the second time, so that a claim whose answer was lost knows its own work.
    """
    actions = [
        Runs.claim_id.set(claim_id),
        Runs.wake_at.set(wake_time(now)),
        Runs.rev.set(Runs.rev + 1),
    ]
    # One that has begun may wait too: it gave its slot back while it waited for its past.
    is_mine_to_release = Runs.state.is_in(QUEUED, RUNNING) & (Runs.claim_id != claim_id)
    return Update(Runs(dag_id, key), actions, is_mine_to_release)


def read_run(dag_id: str, key: str) -> Runs | None:
    """Return a run as it is now, or None if there is no such run."""
    try:
        return Runs.get(dag_id, key, consistent_read=True)
    except Runs.DoesNotExist:
        return None


def read_runs(names: Iterable[tuple[str, str]], *, malformed: list[Malformed]) -> list[Runs]:
    """Return the runs that exist, as they are now; those that cannot be read are `malformed`."""
    return list(Runs.batch_get(dict.fromkeys(names), True, malformed=malformed))


def runs_before(run: Runs) -> Iterator[Runs]:
    """Yield the runs of the same DAG before one, the nearest first."""
    yield from Runs.query(
        run.dag_id,
        Runs.run_key < run.run_key,
        scan_index_forward=False,
        consistent_read=True,
        limit=_MAX_RUNS_BEFORE,
    )
