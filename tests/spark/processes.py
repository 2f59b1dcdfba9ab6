"""Which processes are still there; those that nobody has buried are not."""

import subprocess
import time
from collections.abc import Iterable

from tests.patience import LONG_SECONDS


def running() -> dict[int, int]:
    """Return the group of each process that does anything still."""
    command = ("/bin/ps", "-A", "-o", "pid=,pgid=,stat=")
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in told.splitlines())
    return {int(pid): int(group) for pid, group, state in rows if not state.startswith("Z")}


def is_running(pid: int) -> bool:
    """Return whether a process does anything still."""
    return pid in running()


def members(group: int) -> list[int]:
    """Return the processes of a group."""
    return [pid for pid, its_group in running().items() if its_group == group]


def require_end(pids: Iterable[int], *, seconds: float = LONG_SECONDS) -> None:
    """Return when all the processes are gone."""
    left, until = set(pids), time.monotonic() + seconds
    while left := left & set(running()):
        assert time.monotonic() < until, f"still running: {left}"
        time.sleep(0.05)
