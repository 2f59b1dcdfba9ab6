"""Keeps unit tests pure: they call no AWS, not even an emulated one, and start no process."""

import multiprocessing.process
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import current_thread, main_thread
from typing import Any

# At its first import croniter asks for the platform, which starts a process.
import croniter  # noqa: F401
import pytest
from botocore.client import BaseClient

_is_in_unit_test = False


def _guard(owner: Any, name: str) -> None:
    """Let a method refuse to be called from a unit test.

    It is replaced for good, not for each test: fixtures replace the same methods for longer than
    one test, and would put back a replacement that is over.
    """
    method: Callable[..., Any] = getattr(owner, name)

    @wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        # Other threads belong to deployments that other tests keep open.
        if _is_in_unit_test and current_thread() is main_thread():
            raise AssertionError(
                "a unit test calls no AWS and starts no process:"
                " it belongs in tests/integration or tests/spark"
            )
        return method(*args, **kwargs)

    setattr(owner, name, guarded)


_guard(BaseClient, "_make_api_call")
_guard(subprocess.Popen, "__init__")
_guard(multiprocessing.process.BaseProcess, "start")
_guard(os, "fork")


@contextmanager
def _purely() -> Iterator[None]:
    global _is_in_unit_test  # noqa: PLW0603 - the methods are the process's, and so is this
    _is_in_unit_test = True
    try:
        yield
    finally:
        _is_in_unit_test = False


# Not while a test is torn down: after the last one that is the end of everybody's session.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Refuse what is slow in the fixtures of a unit test."""
    with _purely():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Refuse what is slow in a unit test."""
    with _purely():
        return (yield)
