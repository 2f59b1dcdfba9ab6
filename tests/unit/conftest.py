"""Keeps unit tests pure: they call no AWS, not even an emulated one, and start no process."""

import multiprocessing.process
import os
import subprocess
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from botocore.client import BaseClient


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError(
        "a unit test calls no AWS and starts no process: it belongs in tests/integration or spark"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    """Refuse what is slow, from the first fixture of a test to the last."""
    with (
        patch.object(BaseClient, "_make_api_call", _refuse),
        patch.object(subprocess.Popen, "__init__", _refuse),
        patch.object(multiprocessing.process.BaseProcess, "start", _refuse),
        patch.object(os, "fork", _refuse),
    ):
        return (yield)
