"""The order between tasks: `a >> b`, `chain(a, b)`, cycles in it, and outputs that go along it."""

import difflib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, product
from typing import TYPE_CHECKING, Self, TypeAlias

from lamplighter.errors import DefinitionError

if TYPE_CHECKING:
    from lamplighter.dags.task import Task

Tasks: TypeAlias = "Linked | Sequence[Linked] | AbstractSet[Linked]"


class Linked(ABC):
    """What can be put before and after tasks with `>>` and `<<`: a task, or a group of tasks."""

    @property
    @abstractmethod
    def roots(self) -> "list[Task]":
        """The tasks that wait for whatever comes before."""

    @property
    @abstractmethod
    def leaves(self) -> "list[Task]":
        """The tasks that whatever comes after waits for."""

    def __rshift__(self, other: Tasks) -> Tasks:
        link(self, other)
        return other

    def __lshift__(self, other: Tasks) -> Tasks:
        link(other, self)
        return other

    def __rrshift__(self, other: Tasks) -> Self:
        link(other, self)
        return self

    def __rlshift__(self, other: Tasks) -> Self:
        link(self, other)
        return self


def link(upstream: Tasks, downstream: Tasks) -> None:
    """Make all that is first in `downstream` wait for all that is last in `upstream`."""
    for before in _as_list(upstream):
        for after in _as_list(downstream):
            for thing in (before, after):
                if not isinstance(thing, Linked):
                    raise DefinitionError(
                        f"{before!r} >> {after!r}: {thing!r} is neither a task nor a task group,"
                        " and cannot be linked"
                    )
            for pair in product(before.leaves, after.roots):
                _link_tasks(*pair)


def _as_list(linked: Tasks) -> list[Linked]:
    if isinstance(linked, str) or not isinstance(linked, Sequence | AbstractSet):
        return [linked]
    return list(linked)


def _link_tasks(before: "Task", after: "Task") -> None:
    if before.dag is not after.dag:
        raise DefinitionError(
            f"task {before.task_id!r} of DAG {before.dag.dag_id!r} cannot be linked to task"
            f" {after.task_id!r} of DAG {after.dag.dag_id!r}: use an asset between DAGs"
        )
    before.downstream_task_ids.add(after.task_id)
    after.upstream_task_ids.add(before.task_id)


def chain(*tasks: Tasks) -> None:  # What to link, in order.
    """Link tasks and groups one after the other; two lists of one length, pair by pair."""
    for upstream, downstream in pairwise(tasks):
        if isinstance(upstream, Sequence) and isinstance(downstream, Sequence):
            if len(upstream) != len(downstream):
                raise DefinitionError(
                    "chain: lists that follow one another must have the same length, not"
                    f" {len(upstream)} and {len(downstream)}"
                )
            for before, after in zip(upstream, downstream, strict=True):
                link(before, after)
        else:
            link(upstream, downstream)


def find_cycle(downstream: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the ids along one cycle, its first id repeated at the end, or an empty list."""
    try:
        # Sorted: the same tasks always give the same cycle.
        TopologicalSorter({before: sorted(after) for before, after in downstream.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


# Outputs, which a task can read of those that are upstream: others may not have begun yet.


def steps_read(task: "Task") -> set[str]:
    """Return the steps of the same run whose outputs a task reads."""
    if not any("outputs" in text for _, text in task.templates()):
        return set(task.inputs)
    # Only here, because it takes 50 ms to import, and few DAGs need it.
    from lamplighter.dags import templates  # noqa: PLC0415

    return {*task.inputs, *templates.steps_read(task)}


def check_inputs(task: "Task") -> None:
    """Refuse a task that reads the outputs of one that is not upstream."""
    tasks = task.dag.tasks
    for step in sorted(steps_read(task) - _upstream_of(task, tasks)):
        what = f"task {task.task_id!r} reads the outputs of {step!r}"
        if step in tasks:
            raise DefinitionError(f"{what}, which is not upstream: write {step} >> {task.task_id}")
        near = difflib.get_close_matches(step, list(tasks), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DefinitionError(f"{what}, but there is no such task{hint}")


def _upstream_of(task: "Task", tasks: "Mapping[str, Task]") -> set[str]:
    found: set[str] = set()
    rest = [task]
    while rest:
        new = rest.pop().upstream_task_ids - found
        found |= new
        rest += (tasks[task_id] for task_id in new)
    return found
