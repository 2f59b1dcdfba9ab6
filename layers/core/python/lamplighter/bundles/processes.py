"""What a process does that runs author code below it: it hides its memory and leaves nothing.

All processes of a Lambda belong to one user. Such a process may read the memory and environment of
another unless that one is not dumpable, and a daemon that was forked twice outlives its parent
unless an ancestor adopts it. Both are Linux's; elsewhere, as on an author's Mac, nothing is hidden.
"""

import ctypes
import os
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE, _SET_CHILD_SUBREAPER = 1, 4, 36
_SECONDS_TO_DIE = 5.0
# Of the 512 MB that a function has.
_MIN_ROOM_BYTES = 100 * 1024**2


def is_in_lambda() -> bool:
    """Return whether this process is a function's own, and not one that plays its part."""
    return "AWS_LAMBDA_RUNTIME_API" in os.environ


def end_environment() -> None:
    """Let Lambda begin this environment anew; the call fails, and is made again."""
    if is_in_lambda():
        os._exit(1)


def shield() -> None:
    """Hide this process from others of its user, and adopt whoever is orphaned below it."""
    _set(_SET_DUMPABLE, 0)
    _set(_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Let this process be killed when the one that forked it ends."""
    _set(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _set(option: int, value: int) -> None:
    if sys.platform != "linux":
        return
    # Of the process and not of a file: whatever implements the C library is loaded already.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")


def end_descendants(*, but: Collection[int] = ()) -> None:
    """Kill everything below this process, daemons too, except some children and what is below them.

    Raises `TimeoutError` if something is left: then this process must not go on.
    """
    deadline = time.monotonic() + _SECONDS_TO_DIE
    while _reap(but):
        for pid, group in list(_below(os.getpid(), _processes(), but)):
            # The whole group at once: who forks faster than it is killed one by one would escape.
            if group != os.getpgrp():
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGKILL)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise TimeoutError("processes of author code cannot be ended")
        time.sleep(0.001)


def leave_nothing() -> None:
    """End and remove what author code has left behind in a function: the next must not meet it."""
    if is_in_lambda():
        try:
            end_descendants()
        except TimeoutError:
            end_environment()
        empty_disk()


def _reap(but: Collection[int]) -> bool:
    """Collect children that have ended; return whether any are left that are to be ended."""
    if not but:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            return True
        return False
    # Those that may live are waited for by others, who would miss their status.
    children = [pid for pid, parent, _ in _processes() if parent == os.getpid()]
    for pid in children:
        if pid not in but:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    return any(pid not in but and _exists(pid) for pid in children)


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# The disk. Lambda keeps it when a process has ended, and gives it to the next one.


def _own_disk() -> Path | None:
    """Return the folder that belongs to this environment alone; elsewhere there is none."""
    # By where the layer is, which no variable can pretend.
    return Path("/tmp") if is_in_lambda() and __file__.startswith("/opt/") else None  # noqa: S108


def lacks_room() -> bool:
    """Return whether what author code has left behind fills the disk of this environment."""
    disk = _own_disk()
    return disk is not None and shutil.disk_usage(disk).free < _MIN_ROOM_BYTES


def empty_disk() -> None:
    """Remove everything from the disk of this environment; nobody must have files there."""
    disk = _own_disk()
    for path in disk.iterdir() if disk is not None else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _below(
    root: int, processes: list[tuple[int, int, int]], but: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield the descendants of a process, with their groups."""
    for pid, parent, group in processes:
        if parent == root and pid not in but:
            yield pid, group
            yield from _below(pid, processes, ())


def _processes() -> list[tuple[int, int, int]]:
    """Return all processes that run: process, parent, group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended in between
            # The name before it, in parentheses, may be anything.
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            found.append((int(path.parent.name), int(fields[1]), int(fields[2])))
    return found
