"""What a person may ask of a run: to be cancelled, retried, cleared, or marked as over.

Owns: what each of them means for rows. Jobs are cancelled by whoever moves the run on, and a step
whose job still runs begins again only when that job is over. A run goes on if a step that kept
others back is marked as a success, and ends if it was marked itself; marks are recorded on it.
"""

import logging
from collections.abc import Callable, Collection, Iterator

from pendulum import DateTime

from lamplighter import clock, queues
from lamplighter.dags.dag import DAG
from lamplighter.errors import RefusedError, TransientError
from lamplighter.runs.dependencies import NextSteps, next_steps, removed_tasks
from lamplighter.runs.effects import publish_state_change, start_others, wake_waiting_runs
from lamplighter.runs.states import (
    CANCELLED,
    CANCELLING,
    CLEAR,
    FAILED,
    LIVE,
    MARKS,
    NONE,
    QUEUED,
    UPSTREAM_FAILED,
    assign_mark,
    end_run,
    end_step,
    expire_step,
    mark_text,
    move_run,
    move_step,
    record_mark,
    set_expiry,
)
from lamplighter.runs.view import RunView
from lamplighter.store import slots
from lamplighter.store.models import Runs, Steps
from lamplighter.store.runs import FINISHED, set_state_columns
from lamplighter.store.transactions import TransactionCanceled, sleep_with_jitter
from lamplighter_operations.trigger import require_usable

log = logging.getLogger(__name__)

_TRIES = 12
# Steps cleared in one transaction, beside the run and its DAG.
AT_ONCE = 90
MAX_WHY = 500


def cancel_run(dag_id: str, run_key: str, *, reason: str = "someone asked for it") -> Runs:
    """Cancel a run: its jobs are cancelled, and the run ends with the last of them."""

    def change(view: RunView, now: DateTime) -> bool:
        if view.run.state in FINISHED:
            raise RefusedError(f"run {view.run.run_id} of DAG {dag_id!r} is {view.run.state}")
        view.run.reason = reason
        if view.live or view.run.state != QUEUED or len(view.steps) > AT_ONCE:
            view.run.target_state = CANCELLED
            view.run.wake_at = now
        else:
            for step in view.steps.values():
                end_step(view, step, now)
                expire_step(step, now)
            end_run(view.run, view.row, CANCELLED, now=now, backfill=view.backfill)
        return True

    return change_run(dag_id, run_key, change)


def retry_run(dag_id: str, run_key: str) -> Runs:
    """Retry the failed steps of a run and those that they blocked."""
    has_begun = False

    def change(view: RunView, now: DateTime) -> bool:
        nonlocal has_begun
        failed = [step for step in view.steps.values() if step.state in {FAILED, UPSTREAM_FAILED}]
        # A run that was ended early may have failed without a failed step.
        if not (failed or has_begun or view.run.state in {FAILED, CANCELLED}):
            raise RefusedError(f"run {view.run.run_id} of DAG {dag_id!r} has no failed step")
        has_begun = True
        return _begin_again(view, failed, now)

    return change_run(dag_id, run_key, change)


def clear_run(dag_id: str, run_key: str, *, tasks: Collection[str] = ()) -> Runs:
    """Clear a run, or some of its tasks with everything downstream."""

    def change(view: RunView, now: DateTime) -> bool:
        require_tasks(view, tasks)
        chosen = set(with_downstream(view.dag, tasks or view.dag.tasks))
        return _begin_again(view, [view.steps[each] for each in chosen & set(view.steps)], now)

    return change_run(dag_id, run_key, change)


def _begin_again(view: RunView, steps: Collection[Steps], now: DateTime) -> bool:
    """Reset steps; return False if there are more than fit into one transaction.

    A finished run restarts with the last of them: until then, nothing advances it.
    """
    require_not_ending(view)
    todo = [step for step in steps if step.state != NONE and step.cancel_action != CLEAR]
    for step in todo[:AT_ONCE]:
        if step.state in LIVE:
            if step.state != CANCELLING:
                move_step(step, CANCELLING)
            step.cancel_action = CLEAR
        else:
            move_step(step, NONE)
            step.retry_at = step.capacity_since = None
            set_expiry(step, now)
        step.marked = None
        # The same number of retries as at first, in addition to past tries.
        step.max_try_number = step.try_number + view.dag.tasks[step.step_id].retries + 1
    if len(todo) > AT_ONCE:
        return False
    view.run.reason = None
    if view.run.state in FINISHED:
        return queue_again(view, now)
    view.run.wake_at = now
    return True


def require_not_ending(view: RunView) -> None:
    """Refuse operations on a run whose last jobs are being cancelled."""
    if view.run.target_state is not None:
        raise RefusedError(
            f"run {view.run.run_id} of DAG {view.run.dag_id!r} is being ended; try again when it is"
        )


def require_tasks(view: RunView, tasks: Collection[str]) -> None:
    """Refuse tasks that the run does not have."""
    if unknown := sorted(set(tasks) - set(view.dag.tasks)):
        raise RefusedError(
            f"DAG {view.run.dag_id!r} has no task {unknown[0]!r} in this run; it has"
            f" {', '.join(sorted(view.dag.tasks))}"
        )


def queue_again(view: RunView, now: DateTime) -> bool:
    """Restart a finished run as soon as it has a slot.

    Its steps are kept from expiring first; returns False if they exceed one transaction.
    """
    if view.row is not None:
        require_usable(view.row)
    if not keep_steps(view):
        return False
    wait_for_slot(view, now)
    view.run.queued_at, view.run.started_at = now, None
    view.run.wake_at = now
    return True


def keep_steps(view: RunView) -> bool:
    """Keep the steps of a run from expiring; return False if they exceed one transaction."""
    expiring = [step for step in view.steps.values() if step.expires_at is not None]
    room = max(0, AT_ONCE - view.size)
    for step in expiring[:room]:
        step.expires_at = None
    return len(expiring) <= room


def wait_for_slot(view: RunView, now: DateTime) -> None:
    """Make a finished run unfinished, waiting for a slot."""
    run, row = view.run, view.row
    if row is None:
        raise RefusedError(f"DAG {run.dag_id!r} was deleted; push its bundle first")
    move_run(run, QUEUED)
    set_state_columns(run, now)
    slots.wait_for_slot(row, run.run_key, since=now)


def with_downstream(dag: DAG, tasks: Collection[str]) -> Iterator[str]:
    """Yield tasks and everything downstream, each once."""
    todo, seen = list(tasks), set(tasks)
    while todo:
        task_id = todo.pop()
        yield task_id
        new = dag.tasks[task_id].downstream_task_ids - seen
        seen |= new
        todo += new


def change_run(dag_id: str, run_key: str, change: Callable[[RunView, DateTime], bool]) -> Runs:
    """Write an operation, in parts if necessary, and request that the run be advanced."""
    tries = _TRIES
    while tries:
        view = RunView.read(dag_id, run_key)
        if view is None:
            raise RefusedError(f"DAG {dag_id!r} has no run {run_key!r}")
        is_done = change(view, clock.now())
        try:
            view.commit()
        except TransactionCanceled:
            tries -= 1
            sleep_with_jitter()
            continue
        if is_done:
            publish_state_change(view)
            start_others(view)
            if view.run.state not in FINISHED:
                queues.send_settles([view.name])
            return view.run
    raise TransientError(f"run {run_key} of DAG {dag_id!r} is contended; try again")


# Marking.


def mark_run(dag_id: str, run_key: str, state: str, *, why: str, by: str) -> Runs:
    """Mark a run as success or failed; its jobs are cancelled first.

    In a run marked as success, all steps become successes, except skipped ones.
    """
    _require_sense(state, why)

    def change(view: RunView, now: DateTime) -> bool:
        require_not_ending(view)
        run = view.run
        if run.state == state:
            raise RefusedError(f"run {run.run_id} of DAG {dag_id!r} is already {state}")
        run.reason = mark_text(record_mark(view, state, why=why, by=by, task=None, now=now))
        if run.state in FINISHED and state == FAILED:
            _end_as(view, FAILED, now)
            return True
        if run.state in FINISHED:
            wait_for_slot(view, now)  # it needs none: advancing it ends it
        run.target_state, run.wake_at = state, now
        return True

    run = change_run(dag_id, run_key, change)
    _log(run, None)
    return run


def mark_step(dag_id: str, run_key: str, task_id: str, state: str, *, why: str, by: str) -> Runs:
    """Mark a step as success or failed; its job, if any, is cancelled first.

    After a success, steps that it blocked can run, including the same step of the next run. No
    outlet events are sent.
    """
    _require_sense(state, why)
    view: RunView | None = None
    has_begun = False

    def change(read: RunView, now: DateTime) -> bool:
        nonlocal view, has_begun
        view = read
        require_not_ending(view)
        require_tasks(view, [task_id])
        if task_id in removed_tasks(view.dag, view.run):
            raise RefusedError(
                f"task {task_id!r} is not part of run {view.run.run_id}: its start_date and"
                " end_date leave the run's date out"
            )
        freed = _freed(view, task_id, state)
        if freed and view.run.state in FINISHED and not keep_steps(view):
            return False  # first, so that a crash here has marked nothing
        if not _is_marked(view, task_id, state):
            mark = record_mark(view, state, why=why, by=by, task=task_id, now=now)
            assign_mark(view.step(task_id), mark, now)
        elif not (freed or has_begun):
            raise RefusedError(f"task {task_id!r} of run {view.run.run_id} is already {state}")
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
        raise RefusedError(f"{state!r} is not a valid mark: use {' or '.join(MARKS)}")
    if not why.strip() or len(why) > MAX_WHY:
        raise RefusedError(f"give a reason for the mark, in at most {MAX_WHY} characters")


def _is_marked(view: RunView, task_id: str, state: str) -> bool:
    step = view.steps.get(task_id)
    if step is None:
        return False
    return (step.cancel_action if step.state == CANCELLING else step.state) == state


def _freed(view: RunView, task_id: str, state: str) -> list[str]:
    """Return the steps that this one blocked and that could run after the mark."""
    below = set(with_downstream(view.dag, [task_id])) - {task_id}
    kept_back = [
        each
        for each in sorted(below & view.steps.keys())
        if view.steps[each].state == UPSTREAM_FAILED
    ]
    found = _plan(view, {task_id: state, **dict.fromkeys(kept_back, NONE)})
    return [each for each in kept_back if found.moves.get(each) != UPSTREAM_FAILED]


def _go_on(view: RunView, freed: Collection[str], now: DateTime) -> bool:
    """Restart a finished run if some steps can run now; otherwise set its new final state."""
    run = view.run
    if run.state not in FINISHED:
        run.wake_at = now
        return True
    if freed:
        run.reason = None
        return queue_again(view, now)
    final_state = _plan(view).final_state
    if final_state is not None and final_state != run.state != CANCELLED:
        run.reason = None
        _end_as(view, final_state, now)
    return True


def _end_as(view: RunView, state: str, now: DateTime) -> None:
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
