"""The order between tasks: `a >> b`, `chain(a, b)`, and cycles in it."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Self, TypeAlias

from lamplighter.errors import DefinitionError

if TYPE_CHECKING:
    from lamplighter.dags.task import Task

Tasks: TypeAlias = "Task | Sequence[Task] | AbstractSet[Task]"


class Linked:
    """What can be put before and after tasks with `>>` and `<<`."""

    def __rshift__(self, other: Tasks) -> Tasks:
        link(self, other)  # type: ignore[arg-type] # a task
        return other

    def __lshift__(self, other: Tasks) -> Tasks:
        link(other, self)  # type: ignore[arg-type] # a task
        return other

    def __rrshift__(self, other: Tasks) -> Self:
        link(other, self)  # type: ignore[arg-type] # a task
        return self

    def __rlshift__(self, other: Tasks) -> Self:
        link(self, other)  # type: ignore[arg-type] # a task
        return self


def as_tasks(tasks: Tasks) -> list["Task"]:
    """Return one task, or several, as a list."""
    if isinstance(tasks, str) or not isinstance(tasks, Sequence | AbstractSet):
        return [tasks]
    return list(tasks)


def link(upstream: Tasks, downstream: Tasks) -> None:
    """Make every task of `downstream` wait for every task of `upstream`."""
    for before in as_tasks(upstream):
        for after in as_tasks(downstream):
            for thing in (before, after):
                if not hasattr(thing, "downstream_task_ids"):
                    raise DefinitionError(
                        f"{before!r} >> {after!r}: {thing!r} is not a task, and cannot be linked"
                    )
            if before.dag is not after.dag:
                raise DefinitionError(
                    f"task {before.task_id!r} of DAG {before.dag.dag_id!r} cannot be linked to task"
                    f" {after.task_id!r} of DAG {after.dag.dag_id!r}: use an asset between DAGs"
                )
            before.downstream_task_ids.add(after.task_id)
            after.upstream_task_ids.add(before.task_id)


def chain(*tasks: Tasks) -> None:
    """Link tasks one after the other; two lists of the same length are linked pair by pair."""
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
