"""The processes that work on DAG files, several at once."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pendulum

import lamplighter
from lamplighter.bundles.worker import Request


def ask_workers(requests: Sequence[Request], *, at_once: int) -> Iterator[Any]:
    """Yield the answer to each request, in their order."""
    width = max(1, min(at_once, len(requests)))
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    workers = [_start_worker() for _ in range(width)]
    for worker in workers:
        idle.put(worker)

    def ask(request: Request) -> Any:
        worker = idle.get()
        try:
            return _ask(worker, request)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(width) as threads:
            try:
                yield from threads.map(ask, requests)
            except BaseException:  # someone loses patience: nobody waits for the answers
                for worker in workers:
                    worker.send_signal(signal.SIGINT)
                raise
    finally:
        for worker in workers:
            worker.communicate()


_WITHHELD = ("AWS_", "_X_AMZN", "LAMBDA_", "LAMPLIGHTER_")


def _start_worker() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lamplighter.bundles.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    )


def _environment() -> dict[str, str]:
    """Return the environment of author code: without credentials, or names of resources."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_WITHHELD)}
    return {**kept, "PYTHONPATH": _import_path()}


def _import_path() -> str:
    """Return where the worker finds the library and its packages.

    In Lambda they come from a layer, which the runtime puts on the path of its own process only.
    """
    modules = (lamplighter, pendulum)
    folders = [str(Path(module.__file__).parents[1]) for module in modules if module.__file__]
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join(dict.fromkeys([*folders, *([given] if given else [])]))


def _ask(worker: "subprocess.Popen[str]", request: Request) -> Any:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(json.dumps(request) + "\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise RuntimeError(f"the worker that runs {request['file']} ended unexpectedly")
    return json.loads(line)
