"""Triggers: how an outside source tells that an asset has changed.

The built-in ones are imported when they are asked for: most DAG files have none, and one of them
needs half the web.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamplighter.triggers.directory import DirectoryTrigger
    from lamplighter.triggers.eventbridge import EventBridgeTrigger
    from lamplighter.triggers.http import HttpPollTrigger
    from lamplighter.triggers.s3 import S3ObjectTrigger, S3PrefixTrigger
    from lamplighter.triggers.sqs import SqsTrigger

__all__ = [
    "DirectoryTrigger",
    "EventBridgeTrigger",
    "HttpPollTrigger",
    "S3ObjectTrigger",
    "S3PrefixTrigger",
    "SqsTrigger",
]

_HOMES = {
    "DirectoryTrigger": "directory",
    "EventBridgeTrigger": "eventbridge",
    "HttpPollTrigger": "http",
    "S3ObjectTrigger": "s3",
    "S3PrefixTrigger": "s3",
    "SqsTrigger": "sqs",
}


def __getattr__(name: str) -> object:
    """Return a built-in trigger."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
