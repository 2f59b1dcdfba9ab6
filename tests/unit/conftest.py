"""Keeps unit tests pure: they call no AWS, not even an emulated one, and start no process."""

import multiprocessing.process
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

# At its first import croniter asks for the platform, which starts a process.
import croniter  # noqa: F401
import pytest
from botocore.client import BaseClient

_HERE = Path(__file__).parent


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError(
        "a unit test calls no AWS and starts no process: it belongs in tests/integration or spark"
    )


@contextmanager
def _purely(item: pytest.Item) -> Iterator[None]:
    # Only where unit tests run alone (`make check`): other kinds replace the same methods, for
    # longer than one test.
    names = (name.partition("::")[0] for name in item.config.args)
    if not all(Path(name).resolve().is_relative_to(_HERE) for name in names):
        yield
        return
    with (
        patch.object(BaseClient, "_make_api_call", _refuse),
        patch.object(subprocess.Popen, "__init__", _refuse),
        patch.object(multiprocessing.process.BaseProcess, "start", _refuse),
        patch.object(os, "fork", _refuse),
    ):
        yield


# Not while a test is torn down: after the last one that is the end of everybody's session.


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Refuse what is slow in the fixtures of a unit test."""
    with _purely(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Refuse what is slow in a unit test."""
    with _purely(item):
        return (yield)
