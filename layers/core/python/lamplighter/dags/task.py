"""What tasks of all kinds have in common: retries, order, data, dates and pools.

`kinds` has the kinds, and what each of them runs.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypedDict

from pendulum import DateTime

from lamplighter.assets import Asset, AssetAlias, AssetRef
from lamplighter.dags import arguments
from lamplighter.dags.arguments import optional, whole_number
from lamplighter.dags.links import Linked
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import require_id

if TYPE_CHECKING:
    from lamplighter.dags.dag import DAG
    from lamplighter.dags.groups import TaskGroup

open_dag: ContextVar["DAG | None"] = ContextVar("open_dag", default=None)
"""The DAG whose `with` block is open: tasks join it."""
open_group: ContextVar["TaskGroup | None"] = ContextVar("open_group", default=None)
"""The group whose `with` block is open: tasks and groups of its DAG join it."""

_MAX_OUTLETS = 90  # the events of a finished task are written in one transaction


def open_group_of(dag: "DAG") -> "TaskGroup | None":
    """Return the group that tasks and groups of `dag` join, if one is open."""
    group = open_group.get()
    return group if group is not None and group.dag is dag else None


class Option(NamedTuple):
    """How one option is read from what an author wrote, and its default."""

    read: arguments.Reader
    default: Any = None


class CommonOptions(TypedDict, total=False):
    """What every kind of task takes beside its id. All of it is allowed in `default_args`, too."""

    retries: int  # How often a failed step is tried again.
    retry_delay: datetime.timedelta | float  # The pause before a retry; a number is seconds.
    # The factor by which the delay grows with each retry; True is 2, False and 0 mean no growth.
    retry_exponential_backoff: bool | float
    max_retry_delay: datetime.timedelta | float | None  # The longest delay.
    execution_timeout: datetime.timedelta | None  # After this time a try fails.
    trigger_rule: str  # Which states of the upstream tasks let it start.
    # Whether it waits until the same task of the previous run has succeeded or was skipped.
    depends_on_past: bool
    inlets: Sequence[Asset | AssetAlias | AssetRef]  # The assets that it reads.
    outlets: Sequence[Asset | AssetAlias]  # Assets that it updates, at most 90; each gets an event.
    start_date: datetime.datetime | None  # Runs of earlier dates leave it out.
    end_date: datetime.datetime | None  # Runs of later dates leave it out.
    # Of the steps that wait, the heaviest starts first; weights of downstream tasks are added.
    priority_weight: int
    pool: str | None  # The pool in which it occupies slots while it runs.
    pool_slots: int  # How many slots it occupies.


COMMON_OPTIONS: dict[str, Option] = {
    "retries": Option(whole_number(minimum=0), 0),
    "retry_delay": Option(arguments.duration, datetime.timedelta(minutes=5)),
    "retry_exponential_backoff": Option(arguments.backoff, 0.0),
    "max_retry_delay": Option(optional(arguments.duration)),
    "execution_timeout": Option(optional(arguments.duration)),
    "trigger_rule": Option(arguments.trigger_rule, "all_success"),
    "depends_on_past": Option(arguments.flag, default=False),
    "inlets": Option(arguments.assets(Asset, AssetAlias, AssetRef), ()),
    "outlets": Option(arguments.assets(Asset, AssetAlias, maximum=_MAX_OUTLETS), ()),
    "start_date": Option(optional(arguments.instant)),
    "end_date": Option(optional(arguments.instant)),
    "priority_weight": Option(whole_number(), 1),
    "pool": Option(optional(arguments.pool)),
    "pool_slots": Option(whole_number(minimum=1), 1),
}


class Task(Linked):
    """One step of a DAG, of any kind; made by the classes of `kinds`."""

    # What documents call it; also what decides about its executor.
    kind: ClassVar[str]
    OPTIONS: ClassVar[Mapping[str, Option]] = COMMON_OPTIONS

    retries: int
    retry_delay: datetime.timedelta
    retry_exponential_backoff: float
    max_retry_delay: datetime.timedelta | None
    execution_timeout: datetime.timedelta | None
    trigger_rule: str
    depends_on_past: bool
    inlets: tuple[Asset | AssetAlias | AssetRef, ...]
    outlets: tuple[Asset | AssetAlias, ...]
    start_date: DateTime | None
    end_date: DateTime | None
    priority_weight: int
    pool: str | None
    pool_slots: int
    # Tasks whose outputs the program reads; those in templates are beside it.
    inputs: tuple[str, ...] = ()

    def __init__(self, task_id: str, dag: "DAG | None", options: Mapping[str, Any]) -> None:
        owner = dag or open_dag.get()
        if owner is None:
            raise DefinitionError(
                f"task {task_id!r} belongs to no DAG: write it inside 'with DAG(…):' or pass dag="
            )
        self.dag = owner
        self.task_id = require_id(task_id, what=f"DAG {owner.dag_id!r}: task")
        # Of the groups that it is in, the outermost first.
        self.group_ids: tuple[str, ...] = ()
        defaults = owner.task_defaults
        group = open_group_of(owner)
        if group is not None:
            self.task_id = group.child_id(self.task_id)
            self.group_ids, defaults = group.path, group.task_defaults
        self.upstream_task_ids: set[str] = set()
        self.downstream_task_ids: set[str] = set()
        unknown = sorted(set(options) - set(self.OPTIONS))
        if unknown:
            raise self._error(unknown[0], f"{type(self).__name__} has no such argument")
        given: dict[str, Any] = {**defaults, **options}
        for name, option in self.OPTIONS.items():
            value = given.get(name, option.default)
            try:
                setattr(self, name, option.read(value))
            except (TypeError, ValueError) as error:
                raise self._error(name, str(error)) from error
        self._check_together()
        owner.add_task(self)

    def _check_together(self) -> None:
        """Refuse options that do not go together."""

    def _error(self, argument: str, problem: str) -> DefinitionError:
        return DefinitionError(
            f"DAG {self.dag.dag_id!r}: task {self.task_id!r}: {argument}: {problem}"
        )

    def options(self) -> dict[str, Any]:
        """Return every option with the value it has."""
        return {name: getattr(self, name) for name in self.OPTIONS}

    def templates(self) -> Iterator[tuple[str, str]]:
        """Yield every text that is rendered before a job of this task starts, with its place."""
        yield from ()

    @property
    def has_templates(self) -> bool:
        """Whether anything must be rendered before a job of this task can start."""
        return any("{" in text for _, text in self.templates())

    @property
    def sizes(self) -> dict[str, str]:
        """The sizes that the author has chosen, by option."""
        return {}

    @property
    def roots(self) -> list["Task"]:
        """This task: links to it are links to nothing else."""
        return [self]

    @property
    def leaves(self) -> list["Task"]:
        """This task, as in `roots`."""
        return [self]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Task):
            return NotImplemented
        return self._identity() == other._identity()

    def _identity(self) -> tuple[object, ...]:
        linked = (self.group_ids, self.downstream_task_ids)
        return (self.kind, self.task_id, self.options(), *linked)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.task_id!r}>"
