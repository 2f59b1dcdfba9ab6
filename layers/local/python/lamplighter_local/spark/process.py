"""The process that holds the warm Spark, as its executor sees it.

Requests and answers are lines of JSON over pipes. The process has a group of its own, so that the
JVM below it goes with it, and ends by itself when its parent is gone: its pipe is closed then.

Owns: the life of the process, and what is said about its death. Refuses: knowing about jobs.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lamplighter.errors import LamplighterError, RefusedError
from lamplighter_job.secrets import GIVEN as SECRETS
from lamplighter_local.spark.java import NO_JAVA, find_java_home

LOOPBACK = "127.0.0.1"
# A cold disk and a busy machine of two cores.
START_FOR = 120.0
END_FOR = 10.0
LAST_WORDS = 2_000
_LOOK_EVERY = 0.2
_DYING_FOR = 1.0
# Time to write down where a job that hangs stands.
_DUMP_FOR = 0.5
# What could lead to another Spark, another Python or a cluster.
_WITHHELD = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_")


class SparkStartError(LamplighterError):
    """The process ended, or said nothing, before Spark could be used."""


@dataclass(frozen=True)
class Answer:
    """How a request ended; without a `document` the process died of it."""

    document: dict[str, Any] | None
    cause_of_death: str = ""


class SparkProcess:
    """A worker process with Spark at hand, started by the constructor."""

    def __init__(
        self, folder: Path, *, cores: str, secrets: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        home = find_java_home()
        if home is None:
            raise RefusedError(NO_JAVA)
        self.log = folder / "spark.log"
        temporary = folder / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                # Unbuffered: what a job printed is in its log even if it takes the process along.
                [sys.executable, "-P", "-u", "-m", "lamplighter_local.spark.worker", folder, cores],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=_environment(home, temporary) | {SECRETS: json.dumps(dict(secrets))},
            )
        self._rest = b""
        self._is_killed = False
        self._require_start()

    def _require_start(self) -> None:
        try:
            is_ready = bool(self._line(START_FOR))
        except TimeoutError:
            is_ready = False
        except BaseException:  # also when someone loses patience: no JVM may be left behind
            self._bury()
            raise
        if not is_ready:
            self._bury()
            said = self.log.read_bytes()[-LAST_WORDS:].decode(errors="replace").strip()
            raise SparkStartError(f"Spark did not start: {said or 'no error output'}")

    @property
    def is_alive(self) -> bool:
        """Whether the process can be asked."""
        # One that was just killed may take a moment to die.
        return not self._is_killed and self._process.poll() is None

    def ask(self, request: Mapping[str, Any], *, seconds: float) -> Answer:
        """Return the answer to a request, or what the process died of; it has so many seconds."""
        try:
            line = self._send(json.dumps(dict(request)).encode() + b"\n", seconds)
        except TimeoutError:
            # The handler of this signal writes where every thread stands into the job's log.
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(_DUMP_FOR)
            self._bury()
            return Answer(None, f"it ran for more than {seconds:g} s and was ended")
        except BaseException:  # also when someone loses patience: no JVM may be left behind
            self._bury()
            raise
        if line:
            return Answer(json.loads(line))
        with contextlib.suppress(subprocess.TimeoutExpired):
            # It is dying of its own accord, and its exit code is worth a moment.
            self._process.wait(_DYING_FOR)
        return Answer(None, _cause_of_death(self._bury()))

    def _send(self, line: bytes, seconds: float) -> bytes:
        assert self._process.stdin
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            return b""
        return self._line(seconds)

    def _line(self, seconds: float) -> bytes:
        """Return the next line, or nothing if the process is gone."""
        assert self._process.stdout
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if time.monotonic() > until:
                    raise TimeoutError
                if selector.select(_LOOK_EVERY):
                    some = os.read(self._process.stdout.fileno(), 65_536)
                    if not some:
                        return b""
                    self._rest += some
                elif self._process.poll() is not None:
                    # What it started may live on and keep the pipe open.
                    return b""
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def kill(self) -> None:
        """Send the end to the process and all below it; any thread may."""
        self._is_killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Let the process stop Spark and end, and end it if it does not."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_FOR)
        self._bury()

    def _bury(self) -> int:
        """Leave nothing of the process behind; return its exit code."""
        # Also when it has ended by itself: the JVM below it may take longer.
        self.kill()
        code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        return code


def _environment(java_home: Path, temporary: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_WITHHELD)}
    return kept | {
        "JAVA_HOME": str(java_home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_LOCAL_DIRS": str(temporary),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TMPDIR": str(temporary),
        # As on a cluster, where instants that leave Spark for Python are read in UTC.
        "TZ": "UTC",
    }


def _cause_of_death(code: int) -> str:
    if code < 0:
        return f"its process was killed by {signal.Signals(-code).name}"
    return f"its process ended with exit code {code} before the job was over"
