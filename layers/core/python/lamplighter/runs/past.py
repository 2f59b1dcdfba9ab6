"""Whether a step must wait for the same step of the run before."""

from lamplighter.runs.definitions import definition_of
from lamplighter.runs.moves import SKIPPED, SUCCESS
from lamplighter.runs.plan import removed_tasks
from lamplighter.runs.view import RunView, run_ref
from lamplighter.store.models import Runs, Steps

# Runs without a date stand between those with one; beyond so many the past is too far away.
_LOOKED_AT = 500


def waits_for_past(view: RunView, task_id: str) -> bool:
    """Return whether the same step of the run before has not been a success, nor skipped."""
    if not view.dag.tasks[task_id].depends_on_past or view.run.logical_date is None:
        return False
    if view.run.slot_backfill_id is not None and view.run.backfill_ordinal == 1:
        return False  # a backfill begins somewhere, whatever was before it
    before = _run_before(view)
    if before is None:
        return False
    step: Steps | None
    try:
        step = Steps.get(run_ref(before.dag_id, before.run_key), task_id, consistent_read=True)
    except Steps.DoesNotExist:
        step = None
    if step is None and before.state == SUCCESS:
        return False  # steps may expire before their run does
    if step is None or step.run_created_at != before.created_at:
        # Not begun, unless the run before never had such a task.
        then = definition_of(before)
        return task_id in then.tasks and task_id not in removed_tasks(then, before)
    return step.state not in {SUCCESS, SKIPPED}


def _run_before(view: RunView) -> Runs | None:
    """Return the run with the next earlier logical date; with catchup, manual ones do not count."""
    run = view.run
    found = Runs.query(
        run.dag_id,
        Runs.run_key < run.run_key,
        scan_index_forward=False,
        consistent_read=True,
        limit=_LOOKED_AT,
    )
    for before in found:
        if before.logical_date is None or before.logical_date >= run.logical_date:
            continue
        if view.dag.catchup and before.run_type == "manual":
            continue
        return before
    return None
