"""How large the functions of a deployment are, and how long they may take.

What invokes them is in `lamplighter.topology`, what they may do in `rights`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lamplighter.topology import FUNCTIONS


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Lambda gives to one function."""

    memory_mb: int = 1024
    timeout_seconds: int = 60
    batch_size: int = 10


_LIMITS: Mapping[str, Limits] = {
    "sandbox": Limits(
        # What it has is shared out among files that are parsed at once.
        memory_mb=2048,
        # Twenty questions of 30 seconds, one after the other, and fifty files.
        timeout_seconds=900,
    ),
    # It waits for the sandbox.
    "register": Limits(timeout_seconds=900, batch_size=1),
    # Queues of others must hide their messages for at least as long, or Lambda refuses them.
    "watch": Limits(timeout_seconds=180),
    # Less than `start_grace_seconds`: the longest that a start may be under way.
    "submit": Limits(timeout_seconds=60),
    "sweep": Limits(timeout_seconds=240),
}

LIMITS: Mapping[str, Limits] = {name: _LIMITS.get(name, Limits()) for name in FUNCTIONS}
