"""What must be true of runs, slots, limits and the due index at every moment.

Owns: what the end of a test is checked for. The tests of this project check more
(`tests/tools/invariants`).
"""

from collections.abc import Iterable, Iterator

from lamplighter import clock, settings
from lamplighter.runs.states import LIVE, SCHEDULED
from lamplighter.store import limits
from lamplighter.store import runs as run_rows
from lamplighter.store.dags import all_dags
from lamplighter.store.models import Dags, Runs, Steps
from lamplighter.store.runs import all_runs, all_steps, run_ref, stored_steps
from lamplighter.store.slots import index_entry


def violations() -> list[str]:
    """Return what is wrong in the tables, one sentence each; an empty list if all is well."""
    runs: dict[str, list[Runs]] = {}
    for run in all_runs():
        runs.setdefault(run.dag_id, []).append(run)
    found = [text for each in runs.values() for run in each for text in run_violations(run)]
    by_ref = {run_ref(run.dag_id, run.run_key): run for each in runs.values() for run in each}
    for step in all_steps():
        found += [
            f"run {step.run_ref}: {text}"
            for text in waiting_violations(step, by_ref.get(step.run_ref))
        ]
    for row in all_dags():
        own = runs.get(row.dag_id, [])
        checks = (slot_violations(row, own, int(row.max_active_runs)), index_violations(row))
        found += [f"DAG {row.dag_id}: {text}" for check in checks for text in check]
    return [*found, *limit_violations()]


def run_violations(run: Runs) -> Iterator[str]:
    """Yield what is wrong with a run by itself."""
    name = f"run {run.run_key} of DAG {run.dag_id}"
    is_over = run.state in run_rows.FINISHED
    if run.state not in run_rows.FINISHED | {run_rows.QUEUED, run_rows.RUNNING}:
        yield f"{name} has the unknown state {run.state}"
    if run.state_bucket != run_rows.state_bucket(run.dag_id, run.state, run.state_since):
        yield f"{name} is {run.state} but is listed under {run.state_bucket}"
    if run.run_type == "scheduled" and run.created_at < run.run_after:
        yield f"{name} was created at {run.created_at}, before {run.run_after}"
    if is_over:
        yield from _bill_violations(run, name)
        if run.expires_at is None or run.ended_at is None:
            yield f"{name} is over and has no end, or is kept for ever"
    else:
        if run.wake_at is None or run.wake_shard is None:
            yield f"{name} is {run.state} and nobody will look at it again"
        if run.expires_at is not None:
            yield f"{name} is {run.state} and will expire"


def _bill_violations(run: Runs, name: str) -> Iterator[str]:
    """Yield whether a finished run is woken although all is billed, or not although it is not."""
    is_woken = run.wake_at is not None and run.wake_shard is not None
    if (run.wake_at is not None or run.wake_shard is not None) and not run.unbilled_jobs:
        yield f"{name} is over and would still be woken"
    ended_at = clock.now() if run.ended_at is None else run.ended_at
    may_come = clock.now() < ended_at.add(hours=settings.current().cost_wait_hours)
    if run.unbilled_jobs and not is_woken and may_come:
        yield f"{name} has {run.unbilled_jobs} unbilled jobs and nobody will look for their bills"


def slot_violations(row: Dags, runs: Iterable[Runs], limit: int) -> Iterator[str]:
    """Yield what is wrong with the slots of a DAG, given all its runs."""
    # Those of a backfill occupy its slots and none of the DAG's.
    unfinished = {
        run.run_key: run.state
        for run in runs
        if run.state not in run_rows.FINISHED and run.slot_backfill_id is None
    }
    active = set(row.active or ())
    waits = [entry.partition("|")[2] for entry in sorted(row.waiting or ())]
    waiting = set(waits)
    past = set(row.waiting_for_past or ())
    if len(waits) > len(waiting):
        yield f"a run waits twice for a slot: {waits}"
    if active & waiting:
        yield f"occupies a slot and waits for one: {sorted(active & waiting)}"
    if both := past & (active | waiting):
        yield f"waits for its past, and has a slot or waits for one: {sorted(both)}"
    if orphans := active - set(unfinished):
        yield f"slots of no living run: {sorted(orphans)}"
    if ghosts := (waiting | past) - set(unfinished):
        yield f"no living run waits: {sorted(ghosts)}"
    if lost := set(unfinished) - active - waiting - past:
        yield f"neither a slot nor a place in the queue: {sorted(lost)}"
    if started := sorted(key for key in (waiting | past) if _is_under_way(row.dag_id, key)):
        yield f"steps are under way without a slot: {started}"
    if len(active) > limit:
        yield f"{len(active)} active runs where {limit} are allowed"


def _is_under_way(dag_id: str, run_key: str) -> bool:
    return any(step.state in LIVE for step in stored_steps(run_ref(dag_id, run_key)))


def index_violations(row: Dags) -> Iterator[str]:
    """Yield whether the due index has another entry than the row means."""
    wanted = index_entry(row, shards=settings.current().due_shards)
    actual = (row.next_run_create_after, row.due_shard)
    if actual != tuple(wanted):
        yield f"the index has {actual}, but the row means {tuple(wanted)}"


def limit_violations() -> Iterator[str]:
    """Yield whether steps hold more or less of a limit than is missing from it."""
    held = limits.held_by_steps()
    for row in limits.all_counters():
        expected = limits.minus(row.sizes, held.get(row.limit_id, {}))
        for resource, free in limits.free_of(row).items():
            taken = held.get(row.limit_id, {}).get(resource, 0)
            if free != expected[resource]:
                yield (
                    f"{row.limit_id}: {free:g} {resource} are free and {taken:g} are held, of"
                    f" {row.sizes[resource]:g}"
                )


def waiting_violations(step: Steps, run: Runs | None) -> Iterator[str]:
    """Yield what is wrong with what a step holds and waits for."""
    if step.holds and step.state not in LIVE:
        yield f"step {step.step_id} is {step.state} and holds {step.holds}"
    if step.waits_for and step.state != SCHEDULED:
        yield f"step {step.step_id} is {step.state} and waits for {step.waits_for}"
    if step.state == SCHEDULED and (run is None or run.state in run_rows.FINISHED):
        yield f"step {step.step_id} waits, but its run is over"
