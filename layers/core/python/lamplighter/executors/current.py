"""The executor in force: EMR Serverless, unless the runtime has another one."""

from lamplighter import runtime
from lamplighter.executors.emr import EmrServerless
from lamplighter.executors.job import Executor


def current() -> Executor:
    """Return what runs the jobs of the current runtime."""
    return runtime.current().executor or EmrServerless()
