"""Runs a server in a child process for as long as a block lasts.

The contract with the child: it listens on 127.0.0.1, prints its port as its first line, and ends
when its standard input ends. The last part needs no cooperation of a parent that is killed: the
system closes the pipe for it.

Owns: the life of the child. Refuses: knowing what it serves.
"""

import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lamplighter.errors import LamplighterError

ROOT = Path(__file__).parents[2]
# A Java on a busy machine of two cores takes a few seconds.
START_FOR = 60.0
END_FOR = 5.0
# Enough to find the reason in what a server says about its failure.
LAST_WORDS = 2000


class ServerStartError(LamplighterError):
    """The server ended, or said nothing, before it could be used."""


@contextmanager
def serving(command: Sequence[str | Path]) -> Iterator[str]:
    """Run `command` from the root of the repository and return the address at which it serves."""
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )
        try:
            yield f"http://127.0.0.1:{_port(process, complaints)}"
        finally:
            _end(process)


def _port(process: subprocess.Popen[bytes], complaints: IO[bytes]) -> int:
    assert process.stdout
    # Reading has no time limit of its own, but ends with the process.
    limit = threading.Timer(START_FOR, process.kill)
    limit.start()
    try:
        line = process.stdout.readline()
    finally:
        limit.cancel()
    if line.strip().isdigit():
        return int(line)
    process.kill()
    process.wait()
    complaints.seek(0)
    said = (line + complaints.read()).decode(errors="replace").strip()[-LAST_WORDS:]
    raise ServerStartError(f"{process.args!r} did not start: {said or 'it said nothing'}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, and end it if it does not."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    try:
        process.wait(END_FOR)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
