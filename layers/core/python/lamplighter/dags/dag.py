"""DAGs: a schedule, its bounds and limits, and the tasks of each run.

A DAG adds itself to the definitions of the file that is being imported (`collect_definitions`), so
that a file need not keep it in a global name. Outside such a block nothing is kept: a long-lived
process that reads definitions back from storage does not pile them up.
"""

import datetime
import functools
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pendulum import DateTime

from lamplighter.assets.condition import NO_ASSETS
from lamplighter.dags import arguments
from lamplighter.dags import params as param_definitions
from lamplighter.dags.arguments import Reader, Schedule, flag, optional, timetable_for, whole_number
from lamplighter.dags.kinds import OPTIONS
from lamplighter.dags.links import check_inputs, find_cycle
from lamplighter.dags.task import Task, open_dag
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import require_id
from lamplighter.loading import json_mapping
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, TimeRestriction, Timetable, next_run, place
from lamplighter.timetables.simple import AssetTriggeredTimetable
from lamplighter.zones import UTC, Zone, encode_zone, parse_zone

if TYPE_CHECKING:
    from contextvars import Token
    from types import FrameType, ModuleType

MAX_ASSETS = 90  # a run takes the pending events of all its assets in one transaction
MAX_TASKS = 500
MAX_ACTIVE_RUNS = 500  # the occupied slots are a set on the DAG's row

PLAIN_ARGUMENTS: dict[str, Reader] = {
    "start_date": optional(arguments.instant),
    "end_date": optional(arguments.instant),
    "catchup": flag,
    "max_active_runs": whole_number(minimum=1, maximum=MAX_ACTIVE_RUNS),
    "max_active_tasks": whole_number(minimum=1),
    "dagrun_timeout": optional(arguments.duration),
    "max_consecutive_failed_dag_runs": whole_number(minimum=0),
    "params": json_mapping,
    "tags": arguments.tags,
    "owner": arguments.string,
    "description": optional(arguments.string),
    "doc_md": optional(arguments.string),
    "is_paused_upon_creation": flag,
    "allowed_run_types": optional(arguments.run_types),
    "allow_cycle": flag,
}
"""The arguments that mean the same whatever the others are, and how each is read."""

_RENAMED = {
    "schedule_interval": "schedule",
    "timetable": "schedule",
    "concurrency": "max_active_tasks",
}


class DAG:
    """A definition: when runs happen, and which tasks each of them has.

    Use it as a context manager, or pass `dag=` to each task.

    Args:
        dag_id: Its id in the deployment: up to 200 letters, digits and `. _ ~ -`.
        schedule: When runs are created: a timetable, one of its short forms, or assets.
        start_date: When the schedule starts; a cron expression is read in its time zone.
        end_date: When the schedule ends, inclusive.
        catchup: Whether missed runs are created; with False, only the newest one is.
        max_active_runs: How many runs may be queued or running at once, at most 500.
        max_active_tasks: How many steps of one run may be running at once.
        dagrun_timeout: After this time a run fails, and its jobs are cancelled.
        max_consecutive_failed_dag_runs: The DAG is paused after this many in a row; 0 means never.
        default_args: Options of its tasks, where these do not give them.
        params: Defaults by name, or a `Param` with a schema; the `conf` of a run overrides them.
        tags: Words to find it by.
        owner: Who is responsible.
        description: One line about it.
        doc_md: Its documentation, as Markdown.
        is_paused_upon_creation: Whether it is paused when it is registered for the first time.
        allowed_run_types: The types of runs that may be created; all by default.
        allow_cycle: Whether it may trigger itself through assets.
        older: Names from older versions of Airflow; each is refused, with the one to use instead.
    """

    start_date: DateTime | None
    end_date: DateTime | None
    catchup: bool
    max_active_runs: int
    max_active_tasks: int
    dagrun_timeout: datetime.timedelta | None
    max_consecutive_failed_dag_runs: int
    params: dict[str, Any]
    """The defaults, as templates and jobs get them; a `Param` without one has none."""
    param_schemas: dict[str, dict[str, Any]]
    tags: tuple[str, ...]
    owner: str
    description: str | None
    doc_md: str | None
    is_paused_upon_creation: bool
    allowed_run_types: tuple[str, ...] | None
    allow_cycle: bool

    def __init__(
        self,
        dag_id: str,
        *,
        schedule: Schedule = None,
        start_date: datetime.datetime | None = None,
        end_date: datetime.datetime | None = None,
        catchup: bool = True,
        max_active_runs: int = 16,
        max_active_tasks: int = 16,
        dagrun_timeout: datetime.timedelta | None = None,
        max_consecutive_failed_dag_runs: int = 0,
        default_args: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        owner: str | None = None,
        description: str | None = None,
        doc_md: str | None = None,
        is_paused_upon_creation: bool = False,
        allowed_run_types: str | Collection[str] | None = None,
        allow_cycle: bool = False,
        **older: object,
    ) -> None:
        self.dag_id = require_id(dag_id, what="DAG")
        for name in older:
            raise self._error(name, _advice_on(name))
        defaults = self._read("default_args", default_args or {}, arguments.mapping)
        default_params = self._read("default_args", defaults.get("params", {}), arguments.mapping)
        own_params = self._read("params", params or {}, arguments.mapping)
        all_params = {**default_params, **own_params}
        self.param_schemas = self._read("params", all_params, param_definitions.schemas_of)
        self.task_defaults = self.options_in(defaults, also={"owner", "params"})
        start_date = defaults.get("start_date") if start_date is None else start_date
        end_date = defaults.get("end_date") if end_date is None else end_date
        given = {
            "start_date": start_date,
            "end_date": end_date,
            "catchup": catchup,
            "max_active_runs": max_active_runs,
            "max_active_tasks": max_active_tasks,
            "dagrun_timeout": dagrun_timeout,
            "max_consecutive_failed_dag_runs": max_consecutive_failed_dag_runs,
            "params": param_definitions.defaults_of(all_params),
            "tags": tags,
            "owner": owner or defaults.get("owner") or "lamplighter",
            "description": description,
            "doc_md": doc_md,
            "is_paused_upon_creation": is_paused_upon_creation,
            "allowed_run_types": allowed_run_types,
            "allow_cycle": allow_cycle,
        }
        for name, reader in PLAIN_ARGUMENTS.items():
            setattr(self, name, self._read(name, given[name], reader))
        self.timezone: Zone = UTC
        if start_date is not None and start_date.tzinfo is not None:
            self.timezone = self._read("start_date", start_date.tzinfo, parse_zone)
        self.timetable: Timetable = self._read(
            "schedule", schedule, lambda value: timetable_for(value, timezone=self.timezone)
        )
        self._check_schedule()
        self.tasks: dict[str, Task] = {}
        self.group_ids: set[str] = set()
        self.location = _location_being_imported()
        self._outer: list[Token[DAG | None]] = []
        for definitions in _collections:
            definitions.dags.append(self)

    # What the constructor refuses: always one sentence that names the DAG and the argument.

    def _error(self, argument: str, problem: object) -> DefinitionError:
        return DefinitionError(f"DAG {self.dag_id!r}: {argument}: {problem}")

    def _read(self, argument: str, value: object, reader: Reader) -> Any:
        try:
            return reader(value)
        except (TypeError, ValueError) as error:
            raise self._error(argument, error) from error

    def options_in(
        self, defaults: Mapping[str, Any], where: str = "", *, also: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the options of tasks in `default_args`; warn of what else is there."""
        for name in sorted(defaults.keys() - OPTIONS.keys() - set(also)):
            warnings.warn(
                f"DAG {self.dag_id!r}: {where}default_args: {name!r} has no effect",
                UserWarning,
                stacklevel=3,
            )
        return {name: defaults[name] for name in OPTIONS if name in defaults}

    def _check_schedule(self) -> None:
        timetable = self.timetable
        self._read("schedule", None, lambda _: timetable.validate())
        limit = timetable.active_runs_limit
        if limit is not None and self.max_active_runs > limit:
            raise self._error(
                "max_active_runs",
                f"schedule {timetable.summary!r} allows {limit} at most: pass"
                f" max_active_runs={limit}",
            )
        assets = len(set(timetable.asset_condition.leaves()))
        if not assets and isinstance(timetable, AssetTriggeredTimetable):
            raise self._error("schedule", "needs at least one asset")
        if assets > MAX_ASSETS:
            raise self._error("schedule", f"{assets} assets, at most {MAX_ASSETS} are allowed")
        if self.end_date is not None and self.start_date and self.end_date < self.start_date:
            raise self._error("end_date", f"{self.end_date} is before the start_date")

    # Tasks.

    def __enter__(self) -> Self:
        self._outer.append(open_dag.set(self))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        open_dag.reset(self._outer.pop())
        if kind is None:
            self.validate()

    def add_task(self, task: Task) -> None:
        """Add `task` to this DAG."""
        if task.task_id in self.tasks:
            raise self._error("tasks", f"there are two tasks with the id {task.task_id!r}")
        if task.task_id in self.group_ids:
            raise self._error("tasks", f"a task and a group have the same id {task.task_id!r}")
        if len(self.tasks) >= MAX_TASKS:
            raise self._error("tasks", f"more than {MAX_TASKS} tasks")
        # A task may begin later and end earlier than its DAG, never the other way round.
        if task.start_date is not None and self.start_date is not None:
            task.start_date = max(task.start_date, self.start_date)
        if task.end_date is not None and self.end_date is not None:
            task.end_date = min(task.end_date, self.end_date)
        self.tasks[task.task_id] = task

    def validate(self) -> None:
        """Check what can be checked only when the definition is complete."""
        cycle = find_cycle({t.task_id: t.downstream_task_ids for t in self.tasks.values()})
        if cycle:
            raise self._error("tasks", f"they form a cycle: {' >> '.join(cycle)}")
        # One of a task is enough.
        if self.catchup and self.restriction().earliest is None and _has_periods(self.timetable):
            raise self._error(
                "start_date", "is needed to catch up from: give one, or pass catchup=False"
            )

    def check_limits(self) -> None:
        """Refuse what a new definition may not contain.

        Not part of `validate`: a definition that was stored earlier must still be read, or none of
        its runs could end.
        """
        self._read("schedule", self.timetable, lambda timetable: timetable.check_limits())
        self._check_params()
        for task in self._templated_tasks():
            self._read("tasks", task, _templates().check_task)
        for task in self.tasks.values():
            self._read("tasks", task, check_inputs)

    def _check_params(self) -> None:
        self._read(
            "params",
            self.params,
            lambda given: param_definitions.check_definition(given, self.param_schemas),
        )
        required = [name for name in self.param_schemas if name not in self.params]
        if required and _creates_runs(self.timetable):
            raise self._error(
                "params",
                f"{required[0]!r} has no default, and schedule {self.timetable.summary!r} creates"
                " runs by itself: give it a default, or pass schedule=None",
            )

    def try_templates(self) -> list[str]:
        """Return what is wrong with templates, as far as sample values can tell."""
        tried = (_templates().try_task(task) for task in self._templated_tasks())
        return [problem for problems in tried for problem in problems]

    def _templated_tasks(self) -> Iterator[Task]:
        return (task for task in self.tasks.values() if task.has_templates)

    # Time.

    def restriction(self, *, catchup: bool | None = None) -> TimeRestriction:
        """Return the bounds that the DAG and its tasks put on runs."""
        tasks = self.tasks.values()
        starts = [day for day in (self.start_date, *(t.start_date for t in tasks)) if day]
        latest = self.end_date
        ends = [task.end_date for task in tasks]
        if ends and all(ends):
            latest = max(day for day in (self.end_date, *ends) if day is not None)
        return TimeRestriction(
            earliest=min(starts, default=None),
            latest=latest,
            catchup=self.catchup if catchup is None else catchup,
        )

    def next_dagrun_info(
        self, last_dagrun_info: DagRunInfo | None = None, *, catchup: bool | None = None
    ) -> DagRunInfo | None:
        """Return the run that follows `last_dagrun_info`, or None when there is none."""
        return self._next_run(last_dagrun_info, self.restriction(catchup=catchup))

    def _next_run(self, last: DagRunInfo | None, restriction: TimeRestriction) -> DagRunInfo | None:
        try:
            info = next_run(self.timetable, last, restriction)
        except (TypeError, ValueError) as error:
            raise self._error("schedule", error) from error
        # A timetable of an author's may ignore the end date.
        latest = restriction.latest
        is_over = info is not None and latest is not None and place(info) > latest
        return None if is_over else info

    def iter_dagrun_infos_between(
        self, earliest: DateTime | None, latest: DateTime
    ) -> Iterator[DagRunInfo]:
        """Yield every run between two instants, both included, whatever `catchup` says."""
        earliest = earliest or self.restriction().earliest
        if earliest is None:
            raise self._error("start_date", "is needed: there is no instant to begin at")
        restriction = TimeRestriction(earliest, latest, catchup=True)
        info = self._next_run(None, restriction)
        while info is not None:
            yield info
            info = self._next_run(info, restriction)

    # Identity.

    def arguments(self) -> dict[str, Any]:
        """Return everything but the tasks under the constructor's own names."""
        return {
            "schedule": self.timetable,
            **{name: getattr(self, name) for name in PLAIN_ARGUMENTS},
            "params": param_definitions.join(self.params, self.param_schemas),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DAG):
            return NotImplemented
        return self._identity() == other._identity()

    def _identity(self) -> tuple[object, ...]:
        return (self.dag_id, encode_zone(self.timezone), self.arguments(), self.tasks)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<DAG {self.dag_id!r}>"


def _has_periods(timetable: Timetable) -> bool:
    """Return True if runs could be owed: @once and @continuous never owe one, nor do assets."""
    timed = timetable.timetable if isinstance(timetable, AssetOrTimeSchedule) else timetable
    return timed.can_be_scheduled and timed.periodic and timed.asset_condition is NO_ASSETS


def _creates_runs(timetable: Timetable) -> bool:
    return timetable.can_be_scheduled or timetable.asset_condition is not NO_ASSETS


def _advice_on(argument: str) -> str:
    if argument in _RENAMED:
        return f"this argument is now called {_RENAMED[argument]!r}"
    if argument.endswith("_callback"):
        return "there are no callbacks; subscribe to the 'Run Finished' event instead"
    return "there is no such argument"


def _templates() -> "ModuleType":
    """Return the module; only here, because it takes 50 ms to import, and few DAGs need it."""
    from lamplighter.dags import templates  # noqa: PLC0415

    return templates


class SourceLocation(NamedTuple):
    """Where an author would look for a definition."""

    file: str
    line: int


def _location_being_imported() -> SourceLocation | None:
    """Return the file and line whose top level is running, however deep a factory was called."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 - the cheap way to see one's callers
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return None if frame is None else SourceLocation(frame.f_code.co_filename, frame.f_lineno)


# What a file defines.


class Definitions:
    """The DAGs and the `@dag` functions that were defined, in order."""

    def __init__(self) -> None:
        self.dags: list[DAG] = []
        self.factories: list[DagFactory] = []


_collections: list[Definitions] = []


@contextmanager
def collect_definitions() -> Iterator[Definitions]:
    """Collect every definition made until the block ends."""
    definitions = Definitions()
    _collections.append(definitions)
    try:
        yield definitions
    finally:
        _collections.remove(definitions)


class DagFactory:
    """A decorated function; calling it makes the DAG."""

    def __init__(self, function: Callable[..., object], dag_id: str, options: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.dag_id = dag_id
        self.options = options
        self.was_called = False
        for definitions in _collections:
            definitions.factories.append(self)

    def __call__(self, *args: Any, **kwargs: Any) -> DAG:
        """Run the function's body inside a new DAG, and return that DAG."""
        self.was_called = True
        with DAG(self.dag_id, **{"doc_md": self.function.__doc__, **self.options}) as made:
            self.function(*args, **kwargs)
        return made


def dag(dag_id: str | Callable[..., object] = "", **options: Any) -> Any:
    """Turn a function into a factory of one DAG, named after the function unless `dag_id` is given.

    The options are those of `DAG`. Call the function once, or the DAG does not exist.
    """
    if callable(dag_id):
        return DagFactory(dag_id, dag_id.__name__, options)
    return lambda function: DagFactory(function, dag_id or function.__name__, options)
