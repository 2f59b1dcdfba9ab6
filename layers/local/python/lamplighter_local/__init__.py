"""The system on one machine: moto for AWS, the real functions, a clock that can be moved.

Never part of a Lambda.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamplighter_local.deployment import LocalDeployment
    from lamplighter_local.views import Dag, Event, Run, Step

__all__ = ["Dag", "Event", "LocalDeployment", "Run", "Step"]

_MODULES = {"LocalDeployment": "deployment"}


def __getattr__(name: str) -> Any:
    """Import on first use: the emulator takes long, and not everything in here needs it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'views')}"), name)
