"""Which tasks of a run may run, given the states of the others. Pure.

Owns: trigger rules, the order of ready tasks, the final state of a run, and `depends_on_past`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from graphlib import TopologicalSorter
from typing import TypeAlias

from lamplighter.dags.dag import DAG
from lamplighter.runs.states import FAILED, NONE, OVER, SKIPPED, SUCCESS, UPSTREAM_FAILED
from lamplighter.runs.view import RunView
from lamplighter.store.models import Runs

# A task whose dates exclude it from the run.
REMOVED = "removed"
_DONE = OVER | {REMOVED}
_FAILURES = frozenset({FAILED, UPSTREAM_FAILED})


class RuleDecision(Enum):
    """The result of a trigger rule for a task."""

    WAIT = auto()
    RUN = auto()
    SKIP = auto()
    FAIL = auto()  # as upstream_failed


_WITHOUT_A_JOB = {RuleDecision.SKIP: SKIPPED, RuleDecision.FAIL: UPSTREAM_FAILED}


@dataclass(frozen=True)
class NextSteps:
    """What follows for steps without a state, and for the run."""

    # In start order.
    ready: tuple[str, ...] = ()
    # Skipped or upstream_failed, without a job.
    moves: Mapping[str, str] = field(default_factory=dict)
    # The final state of the run, if nothing is left to do.
    final_state: str | None = None


def next_steps(dag: DAG, states: Mapping[str, str], *, also_ready: Iterable[str] = ()) -> NextSteps:
    """Return what follows from the steps' states; a task without one has not begun.

    `also_ready` are steps to be retried now.
    """
    known = {task_id: states.get(task_id, NONE) for task_id in dag.tasks}
    ready = list(also_ready)
    moves: dict[str, str] = {}
    for task_id in _topological(dag):
        if known[task_id] != NONE:
            continue
        task = dag.tasks[task_id]
        result = evaluate_rule(task.trigger_rule, (known[up] for up in task.upstream_task_ids))
        if result is RuleDecision.RUN:
            ready.append(task_id)
        elif result is not RuleDecision.WAIT:
            known[task_id] = moves[task_id] = _WITHOUT_A_JOB[result]
    weights = _weights(dag) if len(ready) > 1 else {}
    ready.sort(key=lambda task_id: (-weights.get(task_id, 0), task_id))
    return NextSteps(tuple(ready), moves, _final_state(dag, known))


def removed_tasks(dag: DAG, run: Runs) -> dict[str, str]:
    """Return the tasks whose start and end dates exclude the run's."""
    date = run.logical_date
    if date is None or run.run_type == "backfill":
        return {}
    return {
        task_id: REMOVED
        for task_id, task in dag.tasks.items()
        if (task.start_date is not None and date < task.start_date)
        or (task.end_date is not None and date > task.end_date)
    }


def _topological(dag: DAG) -> Iterable[str]:
    upstream = {task_id: task.upstream_task_ids for task_id, task in dag.tasks.items()}
    return TopologicalSorter(upstream).static_order()


def weight_of(dag: DAG, task_id: str) -> int:
    """Return the weight of a task and all its downstream tasks, each counted once."""
    return _weights(dag)[task_id]


def _weights(dag: DAG) -> dict[str, int]:
    """Return the weight of each task and all its downstream tasks, each counted once."""
    after: dict[str, set[str]] = {}
    for task_id in reversed(list(_topological(dag))):
        direct = dag.tasks[task_id].downstream_task_ids
        after[task_id] = direct.union(*(after[below] for below in direct))
    return {
        task_id: sum(dag.tasks[each].priority_weight for each in (task_id, *below))
        for task_id, below in after.items()
    }


def _final_state(dag: DAG, states: Mapping[str, str]) -> str | None:
    """Return the final state of a run: its leaf tasks decide."""
    if not _DONE.issuperset(states.values()):
        return None
    last = [states[task_id] for task_id, task in dag.tasks.items() if not task.downstream_task_ids]
    return SUCCESS if _FAILURES.isdisjoint(last) else FAILED


# Depending on the past.


def waits_for_past(view: RunView, task_id: str) -> bool:
    """Return whether the same step of the previous run is neither success nor skipped."""
    if not view.dag.tasks[task_id].depends_on_past or view.run.logical_date is None:
        return False
    if view.run.slot_backfill_id is not None and view.run.backfill_ordinal == 1:
        return False  # the first run of a backfill has no previous run
    before = _run_before(view)
    if before is None:
        return False
    step = view.reader.read_step(before, task_id)
    if step is None and before.state == SUCCESS:
        return False  # steps may expire before their run does
    if step is None or step.run_created_at != before.created_at:
        # Not begun, unless the previous run has no such task.
        then = view.reader.definition_of(before)
        return task_id in then.tasks and task_id not in removed_tasks(then, before)
    return step.state not in {SUCCESS, SKIPPED}


def _run_before(view: RunView) -> Runs | None:
    """Return the run with the previous logical date; with catchup, manual ones do not count."""
    for before in view.reader.runs_before(view.run):
        is_earlier = before.logical_date is not None and before.logical_date < view.run.logical_date
        if is_earlier and not (view.dag.catchup and before.run_type == "manual"):
            return before
    return None


# Trigger rules.


_RUN, _SKIP, _FAIL = RuleDecision.RUN, RuleDecision.SKIP, RuleDecision.FAIL

_Checks: TypeAlias = Sequence[tuple[Collection[str], RuleDecision]]

# By rule: what follows as soon as any upstream task is in one of some states, the same once all are
# done, and what follows otherwise, once all are done.
_RULES: dict[str, tuple[_Checks, _Checks, RuleDecision]] = {
    "all_success": ([(_FAILURES, _FAIL), ({SKIPPED}, _SKIP)], [], _RUN),
    "all_failed": ([({SUCCESS, SKIPPED}, _SKIP)], [], _RUN),
    "all_done": ([], [], _RUN),
    "all_done_min_one_success": ([({SKIPPED}, _SKIP)], [({SUCCESS}, _RUN)], _FAIL),
    "one_success": ([({SUCCESS}, _RUN)], [(_FAILURES, _FAIL)], _SKIP),
    "one_failed": ([(_FAILURES, _RUN)], [], _SKIP),
    "one_done": ([({SUCCESS, FAILED}, _RUN)], [], _SKIP),
    "none_failed": ([(_FAILURES, _FAIL)], [], _RUN),
    "none_failed_min_one_success": ([(_FAILURES, _FAIL)], [({SUCCESS}, _RUN)], _SKIP),
    "none_skipped": ([({SKIPPED}, _SKIP)], [], _RUN),
    "all_skipped": ([({SUCCESS, *_FAILURES}, _SKIP)], [], _RUN),
}


def evaluate_rule(rule: str, upstream: Iterable[str]) -> RuleDecision:
    """Return the result of a rule for a task, given the states of its upstream tasks."""
    states = set(upstream)
    if rule == "always" or not states:
        return _RUN
    at_once, when_done, otherwise = _RULES[rule]
    are_done = states <= _DONE
    for some, decision in (*at_once, *(when_done if are_done else ())):
        if not states.isdisjoint(some):
            return decision
    return otherwise if are_done else RuleDecision.WAIT
