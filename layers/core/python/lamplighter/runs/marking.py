"""What it means for a step that someone says what became of it. Assigns only.

Owns: that a marked step never has a live job. One whose job still runs is cancelled first, and ends
as it was marked when the job is over. Nothing is told of its outlets: nobody knows what is there.
"""

from typing import Any

from pendulum import DateTime

from lamplighter.runs.moves import (
    CANCELLING,
    FAILED,
    LIVE,
    NONE,
    SKIPPED,
    SUCCESS,
    move_step,
)
from lamplighter.runs.observe import keep_or_expire
from lamplighter.runs.view import RunView
from lamplighter.store.models import Steps
from lamplighter.zones import iso

# What a run or a step can be marked as.
MARKS = (SUCCESS, FAILED)
# So many are kept on the run.
_KEPT_MARKS = 50

Mark = dict[str, Any]


def note_mark(
    view: RunView, state: str, *, why: str, by: str, task: str | None, now: DateTime
) -> Mark:
    """Record on the run who marked what as what, when and why."""
    was = view.run.state if task is None else view.step(task).state
    mark = {"at": iso(now), "by": by, "task_id": task, "from": was, "to": state, "why": why}
    view.run.marks = [*(view.run.marks or ()), mark][-_KEPT_MARKS:]
    return mark


def text_of(mark: Mark) -> str:
    """Return a mark as a sentence."""
    return f"marked {mark['to']} by {mark['by']}: {mark['why']}"


def assign_mark(step: Steps, mark: Mark, now: DateTime) -> None:
    """Let a step be what it is marked as, or be it when its job is over."""
    step.marked, step.error = mark, text_of(mark)
    if step.state in LIVE:
        if step.state != CANCELLING:
            move_step(step, CANCELLING)
        step.cancel_action = mark["to"]
        return
    if step.state != NONE:
        move_step(step, NONE)
    move_step(step, mark["to"])
    step.retry_at = step.capacity_rejections = None
    step.ended_at = now
    keep_or_expire(step, now)


def is_to_be_marked(step: Steps | None, state: str) -> bool:
    """Return whether a step of a run that was marked is not yet what it follows to be.

    In a run that is a success, all is a success or skipped. One that failed leaves its steps alone.
    """
    if state != SUCCESS:
        return False
    if step is not None and step.state == CANCELLING:
        return step.cancel_action != SUCCESS
    return step is None or step.state not in {SUCCESS, SKIPPED}
