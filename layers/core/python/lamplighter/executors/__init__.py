"""What runs jobs: the executor that new jobs of a task are started on, and all others by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lamplighter import runtime, settings
from lamplighter.dags.task import Task
from lamplighter.errors import PermanentError
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.base import Executor
from lamplighter.executors.emr import EmrServerless
from lamplighter.executors.step_functions import StepFunctions

# Made when they are needed, without arguments: they read the settings.
_EXECUTORS: Mapping[str, type[Executor]] = {
    each.name: each for each in (EmrServerless, LambdaFunction, StepFunctions)
}
# Of tasks that are not for Spark.
_OF_KIND = {"python": LambdaFunction.name, "step_functions": StepFunctions.name}
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
    own = runtime.current().executor
    if own is not None and own.name == name:
        return own
    if name not in _EXECUTORS:
        raise PermanentError(f"unknown executor {name!r}: add it to the list of executors")
    return _EXECUTORS[name]()


def job_of_event(event: Mapping[str, Any]) -> NamedJob | None:
    """Return the job that an event is about, or None if it is not one of ours.

    It comes from EventBridge, or from Lambda, which tells of the end of an invocation.
    """
    if not event.keys() & _KINDS_OF_EVENT:
        raise ValueError("it is neither an event of EventBridge nor the end of an invocation")
    own = runtime.current().executor
    for name in {**_EXECUTORS, **({} if own is None else {own.name: own})}:
        executor = named(name)
        job_run_id = executor.read_event(event)
        if job_run_id is not None:
            return NamedJob(executor, job_run_id)
    return None
