"""Which steps' outputs a task reads: those in its option `inputs`, and those in its templates.

Owns: that each of them is upstream: others may not have begun yet.
"""

import difflib
from collections.abc import Mapping

from lamplighter.dags.task import Task
from lamplighter.errors import DefinitionError


def steps_read(task: Task) -> set[str]:
    """Return the steps of the same run whose outputs a task reads."""
    if not any("outputs" in text for _, text in task.templates()):
        return set(task.inputs)
    # Only here, because it takes 50 ms to import, and few DAGs need it.
    from lamplighter.dags import templates  # noqa: PLC0415

    return {*task.inputs, *templates.steps_read(task)}


def check_inputs(task: Task) -> None:
    """Refuse a task that reads the outputs of one that is not upstream."""
    tasks = task.dag.tasks
    for step in sorted(steps_read(task) - _upstream_of(task, tasks)):
        what = f"task {task.task_id!r} reads the outputs of {step!r}"
        if step in tasks:
            raise DefinitionError(f"{what}, which is not upstream: write {step} >> {task.task_id}")
        near = difflib.get_close_matches(step, list(tasks), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DefinitionError(f"{what}, but there is no such task{hint}")


def _upstream_of(task: Task, tasks: Mapping[str, Task]) -> set[str]:
    found: set[str] = set()
    rest = [task]
    while rest:
        new = rest.pop().upstream_task_ids - found
        found |= new
        rest += (tasks[task_id] for task_id in new)
    return found
