"""Marks: a person says what became of a run or of a step, and others believe it.

Owns: what follows from a mark for the run. It goes on if a step that kept others back is a success
now, and it ends if the whole run was marked. Each mark is recorded on the run.
"""

import logging
from collections.abc import Collection

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.operations.runs import (
    AT_ONCE,
    change_run,
    keep_steps,
    queue_again,
    require_not_ending,
    require_tasks,
    wait_for_slot,
    with_downstream,
)
from lamplighter.runs.dependencies import NextSteps, next_steps, removed_tasks
from lamplighter.runs.effects import wake_waiting_runs
from lamplighter.runs.states import (
    CANCELLED,
    CANCELLING,
    FAILED,
    MARKS,
    NONE,
    QUEUED,
    UPSTREAM_FAILED,
    assign_mark,
    end_run,
    mark_text,
    move_run,
    move_step,
    record_mark,
    set_expiry,
)
from lamplighter.runs.view import RunView
from lamplighter.store.models import Runs
from lamplighter.store.runs import FINISHED

log = logging.getLogger(__name__)

MAX_WHY = 500


def mark_run(dag_id: str, run_key: str, state: str, *, why: str, by: str) -> Runs:
    """Let a run be a success or failed; its jobs are cancelled first.

    All steps of a run that is marked as a success are successes, but for those that were skipped.
    """
    _require_sense(state, why)

    def change(view: RunView, now: DateTime) -> bool:
        require_not_ending(view)
        run = view.run
        if run.state == state:
            raise RefusedError(f"run {run.run_id} of DAG {dag_id!r} is {state} already")
        run.reason = mark_text(record_mark(view, state, why=why, by=by, task=None, now=now))
        if run.state in FINISHED and state == FAILED:
            _end_as(view, FAILED, now)
            return True
        if run.state in FINISHED:
            wait_for_slot(view, now)  # it needs none: whoever looks at it ends it
        run.target_state, run.wake_at = state, now
        return True

    run = change_run(dag_id, run_key, change)
    _log(run, None)
    return run


def mark_step(dag_id: str, run_key: str, task_id: str, state: str, *, why: str, by: str) -> Runs:
    """Let a step be a success or failed; its job, if it has one, is cancelled first.

    After a success, what never ran because of the step can run, and so can the same step of the
    next run. No event tells of its outlets.
    """
    _require_sense(state, why)
    view: RunView | None = None
    has_begun = False

    def change(read: RunView, now: DateTime) -> bool:
        nonlocal view, has_begun
        view = read
        require_not_ending(view)
        require_tasks(view, [task_id])
        _require_part_of_run(view, task_id)
        freed = _freed(view, task_id, state)
        if freed and view.run.state in FINISHED and not keep_steps(view):
            return False  # first, so that whoever dies here has marked nothing
        if not _is_marked(view, task_id, state):
            mark = record_mark(view, state, why=why, by=by, task=task_id, now=now)
            assign_mark(view.step(task_id), mark, now)
        elif not (freed or has_begun):
            raise RefusedError(f"task {task_id!r} of run {view.run.run_id} is {state} already")
        has_begun = True
        room = max(0, AT_ONCE - view.size)
        for each in freed[:room]:
            move_step(view.steps[each], NONE)
            set_expiry(view.steps[each], now)
        return len(freed) <= room and _go_on(view, freed, now)

    run = change_run(dag_id, run_key, change)
    _log(run, task_id)
    if view is not None and view.dag.tasks[task_id].depends_on_past:
        wake_waiting_runs(view)
    return run


def _require_sense(state: str, why: str) -> None:
    if state not in MARKS:
        raise RefusedError(f"{state!r} is no mark: take {' or '.join(MARKS)}")
    if not why.strip() or len(why) > MAX_WHY:
        raise RefusedError(f"say why it is marked, in at most {MAX_WHY} characters")


def _require_part_of_run(view: RunView, task_id: str) -> None:
    if task_id in removed_tasks(view.dag, view.run):
        raise RefusedError(
            f"task {task_id!r} is not part of run {view.run.run_id}: its start_date and end_date"
            " leave the run's date out"
        )


def _is_marked(view: RunView, task_id: str, state: str) -> bool:
    step = view.steps.get(task_id)
    if step is None:
        return False
    return (step.cancel_action if step.state == CANCELLING else step.state) == state


def _freed(view: RunView, task_id: str, state: str) -> list[str]:
    """Return the steps that never ran because of this one, and could run after it is marked."""
    below = set(with_downstream(view.dag, [task_id])) - {task_id}
    kept_back = [
        each
        for each in sorted(below & view.steps.keys())
        if view.steps[each].state == UPSTREAM_FAILED
    ]
    found = _plan(view, {task_id: state, **dict.fromkeys(kept_back, NONE)})
    return [each for each in kept_back if found.moves.get(each) != UPSTREAM_FAILED]


def _go_on(view: RunView, freed: Collection[str], now: DateTime) -> bool:
    """Let a run that was over begin again if some steps can run now, or be what they make it."""
    run = view.run
    if run.state not in FINISHED:
        run.wake_at = now
        return True
    if freed:
        run.reason = None
        return queue_again(view, now)
    final_state = _plan(view).final_state
    if final_state not in {None, run.state} and run.state != CANCELLED:
        assert final_state is not None
        run.reason = None
        _end_as(view, final_state, now)
    return True


def _end_as(view: RunView, state: str, now: DateTime) -> None:
    """Let a run that is over be over as something else."""
    move_run(view.run, QUEUED)
    end_run(view.run, view.row, state, now=now)


def _plan(view: RunView, but: dict[str, str] | None = None) -> NextSteps:
    states = {step_id: step.state for step_id, step in view.steps.items()}
    return next_steps(view.dag, removed_tasks(view.dag, view.run) | states | (but or {}))


def _log(run: Runs, task_id: str | None) -> None:
    mark = run.marks[-1] if run.marks else {}
    log.info(
        "run was marked",
        extra={"dag_id": run.dag_id, "run_id": run.run_id, "task_id": task_id, "mark": mark},
    )
