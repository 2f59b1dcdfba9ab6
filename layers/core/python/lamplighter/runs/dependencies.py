"""Which tasks of a run may run, given the states of the others. Pure.

Owns: trigger rules, the order of ready tasks, the final state of a run, and `depends_on_past`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from lamplighter.dags.dag import DAG
from lamplighter.runs.states import FAILED, NONE, OVER, SKIPPED, SUCCESS, UPSTREAM_FAILED
from lamplighter.runs.view import RunView
from lamplighter.store.models import Runs

# A task whose dates exclude it from the run.
REMOVED = "removed"
_DONE = OVER | {REMOVED}


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
        result = evaluate_rule(
            task.trigger_rule, [known[before] for before in task.upstream_task_ids]
        )
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


def _topological(dag: DAG) -> Iterator[str]:
    """Yield every task after its upstream tasks."""
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
    if any(state not in OVER and state != REMOVED for state in states.values()):
        return None
    last = [states[task_id] for task_id, task in dag.tasks.items() if not task.downstream_task_ids]
    return FAILED if {FAILED, UPSTREAM_FAILED} & set(last) else SUCCESS


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
    run = view.run
    for before in view.reader.runs_before(run):
        if before.logical_date is None or before.logical_date >= run.logical_date:
            continue
        if view.dag.catchup and before.run_type == "manual":
            continue
        return before
    return None


# Trigger rules.


class _Upstream:
    """How many upstream tasks are in each state."""

    def __init__(self, states: Iterable[str]) -> None:
        self._counts = Counter(states)
        self.total = self._counts.total()
        self.success = self._counts[SUCCESS]
        self.skipped = self._counts[SKIPPED]
        self.removed = self._counts[REMOVED]
        self.failed = self._counts[FAILED] + self._counts[UPSTREAM_FAILED]
        self.failed_themselves = self._counts[FAILED]

    @property
    def are_done(self) -> bool:
        return sum(self._counts[state] for state in _DONE) == self.total


def evaluate_rule(rule: str, upstream: Iterable[str]) -> RuleDecision:
    """Return the result of a rule for a task, given the states of its upstream tasks."""
    before = _Upstream(upstream)
    return _RULES[rule](before) if before.total else RuleDecision.RUN


def _all_success(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    if up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.success + up.removed == up.total else RuleDecision.WAIT


def _all_failed(up: _Upstream) -> RuleDecision:
    if up.success or up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.failed + up.removed == up.total else RuleDecision.WAIT


def _all_done(up: _Upstream) -> RuleDecision:
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _all_done_min_one_success(up: _Upstream) -> RuleDecision:
    if up.skipped:
        return RuleDecision.SKIP
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.RUN if up.success else RuleDecision.FAIL


def _one_success(up: _Upstream) -> RuleDecision:
    if up.success:
        return RuleDecision.RUN
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.FAIL if up.failed else RuleDecision.SKIP


def _one_failed(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.RUN
    return RuleDecision.SKIP if up.are_done else RuleDecision.WAIT


def _one_done(up: _Upstream) -> RuleDecision:
    if up.success or up.failed_themselves:
        return RuleDecision.RUN
    return RuleDecision.SKIP if up.are_done else RuleDecision.WAIT


def _none_failed(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _none_failed_min_one_success(up: _Upstream) -> RuleDecision:
    if up.failed:
        return RuleDecision.FAIL
    if not up.are_done:
        return RuleDecision.WAIT
    return RuleDecision.RUN if up.success else RuleDecision.SKIP


def _none_skipped(up: _Upstream) -> RuleDecision:
    if up.skipped:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


def _all_skipped(up: _Upstream) -> RuleDecision:
    if up.success or up.failed:
        return RuleDecision.SKIP
    return RuleDecision.RUN if up.are_done else RuleDecision.WAIT


_RULES: dict[str, Callable[[_Upstream], RuleDecision]] = {
    "all_success": _all_success,
    "all_failed": _all_failed,
    "all_done": _all_done,
    "all_done_min_one_success": _all_done_min_one_success,
    "one_success": _one_success,
    "one_failed": _one_failed,
    "one_done": _one_done,
    "none_failed": _none_failed,
    "none_failed_min_one_success": _none_failed_min_one_success,
    "none_skipped": _none_skipped,
    "all_skipped": _all_skipped,
    "always": lambda _: RuleDecision.RUN,
}
