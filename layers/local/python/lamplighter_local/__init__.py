"""The system on one machine: moto for AWS, the real functions, a clock that can be moved.

Never part of a Lambda.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamplighter.views import Dag, Event, Run, Step
    from lamplighter_local.deployment import LocalDeployment

__all__ = ["Dag", "Event", "LocalDeployment", "Run", "Step"]


def __getattr__(name: str) -> Any:
    """Import on first use: pytest loads this package in every project, most often for nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    module = "lamplighter_local.deployment" if name == "LocalDeployment" else "lamplighter.views"
    return getattr(import_module(module), name)
