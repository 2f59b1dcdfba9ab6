"""What must be true of the tables at every moment, whatever has crashed, been lost or come twice.

Owns: the one list of promises that all tests check. Refuses: repairing anything, and believing a
column that can be worked out from others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from lamplighter import settings
from lamplighter.identifiers import run_key
from lamplighter.scheduler import cursor
from lamplighter.scheduler.schedules import (
    RunSource,
    TimetableRuns,
    followed_until,
    schedule_in_force,
)
from lamplighter.store.models import Dags, Runs
from lamplighter.timetables.base import DagRunInfo
from lamplighter_local.table_checks import index_violations, run_violations, slot_violations
from tests.tools.invariants.backfills import backfill_violations
from tests.tools.invariants.custom_schedules import outlook_of
from tests.tools.invariants.custom_schedules import place as _place
from tests.tools.invariants.events import event_violations
from tests.tools.invariants.limits import counter_violations, stuck_violations
from tests.tools.invariants.progress import newest_tick, progress_violations
from tests.tools.invariants.steps import step_violations, steps_by_run

_NOTHING: Mapping[str, DagRunInfo] = MappingProxyType({})
_NO_LIMITS: Mapping[str, int] = MappingProxyType({})
# A schedule that is walked further than this is not one that a test waits for.
_MAX_STEPS = 20_000


def violations(
    *,
    origins: Mapping[str, DagRunInfo] = _NOTHING,
    limits: Mapping[str, int] = _NO_LIMITS,
    lowered: Collection[str] = (),
    is_idle: bool = True,
) -> list[str]:
    """Return what is wrong in the tables, one sentence each; an empty list means that all is well.

    Args:
        origins: By DAG, the position at which its present schedule began, where that was not at the
            beginning: the schedule was changed, or older runs have expired.
        limits: By DAG, the largest number of active runs since the limit was lowered.
        lowered: Pools and capacities that were made smaller while steps held them.
        is_idle: Whether all messages have been delivered. While some have not, or someone has just
            crashed, events that are enough for a run may not have reached their consumer.
    """
    runs: dict[str, list[Runs]] = {}
    for run in Runs.scan(consistent_read=True):
        runs.setdefault(run.dag_id, []).append(run)
    found = [text for each in runs.values() for run in each for text in run_violations(run)]
    dags = list(Dags.scan(consistent_read=True))
    for row in dags:
        own = runs.get(row.dag_id, [])
        checks = (
            slot_violations(row, own, limits.get(row.dag_id, int(row.max_active_runs))),
            index_violations(row),
            _of_schedule(row, own, origins.get(row.dag_id)),
        )
        found += [f"DAG {row.dag_id}: {text}" for check in checks for text in check]
    if is_idle:
        found += _stuck(dags, runs)
    found += backfill_violations(runs)
    found += step_violations(runs, is_idle=is_idle)
    found += counter_violations(lowered)
    return [*found, *event_violations(dags, runs, is_idle=is_idle)]


def require_sound(
    *,
    origins: Mapping[str, DagRunInfo] = _NOTHING,
    limits: Mapping[str, int] = _NO_LIMITS,
    is_idle: bool = True,
) -> None:
    """Raise an `AssertionError` that says everything that is wrong in the tables."""
    found = violations(origins=origins, limits=limits, is_idle=is_idle)
    assert not found, "\n".join(found)


def _stuck(dags: Sequence[Dags], runs: Mapping[str, list[Runs]]) -> Iterator[str]:
    steps, ticked_at = steps_by_run(), newest_tick()
    for row in dags:
        for text in progress_violations(row, runs.get(row.dag_id, ()), steps, ticked_at):
            yield f"DAG {row.dag_id}: {text}"
    yield from stuck_violations(runs, steps, ticked_at)


# The schedule.


def _of_schedule(row: Dags, runs: Iterable[Runs], origin: DagRunInfo | None) -> Iterator[str]:
    position, stored = cursor.position(row), cursor.stored_next(row)
    schedule = schedule_in_force(row)
    if row.schedule_error is not None:
        return
    by_key = {run.run_key: run for run in runs}
    new = [
        run
        for run in sorted(by_key.values(), key=lambda run: run.run_after)
        if run.run_type == "scheduled" and _is_after(run, origin)
    ]
    yield from _of_order(new)
    if position is not None and new and new[-1].run_after > position.run_after:
        yield f"its position {position.run_after} is behind its run {new[-1].run_key}"
    # A custom schedule has just begun, and its timetable is yet to be asked.
    is_unasked = schedule.is_custom and stored is not None and stored == position
    if (
        position is not None
        and stored is not None
        and not is_unasked
        and _place(stored) <= _place(position)
    ):
        yield f"its next run {_place(stored)} does not follow its position {_place(position)}"
    if cursor.is_continuous(row):
        yield from _of_continuous(new)
    elif schedule.earliest is not None or not (schedule.catchup or schedule.is_custom):
        run_source = outlook_of(row, origin)
        if run_source is None or is_unasked:
            return
        if schedule.catchup:
            yield from _of_every(row, by_key, new, origin, run_source)
        else:
            yield from _of_newest(row, new, run_source)


def _of_order(runs: Iterable[Runs]) -> Iterator[str]:
    for before, after in pairwise(runs):
        if before.run_after == after.run_after:
            yield f"two runs for {before.run_after}: {before.run_key} and {after.run_key}"
        if before.created_at > after.created_at:
            yield f"run {after.run_key} was created before its elder {before.run_key}"


def _of_continuous(runs: Iterable[Runs]) -> Iterator[str]:
    gap = settings.current().continuous_gap_seconds
    for run in runs:
        if not _length(run):
            yield f"interval {run.run_key} is empty"
    for before, after in pairwise(runs):
        if _length(after) < gap:
            yield f"interval {after.run_key} has {_length(after)} s, at least {gap} are wanted"
        if after.data_interval_start != before.data_interval_end:
            yield f"interval {after.run_key} does not begin where {before.run_key} ends"
        if before.ended_at is None or after.created_at < before.ended_at:
            yield f"run {after.run_key} was created while {before.run_key} was active"


def _of_newest(row: Dags, runs: Iterable[Runs], run_source: RunSource) -> Iterator[str]:
    for run in runs:
        if row.catch_up_until is not None and run.run_after <= row.catch_up_until:
            continue  # someone wished all of these
        following = run_source.after(_info(run), catchup=True)
        until = followed_until(row, run.created_at)
        if following is not None and following.run_after <= until:
            yield f"run {run.run_key} was created though {_place(following)} was complete too"


def _of_every(
    row: Dags,
    by_key: Mapping[str, Runs],
    new: Iterable[Runs],
    origin: DagRunInfo | None,
    run_source: RunSource,
) -> Iterator[str]:
    position, stored = cursor.position(row), cursor.stored_next(row)
    begin = run_source.after_another if isinstance(run_source, TimetableRuns) else run_source.after
    info = begin(origin, catchup=True)
    expected: set[str] = set()
    for _ in range(_MAX_STEPS):
        if info is None or position is None or _place(info) > _place(position):
            break
        key = _key(row, info)
        expected.add(key)
        if key not in by_key:
            yield f"no run for {_place(info)}, though the schedule has passed it"
        elif by_key[key].run_type == "scheduled":
            yield from _of_interval(by_key[key], info)
        info = run_source.after(info, catchup=True)
    if (info and info.run_after) != (stored and stored.run_after):
        yield f"its next run should be {info}, and is {stored}"
    if strange := sorted(run.run_key for run in new if run.run_key not in expected):
        yield f"runs that its schedule never had: {strange}"


def _of_interval(run: Runs, info: DagRunInfo) -> Iterator[str]:
    """Check that a run does not reach into the next interval, or leave a part of its own out."""
    wanted = info.data_interval and info.data_interval.end
    if run.data_interval_end != wanted:
        yield f"the interval of run {run.run_key} ends at {run.data_interval_end}, not at {wanted}"


def _key(row: Dags, info: DagRunInfo) -> str:
    name = cursor.timetable_of(row).generate_run_id(
        run_type="scheduled",
        run_after=info.run_after,
        data_interval=info.data_interval,
        partition_key=info.partition_key,
    )
    return run_key(name)


def _info(run: Runs) -> DagRunInfo:
    if run.data_interval_start is None or run.data_interval_end is None:
        return DagRunInfo(run.run_after, None, partition_key=run.partition_key)
    return DagRunInfo.interval(run.data_interval_start, run.data_interval_end)


def _length(run: Runs) -> float:
    assert run.data_interval_start is not None
    assert run.data_interval_end is not None
    return (run.data_interval_end - run.data_interval_start).total_seconds()


def _is_after(run: Runs, origin: DagRunInfo | None) -> bool:
    return origin is None or _place(_info(run)) > _place(origin)
