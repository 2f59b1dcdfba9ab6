"""What runs jobs: the executor that new jobs are started on, and all others by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from lamplighter import runtime, settings
from lamplighter.errors import PermanentError
from lamplighter.executors.base import Executor
from lamplighter.executors.emr import EmrServerless


class NamedJob(NamedTuple):
    """A job, by its executor and the id that it has there."""

    executor: Executor
    job_run_id: str


def current() -> Executor:
    """Return what new jobs are started on: that of the runtime, else the one that settings name."""
    return runtime.current().executor or named(settings.current().executor)


def named(name: str | None) -> Executor:
    """Return the executor that a step names; one that names none has its job on the current one."""
    if name is None:
        return current()
    try:
        return _known()[name]
    except KeyError as error:
        raise PermanentError(f"there is no executor {name!r} here") from error


def job_of_event(event: Mapping[str, Any]) -> NamedJob | None:
    """Return the job whose state an EventBridge event tells, or None if it is not one of ours."""
    for executor in _known().values():
        job_run_id = executor.read_event(event)
        if job_run_id is not None:
            return NamedJob(executor, job_run_id)
    return None


def _known() -> dict[str, Executor]:
    # Each can be made at any time: what an executor needs to know, the settings say.
    known = [EmrServerless(), runtime.current().executor]
    return {executor.name: executor for executor in known if executor is not None}
