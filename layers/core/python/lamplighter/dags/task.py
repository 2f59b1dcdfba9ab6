"""Tasks: PySpark programs with their arguments, size and retries, and the order between them."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypedDict, Unpack

from pendulum import DateTime

from lamplighter.assets import Asset, AssetAlias, AssetRef
from lamplighter.dags import arguments
from lamplighter.dags.arguments import optional, whole_number
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import require_id

if TYPE_CHECKING:
    from lamplighter.dags.dag import DAG

open_dag: ContextVar["DAG | None"] = ContextVar("open_dag", default=None)
"""The DAG whose `with` block is open: tasks join it."""

Tasks: TypeAlias = "SparkTask | Sequence[SparkTask] | AbstractSet[SparkTask]"


class TaskOptions(TypedDict, total=False):
    """Everything about a task but its id. All of it is allowed in a DAG's `default_args`, too."""

    entry_point: str | None
    job: str | None
    arguments: Sequence[str]
    spark_conf: Mapping[str, str]
    py_files: Sequence[str]
    archives: Sequence[str]
    retries: int
    retry_delay: datetime.timedelta | float
    retry_exponential_backoff: bool | float
    max_retry_delay: datetime.timedelta | float | None
    execution_timeout: datetime.timedelta | None
    trigger_rule: str
    depends_on_past: bool
    inlets: Sequence[Asset | AssetAlias | AssetRef]
    outlets: Sequence[Asset | AssetAlias]
    restrict_data: bool
    start_date: datetime.datetime | None
    end_date: datetime.datetime | None
    priority_weight: int
    pool: str | None
    pool_slots: int
    driver_cores: int | None
    driver_memory: str | None
    executor_cores: int | None
    executor_memory: str | None
    max_executors: int | None


class SparkTask:
    """One PySpark program of a DAG.

    `entry_point` is a script in the bundle; `job="module:function"` is a function
    `(spark, context)` that the shipped runner calls. Exactly one of them is needed.
    """

    entry_point: str | None
    job: str | None
    arguments: tuple[str, ...]
    spark_conf: dict[str, str]
    py_files: tuple[str, ...]
    archives: tuple[str, ...]
    retries: int
    retry_delay: datetime.timedelta
    retry_exponential_backoff: float
    max_retry_delay: datetime.timedelta | None
    execution_timeout: datetime.timedelta | None
    trigger_rule: str
    depends_on_past: bool
    inlets: tuple[Asset | AssetAlias | AssetRef, ...]
    outlets: tuple[Asset | AssetAlias, ...]
    restrict_data: bool
    start_date: DateTime | None
    end_date: DateTime | None
    priority_weight: int
    pool: str | None
    pool_slots: int
    driver_cores: int | None
    driver_memory: str | None
    executor_cores: int | None
    executor_memory: str | None
    max_executors: int | None

    def __init__(
        self, task_id: str, *, dag: "DAG | None" = None, **options: Unpack[TaskOptions]
    ) -> None:
        owner = dag or open_dag.get()
        if owner is None:
            raise DefinitionError(
                f"task {task_id!r} belongs to no DAG: write it inside 'with DAG(…):' or pass dag="
            )
        self.dag = owner
        self.task_id = require_id(task_id, what=f"DAG {owner.dag_id!r}: task")
        self.upstream_task_ids: set[str] = set()
        self.downstream_task_ids: set[str] = set()
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise self._error(unknown[0], "there is no such argument")
        given: dict[str, Any] = {**owner.task_defaults, **options}
        for name, option in OPTIONS.items():
            value = given.get(name, option.default)
            try:
                setattr(self, name, option.read(value))
            except (TypeError, ValueError) as error:
                raise self._error(name, str(error)) from error
        if (self.entry_point is None) == (self.job is None):
            raise self._error("entry_point", "give exactly one of entry_point and job")
        if self.restrict_data and not any(map(_has_place, (*self.inlets, *self.outlets))):
            raise self._error(
                "restrict_data", "no inlet or outlet has an S3 URI: declare what the job may use"
            )
        owner.add_task(self)

    def _error(self, argument: str, problem: str) -> DefinitionError:
        return DefinitionError(
            f"DAG {self.dag.dag_id!r}: task {self.task_id!r}: {argument}: {problem}"
        )

    def options(self) -> dict[str, Any]:
        """Return every option with the value it has."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def sizes(self) -> dict[str, str]:
        """The sizes of driver and executors that the author has chosen, by option."""
        chosen = {option: getattr(self, option) for option in arguments.SIZES.values()}
        return {option: str(value) for option, value in chosen.items() if value is not None}

    @property
    def has_templates(self) -> bool:
        """Whether anything must be rendered before a job of this task can start."""
        return any("{" in text for text in (*self.arguments, *self.spark_conf.values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparkTask):
            return NotImplemented
        return (self.task_id, self.options(), self.downstream_task_ids) == (
            other.task_id,
            other.options(),
            other.downstream_task_ids,
        )

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<SparkTask {self.task_id!r}>"

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


def _has_place(asset: object) -> bool:
    return str(getattr(asset, "uri", "")).startswith(("s3://", "s3a://", "s3n://"))


class Option(NamedTuple):
    """How one option is read from what an author wrote, and its default."""

    read: arguments.Reader
    default: Any = None


_MAX_OUTLETS = 90  # the events of a finished task are written in one transaction

OPTIONS: dict[str, Option] = {
    "entry_point": Option(optional(arguments.script)),
    "job": Option(optional(arguments.job)),
    "arguments": Option(arguments.strings, ()),
    "spark_conf": Option(arguments.spark_conf, {}),
    "py_files": Option(arguments.addresses, ()),
    "archives": Option(arguments.addresses, ()),
    "retries": Option(whole_number(minimum=0), 0),
    "retry_delay": Option(arguments.duration, datetime.timedelta(minutes=5)),
    "retry_exponential_backoff": Option(arguments.backoff, 0.0),
    "max_retry_delay": Option(optional(arguments.duration)),
    "execution_timeout": Option(optional(arguments.duration)),
    "trigger_rule": Option(arguments.trigger_rule, "all_success"),
    "depends_on_past": Option(arguments.flag, default=False),
    "inlets": Option(arguments.assets(Asset, AssetAlias, AssetRef), ()),
    "outlets": Option(arguments.assets(Asset, AssetAlias, maximum=_MAX_OUTLETS), ()),
    "restrict_data": Option(arguments.flag, default=False),
    "start_date": Option(optional(arguments.instant)),
    "end_date": Option(optional(arguments.instant)),
    "priority_weight": Option(whole_number(), 1),
    "pool": Option(optional(arguments.pool)),
    "pool_slots": Option(whole_number(minimum=1), 1),
    "driver_cores": Option(optional(whole_number(minimum=1))),
    "driver_memory": Option(optional(arguments.memory)),
    "executor_cores": Option(optional(whole_number(minimum=1))),
    "executor_memory": Option(optional(arguments.memory)),
    "max_executors": Option(optional(whole_number(minimum=1))),
}


# The order between tasks.


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
    try:
        # Sorted: the same tasks always give the same cycle.
        TopologicalSorter({before: sorted(after) for before, after in downstream.items()}).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []
