"""The CDK code that provisions a deployment: a construct for any app, and a whole stack.

Lamplighter(self, "Lamp", stage="prod", vpc=vpc, data_buckets=[lake], notify=topic)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lamplighter_infra.construct import Lamplighter
    from lamplighter_infra.stack import LamplighterStack

__all__ = ["Lamplighter", "LamplighterStack"]

_MODULES = {
    "Lamplighter": "lamplighter_infra.construct",
    "LamplighterStack": "lamplighter_infra.stack",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the CDK takes seconds and a Node, and layers are built without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
