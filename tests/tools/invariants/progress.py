"""What must not go on for ever: a run that waits although it could go on, a DAG that stays due.

Owns: the promises about time. They can be judged only where timers have fired, so they refer to
the newest tick and not to the clock, which may have moved through an outage.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta

from pendulum import DateTime

from lamplighter import settings
from lamplighter.dags.dag import DAG
from lamplighter.runs.states import NONE, OVER, SKIPPED, SUCCESS
from lamplighter.store.catalog import read_look_ahead
from lamplighter.store.dags import definition_of
from lamplighter.store.models import Dags, Runs, Steps
from lamplighter.store.runs import run_ref
from lamplighter.store.slots import free_slots, index_entry, is_open, run_of

# A lost message costs a minute where a tick finds what it was about, and five where a sweep does.
_PATIENCE = timedelta(minutes=15)


def newest_tick() -> DateTime | None:
    """Return the minute of the newest tick, as far as it is recorded."""
    covered = read_look_ahead().covered_until
    ahead = settings.current().look_ahead_seconds
    return None if covered is None else covered.subtract(seconds=ahead)


def progress_violations(
    row: Dags,
    runs: Collection[Runs],
    steps: Mapping[str, list[Steps]],
    ticked_at: DateTime | None,
) -> Iterator[str]:
    """Yield what is stuck in one DAG, given that no message is on its way."""
    waiting = sorted(run_of(entry) for entry in row.waiting or ())
    if waiting and is_open(row) and free_slots(row) and row.due_shard is None:
        yield f"{waiting} wait for a slot, {free_slots(row)} are free, and nobody will look"
    if ticked_at is not None:
        yield from _of_due(row, runs, ticked_at - _PATIENCE)
        yield from _of_past(row, runs, steps, ticked_at - _PATIENCE)


def _of_due(row: Dags, runs: Collection[Runs], before: DateTime) -> Iterator[str]:
    due_at, shard = index_entry(row, shards=settings.current().due_shards)
    if shard is None or due_at is None or due_at > before:
        return
    # The runs of a backfill have slots of their own, and come and go whatever becomes of the DAG.
    own = [run for run in runs if run.backfill_id is None]
    changed_at = max((_changed_at(run) for run in own), default=due_at)
    if changed_at <= before:
        yield (
            f"it has been due since {due_at} with {free_slots(row)} free slots, and nothing has"
            f" happened since {changed_at}"
        )


def _changed_at(run: Runs) -> DateTime:
    return max(run.created_at, run.queued_at, run.state_since)


# Runs that gave their slot back because they wait for the run before.


def _of_past(
    row: Dags, runs: Collection[Runs], steps: Mapping[str, list[Steps]], before: DateTime
) -> Iterator[str]:
    if not is_open(row):
        return
    for run in runs:
        if run.run_key not in (row.waiting_for_past or ()) or run.wake_at is None:
            continue
        ready = _ready_tasks(run, runs, steps) if run.wake_at <= before else []
        if ready:
            yield (
                f"run {run.run_key} waits for its past, which is over for {ready}, and nobody has"
                f" looked since {run.wake_at}"
            )


def _ready_tasks(run: Runs, runs: Collection[Runs], steps: Mapping[str, list[Steps]]) -> list[str]:
    """Return the tasks of a run that wait for nothing any more, neither here nor in the past."""
    dag, own = definition_of(run), _states(run, steps)
    past = _states(_run_before(run, dag, runs), steps)
    return [
        task_id
        for task_id, task in sorted(dag.tasks.items())
        if task.depends_on_past
        and own.get(task_id, NONE) == NONE
        and past.get(task_id) in {SUCCESS, SKIPPED}
        and all(own.get(each, NONE) in OVER for each in task.upstream_task_ids)
    ]


def _states(run: Runs | None, steps: Mapping[str, list[Steps]]) -> dict[str, str]:
    if run is None:
        return {}
    found = steps.get(run_ref(run.dag_id, run.run_key), ())
    return {step.step_id: step.state for step in found if step.run_created_at == run.created_at}


def _run_before(run: Runs, dag: DAG, runs: Collection[Runs]) -> Runs | None:
    """Return the run of the date before; with catchup, those made by hand do not count."""
    earlier = [
        other
        for other in runs
        if other.logical_date is not None
        and run.logical_date is not None
        and other.logical_date < run.logical_date
        and not (dag.catchup and other.run_type == "manual")
    ]
    return max(earlier, key=lambda other: other.logical_date, default=None)
