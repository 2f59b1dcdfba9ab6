"""A function in a process of its own that looks like Lambda's, for attacks on that process.

It has credentials in its environment, and no rights above those of its user: root, as whom tests
may run, reads the memory of everybody.
"""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.patience import LONG_SECONDS

SECRET = "the-secret-of-the-function"  # noqa: S105 - what an attack looks for
_DROP_FROM_BOUNDING_SET = 24


def drop_rights() -> None:
    """Let what is executed next have no capability; for whoever is not root this does nothing."""
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


def run_as_lambda(program: str, *arguments: object, seconds: float = LONG_SECONDS) -> Any:
    """Run a program of Python with JSON arguments; return what it prints last, which is JSON."""
    done = end_as_lambda(program, *arguments, seconds=seconds)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def end_as_lambda(
    program: str, *arguments: object, seconds: float = LONG_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python with JSON arguments, and tell how it has ended."""
    variables = {
        "AWS_ACCESS_KEY_ID": "the-key-of-the-function",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    return subprocess.run(
        [sys.executable, "-c", program, *map(json.dumps, arguments)],
        env={**os.environ, **variables},
        preexec_fn=drop_rights if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def with_disk(folder: Path, program: str) -> str:
    """Return a program that takes a folder for the disk of its environment."""
    return (
        "from pathlib import Path\n"
        "from lamplighter.bundles import processes\n"
        f"processes._own_disk = lambda: Path({str(folder)!r})\n{program}"
    )


# A function that has no patience with those who do not die.
IMPATIENT = "from lamplighter.bundles import processes\nprocesses._SECONDS_TO_DIE = -1.0\n"
# Prints which names of secrets its environment still has when a function has been loaded.
TELLS_SECRETS = """
import json, os, sys
from lamplighter_local.handlers import handler_of
handler_of(json.loads(sys.argv[1]))
print(json.dumps([name for name, value in os.environ.items() if "-of-the-function" in value]))
"""
