"""The system on one machine: moto for AWS, the real functions, a clock that can be moved.

Never part of a Lambda.
"""

from typing import TYPE_CHECKING, Any

from lamplighter.views import Dag, Event, Run, Step

if TYPE_CHECKING:
    from lamplighter_local.deployment import LocalDeployment

__all__ = ["Dag", "Event", "LocalDeployment", "Run", "Step"]


def __getattr__(name: str) -> Any:
    """Import on first use: the emulator takes long, and not everything in here needs it."""
    if name != "LocalDeployment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lamplighter_local.deployment import LocalDeployment  # noqa: PLC0415 - see above

    return LocalDeployment
