"""Triggers: how an outside source reports that an asset has changed.

The built-in ones are imported when they are used: most DAG files have none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamplighter.triggers.aws import (
        EventBridgeTrigger,
        S3ObjectTrigger,
        S3PrefixTrigger,
        SqsTrigger,
    )

__all__ = ["EventBridgeTrigger", "S3ObjectTrigger", "S3PrefixTrigger", "SqsTrigger"]


def __getattr__(name: str) -> object:
    """Return a built-in trigger."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.aws"), name)
