"""What runs jobs: the executor that new jobs of a task are started on, and all others by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lamplighter import runtime, settings
from lamplighter.dags.task import Task
from lamplighter.errors import PermanentError
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.base import Executor
from lamplighter.executors.emr import EmrServerless

# Of tasks that are not for Spark.
_OF_KIND = {"python": "lambda", "step_functions": "step-functions"}

_KINDS_OF_EVENT = {"detail-type", "requestContext"}


class NamedJob(NamedTuple):
    """The executor of a job, and the job's id there."""

    executor: Executor
    job_run_id: str


def current() -> Executor:
    """Return the executor for new Spark jobs: the runtime's, else the one in the settings."""
    return runtime.current().executor or named(settings.current().executor)


def for_task(task: Task) -> Executor:
    """Return the executor for new jobs of a task."""
    name = _OF_KIND.get(task.kind)
    return current() if name is None else named(name)


def named(name: str | None) -> Executor:
    """Return the executor with a name; None means the current one."""
    if name is None:
        return current()
    try:
        return _known()[name]
    except KeyError as error:
        raise PermanentError(
            f"unknown executor {name!r}: add it to the list of executors"
        ) from error


def job_of_event(event: Mapping[str, Any]) -> NamedJob | None:
    """Return the job that an event is about, or None if it is not one of ours.

    It comes from EventBridge, or from Lambda, which tells of the end of an invocation.
    """
    if not event.keys() & _KINDS_OF_EVENT:
        raise ValueError("it is neither an event of EventBridge nor the end of an invocation")
    for executor in _known().values():
        job_run_id = executor.read_event(event)
        if job_run_id is not None:
            return NamedJob(executor, job_run_id)
    return None


def _known() -> dict[str, Executor]:
    # Constructed without arguments: they read the settings.
    known = [EmrServerless(), LambdaFunction(), runtime.current().executor]
    return {executor.name: executor for executor in known if executor is not None}
