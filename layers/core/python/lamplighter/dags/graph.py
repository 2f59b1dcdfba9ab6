"""The order between tasks: `>>`, `<<`, `chain`, and the search for cycles."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from lamplighter.errors import DefinitionError

if TYPE_CHECKING:
    from lamplighter.dags.task import SparkTask

Tasks: TypeAlias = "SparkTask | Sequence[SparkTask] | AbstractSet[SparkTask]"


def as_tasks(tasks: Tasks) -> list["SparkTask"]:
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
    done: set[str] = set()
    for root in downstream:
        path: list[str] = []
        pending = [(root, iter(sorted(downstream[root])))]
        on_path = {root}
        path.append(root)
        while pending:
            node, children = pending[-1]
            child = next((c for c in children if c not in done), None)
            if child is None:
                done.add(node)
                pending.pop()
                on_path.discard(path.pop())
            elif child in on_path:
                return [*path[path.index(child) :], child]
            else:
                pending.append((child, iter(sorted(downstream[child]))))
                path.append(child)
                on_path.add(child)
    return []
