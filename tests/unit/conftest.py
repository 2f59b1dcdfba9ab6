"""Keeps unit tests pure: they call no AWS, not even an emulated one, and start no process."""

import multiprocessing.process
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.client import BaseClient

# At its first import croniter asks for the platform, which starts a process.
from lamplighter.timetables import cron  # noqa: F401

_HERE = Path(__file__).parent


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError(
        "a unit test calls no AWS and starts no process: it belongs in tests/integration or spark"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Refuse what is slow, from the first fixture of a unit test to the last."""
    if not item.path.is_relative_to(_HERE):  # pytest calls this hook for every test
        return (yield)
    with (
        patch.object(BaseClient, "_make_api_call", _refuse),
        patch.object(subprocess.Popen, "__init__", _refuse),
        patch.object(multiprocessing.process.BaseProcess, "start", _refuse),
        patch.object(os, "fork", _refuse),
    ):
        return (yield)
