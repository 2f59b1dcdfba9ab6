"""Task groups: tasks that belong together, with a prefix and default arguments of their own.

Owns: the ids of groups, and which tasks are first and last in one. A run knows no groups: tasks
keep the ids of theirs, and a link to a group is a link to its tasks.
"""

import re
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from lamplighter.dags import arguments
from lamplighter.dags.links import Linked
from lamplighter.dags.task import Task, open_dag, open_group, open_group_of
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import require_id

if TYPE_CHECKING:
    from contextvars import Token

    from lamplighter.dags.dag import DAG


class TaskGroup(Linked):
    """Tasks of one DAG that belong together; use it as a context manager.

    Tasks and groups made in its block are called `group.task`, unless `prefix_group_id` is False,
    and have its `default_args` over those of the DAG.
    """

    def __init__(
        self,
        group_id: str,  # Its id: letters, digits and `_ ~ -`, no dots.
        *,
        prefix_group_id: bool = True,  # With False, ids of tasks and groups in it stay as they are.
        parent_group: "TaskGroup | None" = None,  # The group around it; the open one by default.
        dag: "DAG | None" = None,  # Its DAG; the open one by default.
        default_args: Mapping[str, Any] | None = None,  # Options of its tasks, over the DAG's.
        tooltip: str = "",  # Accepted, without effect.
        ui_color: str = "",  # Accepted, without effect.
        ui_fgcolor: str = "",  # Accepted, without effect.
        group_display_name: str = "",  # Accepted, without effect.
        add_suffix_on_collision: bool = False,  # Whether it is `load__1` if `load` is taken.
    ) -> None:
        del tooltip, ui_color, ui_fgcolor, group_display_name  # for the graph of Airflow's page
        if dag is None:
            dag = open_dag.get() if parent_group is None else parent_group.dag
        if dag is None:
            raise DefinitionError(
                f"task group {group_id!r} belongs to no DAG: write it inside 'with DAG(…):' or"
                " pass dag="
            )
        self.dag: DAG = dag
        self.group_id = group_id
        self.parent_group = parent_group or open_group_of(dag)
        if self.parent_group is not None and self.parent_group.dag is not dag:
            raise self._error(f"parent_group {self.parent_group.group_id!r} is of another DAG")
        self.group_id = self._free_id(group_id, add_suffix=add_suffix_on_collision)
        self.prefix_group_id = prefix_group_id
        own = dag.options_in(self._read(default_args), f"task group {self.group_id!r}: ")
        outer = dag if self.parent_group is None else self.parent_group
        self.task_defaults: dict[str, Any] = {**outer.task_defaults, **own}
        self._outer: list[tuple[Token[DAG | None], Token[TaskGroup | None]]] = []
        dag.group_ids.add(self.group_id)

    def _error(self, problem: object) -> DefinitionError:
        return DefinitionError(f"DAG {self.dag.dag_id!r}: task group {self.group_id!r}: {problem}")

    def _free_id(self, label: str, *, add_suffix: bool) -> str:
        require_id(label, what=f"DAG {self.dag.dag_id!r}: task group")
        if "." in label:
            raise self._error("an id has no dots, which are between a group and what is in it")
        taken = self.dag.group_ids | self.dag.tasks.keys()
        found = self._below_parent(label)
        if found in taken and not add_suffix:
            raise self._error(f"there is a task or a group with the id {found!r} already")
        numbers = count(1)
        while found in taken:
            found = self._below_parent(f"{re.sub(r'__[0-9]+$', '', label)}__{next(numbers)}")
        return found

    def _below_parent(self, label: str) -> str:
        return label if self.parent_group is None else self.parent_group.child_id(label)

    def _read(self, default_args: Mapping[str, Any] | None) -> dict[str, Any]:
        try:
            return arguments.mapping(default_args or {})
        except TypeError as error:
            raise self._error(f"default_args: {error}") from error

    def child_id(self, label: str) -> str:
        """Return the id of a task or group that its author calls `label`."""
        if not self.prefix_group_id:
            return label
        what = f"DAG {self.dag.dag_id!r}: task or group"
        return require_id(f"{self.group_id}.{label}", what=what)

    @property
    def path(self) -> tuple[str, ...]:
        """The ids of the groups around it and its own, the outermost first."""
        outer = () if self.parent_group is None else self.parent_group.path
        return (*outer, self.group_id)

    @property
    def roots(self) -> list[Task]:
        """The tasks that wait for no other task of the group."""
        tasks = self._tasks()
        return [task for task in tasks.values() if task.upstream_task_ids.isdisjoint(tasks)]

    @property
    def leaves(self) -> list[Task]:
        """The tasks that no other task of the group waits for."""
        tasks = self._tasks()
        return [task for task in tasks.values() if task.downstream_task_ids.isdisjoint(tasks)]

    def _tasks(self) -> dict[str, Task]:
        every = self.dag.tasks.items()
        tasks = {task_id: task for task_id, task in every if self.group_id in task.group_ids}
        if not tasks:
            raise self._error("it has no tasks to link: link it after its block")
        return tasks

    def __enter__(self) -> Self:
        self._outer.append((open_dag.set(self.dag), open_group.set(self)))
        return self

    def __exit__(self, *_: object) -> None:
        outer_dag, outer_group = self._outer.pop()
        open_dag.reset(outer_dag)
        open_group.reset(outer_group)

    def __repr__(self) -> str:
        return f"<TaskGroup {self.group_id!r}>"
