"""Runs author code in a fork with limits on time and memory, and returns its results.

A fork costs milliseconds, starts clean, and may hang, allocate, print or die without harm to its
parent. Results and prints travel through pipes of their own, so that neither is ever taken for the
other; both are read while they come, so that no fork can fill memory or block on a full pipe. What
it says is limited and verified: author code finds the pipe if it looks for it.
"""

import json
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Never

from lamplighter.bundles import answers, processes

OUTPUT_BYTES = 4096

_EXIT_SECONDS = 1.0
_CHUNK = 65_536


@dataclass(frozen=True)
class Limits:
    """What author code may use: seconds for each result, memory, and processes side by side."""

    seconds: float = 30.0
    memory_bytes: int = 2 * 1024**3
    processes: int = os.cpu_count() or 1


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class ForkResult:
    """The results of a fork, what it printed, and how it ended."""

    values: list[Any]
    output: str
    status: int
    is_late: bool

    def why_it_ended(self, *, slow: str, process: str) -> str:
        """Return why no further value came: `slow` if it was late, else how `process` ended."""
        if self.is_late:
            return f"{slow}; it was stopped"
        if os.WIFSIGNALED(self.status) and os.WTERMSIG(self.status) != signal.SIGKILL:
            return f"{process} died of {signal.strsignal(os.WTERMSIG(self.status))}"
        code = os.waitstatus_to_exitcode(self.status)
        return f"{process} ended before it was done (exit code {code})"


def run_in_fork(
    work: Callable[[], Iterator[Any]], *, count: int, limits: Limits, caller: int | None = None
) -> ForkResult:
    """Return the first `count` JSON values that `work` yields, or as many as came in time.

    Raises `EOFError` when the pipe `caller` is closed meanwhile: nobody waits for the result then.
    """
    values_read, values_write = os.pipe()
    output_read, output_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(values_read)
        os.close(output_read)
        _run_child(work, values_write, output_write, limits.memory_bytes)
    os.close(values_write)
    os.close(output_write)
    fork = _Fork(pid)
    try:
        pipes = _Pipes(values_read, output_read, caller)
        is_late = False
        try:
            pipes.read_values(count, limits.seconds, fork.is_alive)
        except TimeoutError:
            is_late = True
        status = fork.end()
        pipes.read_last_output()
    except BaseException:  # also when the caller has stopped: no fork may be left behind
        fork.kill()
        raise
    finally:
        os.close(values_read)
        os.close(output_read)
    return ForkResult(pipes.values, pipes.output.decode(errors="replace"), status, is_late)


class _Pipes:
    """The parent's ends: whole lines of JSON from one, the beginning of the other."""

    def __init__(self, values: int, output: int, caller: int | None) -> None:
        self.values: list[Any] = []
        self.output = b""
        self._values_pipe = values
        self._output_pipe = output
        self._caller = caller
        self._line = bytearray()
        os.set_blocking(output, False)

    def read_values(self, count: int, seconds: float, is_alive: Callable[[], bool]) -> None:
        """Read until enough came or no more will; raise `TimeoutError` if a value is late."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._values_pipe, selectors.EVENT_READ)
            selector.register(self._output_pipe, selectors.EVENT_READ)
            if self._caller is not None:
                selector.register(self._caller, selectors.EVENT_READ)
            known, deadline = 0, time.monotonic() + seconds
            while len(self.values) < count:
                if len(self.values) > known:  # the time is for each value
                    known, deadline = len(self.values), time.monotonic() + seconds
                ready = answers.wait_for(selector, deadline, is_alive)
                if not ready:
                    return
                for pipe in ready:
                    if pipe == self._caller:
                        raise EOFError("nobody waits for the result any more")
                    if pipe == self._output_pipe:
                        if not self._read_output():
                            selector.unregister(self._output_pipe)
                    elif not self._read_values():
                        return

    def _read_values(self) -> bool:
        chunk = os.read(self._values_pipe, _CHUNK)
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            try:
                self.values.append(answers.read_answer(self._line + line))
            except ValueError:  # author code wrote here on purpose: whatever follows is worthless
                return False
            self._line.clear()
        self._line += rest
        return bool(chunk) and len(self._line) <= answers.MAX_BYTES

    def _read_output(self) -> bool:
        """Read some output, keep it if it is the beginning, and tell whether more may come."""
        chunk = os.read(self._output_pipe, _CHUNK)
        self.output = (self.output + chunk)[:OUTPUT_BYTES]
        return bool(chunk)

    def read_last_output(self) -> None:
        """Read what the fork printed just before its end; others may still hold the pipe open."""
        with suppress(BlockingIOError):
            while len(self.output) < OUTPUT_BYTES and self._read_output():
                pass


class _Fork:
    """The process of a fork, and the status with which it has ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._status: int | None = None

    def is_alive(self) -> bool:
        if self._status is None:
            ended, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if ended else None
        return self._status is None

    def end(self) -> int:
        """Let it end by itself if it is done, end it otherwise, and its children with it."""
        deadline = time.monotonic() + _EXIT_SECONDS
        while self.is_alive() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.kill()
        return os.waitpid(self._pid, 0)[1] if self._status is None else self._status

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)


def _run_child(
    work: Callable[[], Iterator[Any]], values: int, output: int, memory_bytes: int
) -> Never:
    code = 1
    try:
        os.setsid()
        processes.die_with_parent()
        _redirect_output(output)
        _close_all_but(values)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        for value in work():
            line = json.dumps(value).encode() + b"\n"
            for stream in (sys.stdout, sys.stderr):
                # Author code may have put anything in their place.
                with suppress(Exception):
                    stream.flush()
            with os.fdopen(values, "wb", closefd=False) as pipe:
                pipe.write(line)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)


def _redirect_output(output: int) -> None:
    """Point the standard streams at nothing and at the pipe for output."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.close(output)
    # By line, so that prints and errors keep their order and survive a sudden end; and whatever
    # the locale, there is no character that an author cannot print.
    sys.stdout, sys.stderr = (
        open(  # noqa: SIM115 - for as long as the process lives
            stream, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        )
        for stream in (1, 2)
    )


def _close_all_but(kept: int) -> None:
    """Close what belongs to the process around: author code might write into its pipes."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, kept)
    os.closerange(kept + 1, limit if limit != resource.RLIM_INFINITY else 65_536)
