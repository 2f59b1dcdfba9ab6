"""A function in a process of its own that looks like Lambda's, for attacks on that process.

It has credentials in its environment, and no rights above those of its user: root, as whom tests
may run, reads the memory of everybody.
"""

import ctypes
import json
import os
import subprocess
import sys
from typing import Any

from tests.patience import LONG_SECONDS

SECRET = "the-secret-of-the-function"  # noqa: S105 - what an attack looks for
_DROP_FROM_BOUNDING_SET = 24


def drop_rights() -> None:
    """Let what is executed next have no capability; for whoever is not root this does nothing."""
    libc = ctypes.CDLL(None)
    for capability in range(64):
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)


def run_as_lambda(program: str, *arguments: object) -> Any:
    """Run a program of Python with JSON arguments; return what it prints last, which is JSON."""
    variables = {
        "AWS_ACCESS_KEY_ID": "the-key-of-the-function",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-c", program, *map(json.dumps, arguments)],
        env={**os.environ, **variables},
        preexec_fn=drop_rights if os.geteuid() == 0 else None,
        capture_output=True,
        text=True,
        timeout=LONG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
