"""The process in which the function of a Python task runs, as the one above it sees it.

Owns: its environment, how its time ends, and what it says: an answer and two streams of lines, of
limited size. Nothing it says is believed, and nothing of it is left.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lamplighter.bundles import processes
from lamplighter.bundles.answers import read_answer, wait_for
from lamplighter.bundles.parsing import environment
from lamplighter.executors.claimed_job import Ended

OnLine = Callable[[str, str], None]

_PROGRAM = "lamplighter_job.python_step"
# As much as a report may have.
_MAX_ANSWER_BYTES = 4_000_000
# What a job can write into its log; the rest is read and dropped.
_MAX_LOG_BYTES = 10_000_000
_MAX_LINE_BYTES = 65_536
_SECONDS_BETWEEN_LOOKS = 3.0
# For threads and handlers that go on when the function has returned, and for what is in the pipes
# of a process that is dead.
_SECONDS_TO_EXIT, _SECONDS_FOR_LAST_WORDS = 10.0, 1.0
_SECONDS_TO_DIE = 5.0
_OUTPUTS = ("stdout", "stderr")


class JobProcess:
    """A process of its own for one job, started by the constructor, with a folder of its own."""

    def __init__(
        self, folder: Path, request: Mapping[str, Any], more_environment: Mapping[str, str]
    ) -> None:
        (folder / "tmp").mkdir()
        asked = folder / "request.json"
        asked.write_text(json.dumps(dict(request)), encoding="utf-8")
        answer, answer_end = os.pipe()
        with asked.open("rb") as stdin:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-s", "-u", "-m", _PROGRAM, str(answer_end)],
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[answer_end],
                cwd=folder,
                env=_environment(folder, more_environment),
                start_new_session=True,
            )
        os.close(answer_end)
        _offer_to_the_memory_killer(self._popen.pid)
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        outputs = (self._popen.stdout.fileno(), self._popen.stderr.fileno())
        self._answer = answer
        self._said = bytearray()
        self._streams = dict(zip(outputs, _OUTPUTS, strict=True))

    def run(self, until: float, *, is_cancelled: Callable[[], bool], on_line: OnLine) -> Ended:
        """Return how the process ends by itself, or is ended by us at an instant or on request."""
        lines = _Lines(on_line)
        try:
            why = self._watch(until, is_cancelled, lines)
        finally:
            self._end()
            lines.flush()
        return self._ended(why)

    def _watch(self, until: float, is_cancelled: Callable[[], bool], lines: "_Lines") -> str:
        """Read what the process says; return why it must be ended, or nothing."""
        next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        has_exit_begun = False
        with selectors.DefaultSelector() as selector:
            for pipe in (self._answer, *self._streams):
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                if not has_exit_begun and (left := self._seconds_to_exit()) is not None:
                    has_exit_begun, until = True, min(until, time.monotonic() + left)
                try:
                    ready = wait_for(selector, min(until, next_look), self._is_alive)
                except TimeoutError:
                    if time.monotonic() >= until:
                        return "" if has_exit_begun else "late"
                    if is_cancelled():
                        return "cancelled"
                    next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS
                    continue
                if not ready:
                    break
                for pipe in ready:
                    if not self._read(pipe, lines):
                        selector.unregister(pipe)
        return ""

    def _seconds_to_exit(self) -> float | None:
        """Return how long a process that has answered, or is dead, is still listened to."""
        if not self._is_alive():
            return _SECONDS_FOR_LAST_WORDS
        return _SECONDS_TO_EXIT if b"\n" in self._said else None

    def _read(self, pipe: int, lines: "_Lines") -> bool:
        chunk = os.read(pipe, _MAX_LINE_BYTES)
        if pipe != self._answer:
            lines.add(self._streams[pipe], chunk)
        elif len(self._said) <= _MAX_ANSWER_BYTES:
            self._said += chunk
        return bool(chunk)

    def _is_alive(self) -> bool:
        return self._popen.poll() is None

    def _end(self) -> None:
        """Kill the process and all that it has left behind."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(_SECONDS_TO_DIE)
        if processes.is_in_lambda():
            with suppress(TimeoutError):  # the handler ends the environment then
                processes.end_descendants()
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()
        os.close(self._answer)

    def _ended(self, why: str) -> Ended:
        if why:
            return Ended(details=why)
        line, end, _ = self._said.partition(b"\n")
        try:
            document = read_answer(line) if end else None
        except ValueError as error:
            return Ended(details=f"its answer cannot be read: {error}")
        if isinstance(document, dict):
            return Ended(document)
        return Ended(details=_cause_of_death(self._popen.returncode))


class _Lines:
    """The lines of two streams, as far as there is room in the log."""

    def __init__(self, on_line: OnLine) -> None:
        self._on_line = on_line
        self._parts = {stream: bytearray() for stream in _OUTPUTS}
        self._left = _MAX_LOG_BYTES

    def add(self, stream: str, chunk: bytes) -> None:
        """Pass on every line that is complete, or too long."""
        part = self._parts[stream]
        part += chunk
        while (end := part.find(b"\n")) >= 0:
            self._pass_on(stream, bytes(part[:end]))
            del part[: end + 1]
        if len(part) >= _MAX_LINE_BYTES:
            self._pass_on(stream, bytes(part))
            part.clear()

    def flush(self) -> None:
        """Pass on what the process has not ended with a line break."""
        for stream, part in self._parts.items():
            if part:
                self._pass_on(stream, bytes(part))
                part.clear()

    def _pass_on(self, stream: str, line: bytes) -> None:
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._on_line(stream, line.decode(errors="replace").rstrip("\r"))
        if self._left <= 0:
            self._on_line(stream, f"the log ends here: it has {_MAX_LOG_BYTES:,} bytes")


def _environment(folder: Path, more: Mapping[str, str]) -> dict[str, str]:
    own = {"HOME": str(folder), "TMPDIR": str(folder / "tmp"), "AWS_EC2_METADATA_DISABLED": "true"}
    return environment(**own, **more)


def _offer_to_the_memory_killer(pid: int) -> None:
    """Let the kernel end this process, and not the one above it, when there is no memory left."""
    if sys.platform == "linux":
        with suppress(FileNotFoundError, ProcessLookupError):  # it has ended already
            Path(f"/proc/{pid}/oom_score_adj").write_text("1000", encoding="ascii")


def _cause_of_death(code: int | None) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed: it probably needed more memory than task_memory_mb"
    if code is not None and code < 0:
        return f"its process died of {signal.strsignal(-code)}"
    return f"its process ended before its function did (exit code {code})"
