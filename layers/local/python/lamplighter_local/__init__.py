"""The system on one machine: moto for AWS, the real functions, a clock that can be moved.

Never part of a Lambda.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamplighter_local.deployment import LocalDeployment
    from lamplighter_operations.views import Dag, Event, Run, Step

__all__ = ["Dag", "Event", "LocalDeployment", "Run", "Step"]

_MODULES = {"LocalDeployment": "lamplighter_local.deployment"}


def __getattr__(name: str) -> Any:
    """Import on first use: pytest loads this package in every project, most often for nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES.get(name, "lamplighter_operations.views")), name)
