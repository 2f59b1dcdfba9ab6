"""What must be true of pools and capacities: never over, and nobody waits for what is there.

Owns: the promises about limits that need more than the rows of one moment; `table_checks` has the
others. Refuses: believing the index of steps that wait.
"""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from datetime import timedelta

from pendulum import DateTime

from lamplighter import clock
from lamplighter.executors import current
from lamplighter.runs.admission import in_turn, limits_of
from lamplighter.runs.states import SCHEDULED
from lamplighter.store import limits
from lamplighter.store.dags import definition_of
from lamplighter.store.limits import WaitingStep
from lamplighter.store.models import Limits, Runs, Steps
from lamplighter.store.runs import run_ref
from lamplighter_local.table_checks import limit_violations

# A sweep comes every five minutes, and finds what a lost message left when its time has come.
_PATIENCE = timedelta(minutes=15)


def counter_violations(lowered: Container[str] = ()) -> Iterator[str]:
    """Yield what is wrong with counters, of which `lowered` may be short."""
    yield from limit_violations()
    for row in limits.all_counters():
        short = {resource: free for resource, free in limits.free_of(row).items() if free < 0}
        if short and row.limit_id not in lowered:
            yield f"{row.limit_id}: more is held than there is: {short}"


def stuck_violations(
    runs: Mapping[str, list[Runs]], steps: Mapping[str, list[Steps]], ticked_at: DateTime | None
) -> Iterator[str]:
    """Yield who waits for a counter that has room for it, though nobody will look in time."""
    by_name = {(run.dag_id, run.run_key): run for each in runs.values() for run in each}
    rows = {row.limit_id: row for row in limits.all_counters()}
    for limit_id, waiting in _waiting(by_name, steps).items():
        first = in_turn(waiting, clock.now())[0]
        run = by_name[first.dag_id, first.run_key]
        has_room = limit_id in rows and _fits(rows[limit_id], run, first.step_id)
        woken_at = clock.now() if run.wake_at is None else run.wake_at
        if has_room and ticked_at is not None and woken_at <= ticked_at - _PATIENCE:
            yield f"{limit_id}: {first} is next and has room, and nobody looked at {woken_at}"


def _waiting(
    runs: Mapping[tuple[str, str], Runs], steps: Mapping[str, list[Steps]]
) -> dict[str, list[WaitingStep]]:
    found: dict[str, list[WaitingStep]] = defaultdict(list)
    for name in runs:
        for step in steps.get(run_ref(*name), ()):
            if step.state == SCHEDULED and step.waits_for:
                entry = WaitingStep(*name, step.step_id, step.waits_since, step.turn)
                found[step.waits_for].append(entry)
    return found


def _fits(row: Limits, run: Runs, step_id: str) -> bool:
    task, free = definition_of(run).tasks[step_id], limits.free_of(row)
    needed = limits_of(task, current()).get(row.limit_id, {})
    return all(free.get(resource, 0) >= amount for resource, amount in needed.items())
