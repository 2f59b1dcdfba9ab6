"""The functions of a deployment: how large they are, what wakes them, how long they may take.

A function that has a folder below `functions/` gets an entry here and one in `rights`.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FunctionSpec:
    """One function."""

    does: str
    memory_mb: int
    timeout_seconds: int
    # Queues that wake it, and the pause of its timer.
    queues: tuple[str, ...] = ()
    every_minutes: int = 0
    batch_size: int = 10
    # It runs author code, which must not learn more than it needs.
    runs_author_code: bool = False


FUNCTIONS: Mapping[str, FunctionSpec] = {
    "sandbox": FunctionSpec(
        does="runs author code: parses DAG files, asks custom timetables",
        # What it has is shared out among files that are parsed at once.
        memory_mb=2048,
        # Twenty questions of 30 seconds, one after the other, and fifty files.
        timeout_seconds=900,
        runs_author_code=True,
    ),
    "register": FunctionSpec(
        does="writes what a push defines, retires what it left out",
        memory_mb=1024,
        # It waits for the sandbox.
        timeout_seconds=900,
        queues=("registers",),
        batch_size=1,
    ),
    "tick": FunctionSpec(
        does="claims what is due, sends ahead what comes due within minutes",
        memory_mb=1024,
        timeout_seconds=60,
        every_minutes=1,
    ),
    "claim": FunctionSpec(
        does="claims DAGs in the second in which they are due",
        memory_mb=1024,
        timeout_seconds=60,
        queues=("claims",),
    ),
    "ingest": FunctionSpec(
        does="records asset events once, fires who waits for them",
        memory_mb=1024,
        timeout_seconds=60,
        queues=("events", "events.fifo"),
    ),
    "watch": FunctionSpec(
        does="lets watchers make asset events of what sources tell, or are asked",
        memory_mb=1024,
        # Queues of others must hide their messages for at least as long, or Lambda refuses them.
        timeout_seconds=180,
        queues=("sources",),
        every_minutes=1,
        runs_author_code=True,
    ),
    "submit": FunctionSpec(
        does="moves runs on, starts the jobs of steps that are ready",
        memory_mb=1024,
        # Less than `start_grace_seconds`: the longest that a start may be under way.
        timeout_seconds=60,
        queues=("submits",),
    ),
    "settle": FunctionSpec(
        does="asks what became of jobs, retries, skips, finishes, cancels",
        memory_mb=1024,
        timeout_seconds=60,
        queues=("jobstates",),
    ),
    "sweep": FunctionSpec(
        does="finds what a crash or a lost message left behind",
        memory_mb=1024,
        timeout_seconds=240,
        every_minutes=5,
    ),
}
