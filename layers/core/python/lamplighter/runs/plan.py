"""What follows in a run from the states of its steps. Pure.

Owns: which tasks may run, which never will, and what a run is when all is over.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lamplighter.dags.dag import DAG
from lamplighter.runs.moves import FAILED, NONE, OVER, SKIPPED, SUCCESS, UPSTREAM_FAILED
from lamplighter.runs.trigger_rules import REMOVED, Verdict, verdict
from lamplighter.store.models import Runs

_WITHOUT_A_JOB = {Verdict.SKIP: SKIPPED, Verdict.FAIL: UPSTREAM_FAILED}


@dataclass(frozen=True)
class Plan:
    """What is to be done with the steps that have no state yet."""

    # In the order in which they should get a place.
    ready: tuple[str, ...] = ()
    # Skipped or upstream_failed, without ever having a job.
    moves: Mapping[str, str] = field(default_factory=dict)
    # What the run is, if nothing is left to come.
    outcome: str | None = None


def plan(dag: DAG, states: Mapping[str, str], *, also_ready: Iterable[str] = ()) -> Plan:
    """Return what follows from the states of the steps; a task that is not named has none yet.

    `also_ready` are steps that are to be tried again now.
    """
    known = {task_id: states.get(task_id, NONE) for task_id in dag.tasks}
    ready = list(also_ready)
    moves: dict[str, str] = {}
    for task_id in _in_order(dag):
        if known[task_id] != NONE:
            continue
        task = dag.tasks[task_id]
        said = verdict(task.trigger_rule, [known[before] for before in task.upstream_task_ids])
        if said is Verdict.RUN:
            ready.append(task_id)
        elif said is not Verdict.WAIT:
            known[task_id] = moves[task_id] = _WITHOUT_A_JOB[said]
    weights = _weights(dag) if len(ready) > 1 else {}
    ready.sort(key=lambda task_id: (-weights.get(task_id, 0), task_id))
    return Plan(tuple(ready), moves, _outcome(dag, known))


def removed_tasks(dag: DAG, run: Runs) -> dict[str, str]:
    """Return the tasks whose own dates leave out the run's."""
    date = run.logical_date
    if date is None or run.run_type == "backfill":
        return {}
    return {
        task_id: REMOVED
        for task_id, task in dag.tasks.items()
        if (task.start_date is not None and date < task.start_date)
        or (task.end_date is not None and date > task.end_date)
    }


def _in_order(dag: DAG) -> Iterator[str]:
    """Yield every task after those before it."""
    waiting = {task_id: len(task.upstream_task_ids) for task_id, task in dag.tasks.items()}
    free = [task_id for task_id, count in waiting.items() if not count]
    while free:
        task_id = free.pop()
        yield task_id
        for after in dag.tasks[task_id].downstream_task_ids:
            waiting[after] -= 1
            if not waiting[after]:
                free.append(after)


def _weights(dag: DAG) -> dict[str, int]:
    """Return each task's weight with that of all that comes after it, each counted once."""
    after: dict[str, set[str]] = {}
    for task_id in reversed(list(_in_order(dag))):
        direct = dag.tasks[task_id].downstream_task_ids
        after[task_id] = direct.union(*(after[below] for below in direct))
    return {
        task_id: sum(dag.tasks[each].priority_weight for each in (task_id, *below))
        for task_id, below in after.items()
    }


def _outcome(dag: DAG, states: Mapping[str, str]) -> str | None:
    """Return what a run is: its last tasks decide, when no task is left to do."""
    if any(state not in OVER and state != REMOVED for state in states.values()):
        return None
    last = [states[task_id] for task_id, task in dag.tasks.items() if not task.downstream_task_ids]
    return FAILED if {FAILED, UPSTREAM_FAILED} & set(last) else SUCCESS
