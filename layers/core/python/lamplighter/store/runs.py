"""The rows of runs and steps: what follows from a run's state, how they are found, and lists.

Runs of one DAG are sorted by logical date; runs with custom ids are separate and merged in. Runs of
all DAGs are found by state, in an index with a partition per state, shard and, if finished, day.
"""

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, NamedTuple

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.errors import RefusedError
from lamplighter.identifiers import FREE_TEXT, run_key
from lamplighter.store import wire
from lamplighter.store.models import Dags, Runs, Steps
from lamplighter.store.rows import Malformed
from lamplighter.store.slots import shard_of
from lamplighter.store.transactions import Update, update_if
from lamplighter.timetables.base import DagRunInfo

log = logging.getLogger(__name__)

QUEUED, RUNNING, SUCCESS, FAILED, CANCELLED = "queued", "running", "success", "failed", "cancelled"
STATES = (QUEUED, RUNNING, SUCCESS, FAILED, CANCELLED)
FINISHED = frozenset({SUCCESS, FAILED, CANCELLED})
# Runs with custom ids are read completely, because their keys are not sorted by time.
_MAX_FREE = 1_000
# Runs without a date are interleaved; the search for earlier runs ends after this many.
_MAX_RUNS_BEFORE = 500
_THREADS = 8
# Finished runs of one day and shard that are looked at for one DAG.
_MAX_LISTED = 2_000
# A finished run looks for bills of its jobs after a minute, and later each time.
_FIRST_BILL_LOOK, _LONGEST_BILL_LOOK = 60.0, 1_800.0


def new_run(
    dag: Dags, info: DagRunInfo, *, run_id: str, now: DateTime, claim_id: str, **columns: Any
) -> Runs:
    """Return a queued run of a DAG's current definition."""
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
    """Log a change of a run's state."""
    moved = {"from": run.stored.get("state"), "to": run.state}
    about = {"dag_id": run.dag_id, "run_id": run.run_id, "run_key": run.run_key}
    log.info("run changed its state", extra={**about, **moved})


def state_bucket(dag_id: str, state: str, since: DateTime) -> str:
    """Return the partition of the index by state: finished runs are bucketed by day."""
    return _bucket(state, since, shard_of(dag_id, settings.current().run_shards))


def state_buckets(state: str, since: DateTime) -> list[str]:
    """Return all partitions with runs of a state; for a final state, those of one day."""
    return [_bucket(state, since, shard) for shard in range(settings.current().run_shards)]


def _bucket(state: str, since: DateTime, shard: int) -> str:
    day = f"#{since.to_date_string()}" if state in FINISHED else ""
    return f"{state}{day}#{shard}"


def wake_time(now: DateTime) -> DateTime:
    """Return when a run is checked again in case its message is lost."""
    return now.add(seconds=settings.current().resend_after_seconds)


def set_state_columns(run: Runs, now: DateTime) -> None:
    """Assign the columns that depend on a run's state."""
    run.state_bucket = state_bucket(run.dag_id, run.state, now)
    run.state_since = now
    is_over = run.state in FINISHED
    run.ended_at = now if is_over else None
    run.expires_at = now.add(days=settings.current().run_retention_days) if is_over else None
    run.wake_shard = shard_of(run.dag_id, settings.current().run_shards)
    run.wake_at = wake_time(now)
    if is_over:
        set_bill_wake(run, now)


def set_bill_wake(run: Runs, now: DateTime) -> None:
    """Assign when a finished run looks for missing bills again; in the end, never."""
    waited = (now - run.ended_at).total_seconds() if run.unbilled_jobs else math.inf
    if waited < 3_600 * settings.current().cost_wait_hours:
        run.wake_at = now.add(seconds=min(max(waited, _FIRST_BILL_LOOK), _LONGEST_BILL_LOOK))
    else:
        run.wake_at = run.wake_shard = None


def release(dag_id: str, key: str, *, now: DateTime, claim_id: str) -> Update:
    """Return the write that gives a waiting run its slot.

    It is refused the second time, so that a claim recognizes its own write after a lost response.
    """
    actions = [
        Runs.claim_id.set(claim_id),
        Runs.wake_at.set(wake_time(now)),
        Runs.rev.set(Runs.rev + 1),
    ]
    # A running one may wait too: it gave its slot back while it waited for the previous run.
    is_mine_to_release = Runs.state.is_in(QUEUED, RUNNING) & (Runs.claim_id != claim_id)
    return Update(Runs(dag_id, key), actions, is_mine_to_release)


def runs_to_wake(shard: int, until: DateTime) -> Iterator[tuple[str, str]]:
    """Yield the (dag id, run key) of one shard's runs whose wake time has come, oldest first."""
    items = wire.query_shard(Runs, "wake", ("wake_shard", "wake_at"), shard, until)
    return ((item["dag_id"]["S"], item["run_key"]["S"]) for item in items)


def read_run(dag_id: str, key: str) -> Runs | None:
    """Return a run, or None."""
    try:
        return Runs.get(dag_id, key, consistent_read=True)
    except Runs.DoesNotExist:
        return None


def require_run(name: str) -> Runs:
    """Return the run named `DAG/RUN`, by id or key."""
    dag_id, slash, rest = name.partition("/")
    if not slash or not dag_id or not rest:
        raise RefusedError(f"run {name!r}: write it as DAG/RUN, such as sales/manual__2026-01-31")
    for key in (run_key(rest), rest):
        if (run := read_run(dag_id, key)) is not None:
            return run
    raise RefusedError(f"DAG {dag_id!r} has no run {rest!r}")


def runs_from(dag_id: str, first_key: str) -> Iterator[Runs]:
    """Yield the runs of a DAG from a key on, in key order."""
    return iter(Runs.query(dag_id, Runs.run_key >= first_key, consistent_read=True))


def runs_before(run: Runs) -> Iterator[Runs]:
    """Yield the earlier runs of the same DAG, nearest first."""
    yield from Runs.query(
        run.dag_id,
        Runs.run_key < run.run_key,
        scan_index_forward=False,
        consistent_read=True,
        limit=_MAX_RUNS_BEFORE,
    )


# Listings, newest first.


def runs_of(dag_id: str, *, limit: int, states: Collection[str] = ()) -> list[Runs]:
    """Return the newest runs of a DAG by logical date, else by creation, in about two requests."""
    wanted = Runs.state.is_in(*states) if states else None
    dated = Runs.query(
        dag_id,
        Runs.run_key < FREE_TEXT,
        filter_condition=wanted,
        scan_index_forward=False,
        limit=limit,
        # Otherwise a selective filter would be read in pages of `limit` rows.
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
    """Return the newest run of each DAG, with one request per DAG in parallel."""

    def last(dag_id: str) -> Runs | None:
        found = Runs.query(dag_id, Runs.run_key < FREE_TEXT, scan_index_forward=False, limit=1)
        return next(iter(found), None)

    with ThreadPoolExecutor(_THREADS) as threads:
        found = zip(dag_ids, threads.map(last, dag_ids), strict=True)
        return {dag_id: run for dag_id, run in found if run is not None}


class Listed(NamedTuple):
    """A run in the index by state."""

    since: DateTime
    dag_id: str
    run_key: str


def recent_runs(*, limit: int, days: int, states: Collection[str] = STATES) -> list[Runs]:
    """Return the runs of all DAGs whose state changed last; finished ones of the last `days`.

    Sends a request for each state and shard, per day for final states, until there are enough.
    """
    listed = unfinished_runs(limit=limit, states=[each for each in states if each not in FINISHED])
    over = [each for each in states if each in FINISHED]
    now = clock.now()
    for day in (now - timedelta(days=back) for back in range(days if over else 0)):
        midnight = day.start_of("day")
        listed += _in_buckets(
            [bucket for state in over for bucket in state_buckets(state, midnight)], limit
        )
        # Runs that finished on earlier days are older than these.
        if sum(each.since >= midnight for each in listed) >= limit:
            break
    newest = sorted(listed, reverse=True)[:limit]
    order = {(each.dag_id, each.run_key): at for at, each in enumerate(newest)}
    rows = Runs.batch_get(order, consistent_read=True) if order else ()
    found = [run for run in rows if run.state in states]  # the index may lag behind
    return sorted(found, key=lambda run: order[run.dag_id, run.run_key])


def finished_runs(dag_id: str, *, days: int) -> tuple[list[Runs], bool]:
    """Return the runs of a DAG that finished today or on the days before, and whether it is all.

    Sends a request for each day and final state, and reads a bounded part of the index.
    """
    dates = [clock.now().subtract(days=back) for back in range(days)]
    buckets = [state_bucket(dag_id, state, day) for day in dates for state in sorted(FINISHED)]
    listed = [_in_buckets([bucket], _MAX_LISTED) for bucket in buckets]
    names = [each[1:] for some in listed for each in some if each.dag_id == dag_id]
    is_all = len(names) <= _MAX_LISTED and all(len(some) < _MAX_LISTED for some in listed)
    found = read_runs(names[:_MAX_LISTED])
    return [run for run in found if run.state in FINISHED], is_all


def unfinished_runs(
    *, limit: int | None = None, states: Iterable[str] = (QUEUED, RUNNING)
) -> list[Listed]:
    """Return the unfinished runs of the index, at most `limit` per shard."""
    now = clock.now()
    return _in_buckets([bucket for state in states for bucket in state_buckets(state, now)], limit)


def _in_buckets(buckets: Sequence[str], limit: int | None) -> list[Listed]:
    def read(bucket: str) -> list[Listed]:
        found = Runs.by_state.query(bucket, scan_index_forward=False, limit=limit)
        return [Listed(run.state_since, run.dag_id, run.run_key) for run in found]

    with ThreadPoolExecutor(_THREADS) as threads:
        return [each for some in threads.map(read, buckets) for each in some]


# Reading.


def read_runs(
    names: Iterable[tuple[str, str]], *, malformed: list[Malformed] | None = None
) -> list[Runs]:
    """Return the runs that exist, by (dag id, run key); malformed ones are added to `malformed`."""
    keys = dict.fromkeys(names)
    return list(Runs.batch_get(keys, consistent_read=True, malformed=malformed)) if keys else []


def run_states(dag_id: str, first_key: str, last_key: str) -> dict[str, str]:
    """Return the states of a DAG's runs by key, both ends included."""
    found = Runs.query(
        dag_id,
        Runs.run_key.between(first_key, last_key),
        attributes_to_get=["run_key", "state"],
        consistent_read=True,
    )
    return {run.run_key: run.state for run in found}


def runs_in_state(state: str, day: DateTime, *, since: DateTime | None = None) -> Iterator[Runs]:
    """Yield runs of a state from the index, for final states of one day.

    Only the key, `run_id` and `run_type` are read.
    """
    newer = None if since is None else Runs.state_since >= since
    for bucket in state_buckets(state, day):
        yield from Runs.by_state.query(bucket, newer)


def all_runs() -> list[Runs]:
    """Return every run; reads the whole table."""
    return list(Runs.scan(consistent_read=True))


# Steps: reading them, and the changes that need no decision about the run.


_SUBMITTED, _RUNNING = "submitted", "running"
# The states in which a step may have a job.
_WITH_A_JOB = ("cancelling", _RUNNING, _SUBMITTED)


def run_ref(dag_id: str, run_key: str) -> str:
    """Return the hash key of a run's steps."""
    return f"{dag_id}|{run_key}"


def steps_of(run: Runs) -> dict[str, Steps]:
    """Return the steps of a run by id."""
    if run.rev == 1:
        return {}  # the run has just been created
    found = Steps.query(run_ref(run.dag_id, run.run_key), consistent_read=True)
    return {step.step_id: step for step in found if step.run_created_at == run.created_at}


def read_step(run: Runs, step_id: str) -> Steps | None:
    """Return a step; it may belong to an earlier run with the same key."""
    try:
        return Steps.get(run_ref(run.dag_id, run.run_key), step_id, consistent_read=True)
    except Steps.DoesNotExist:
        return None


def record_job(step: Steps, job_run_id: str) -> bool:
    """Record the job of a submission; return False if the step has moved on."""
    is_same = (Steps.submission == step.submission) & Steps.state.is_in(*_WITH_A_JOB)
    row = Steps(step.run_ref, step.step_id)
    return update_if(row, [Steps.job_run_id.set(job_run_id)], is_same)


def record_running(
    ref: str, step_id: str, submission: int, *, job_run_id: str, started_at: DateTime
) -> Steps | None:
    """Record that a submission's job runs; return the step, or None if more has changed."""
    is_expected = (Steps.state == _SUBMITTED) & (Steps.submission == submission)
    is_its_job = Steps.job_run_id.does_not_exist() | (Steps.job_run_id == job_run_id)
    actions = [
        Steps.state.set(_RUNNING),
        Steps.job_run_id.set(job_run_id),
        Steps.started_at.set(started_at),
    ]
    row = Steps(ref, step_id)
    return row if update_if(row, actions, is_expected & is_its_job) else None


def stored_steps(ref: str) -> list[Steps]:
    """Return the steps stored under a run's key, including those of an earlier run."""
    return list(Steps.query(ref, consistent_read=True))


def all_steps() -> list[Steps]:
    """Return every step; reads the whole table."""
    return list(Steps.scan(consistent_read=True))
