"""The executor in force: EMR Serverless, unless another one was given."""

from collections.abc import Iterator
from contextlib import contextmanager

from lamplighter.executors.emr import EmrServerless
from lamplighter.executors.base import Executor

_given: Executor | None = None


def current() -> Executor:
    """Return what runs the jobs of this process."""
    return EmrServerless() if _given is None else _given


@contextmanager
def using(executor: Executor) -> Iterator[Executor]:
    """Let `executor` run all jobs of the process until the block ends."""
    global _given  # noqa: PLW0603 - one deployment per process, whatever the thread
    before, _given = _given, executor
    try:
        yield executor
    finally:
        _given = before
