"""A trigger on events of EventBridge, picked by a pattern as rules of EventBridge have them."""

from collections.abc import Iterable
from typing import Any

from lamplighter.errors import DefinitionError
from lamplighter.loading import class_path
from lamplighter.triggers.feeds import SOURCES, Feed
from lamplighter.triggers.patterns import EventPattern
from lamplighter.triggers.queue import QueueMessage, QueueTrigger

# What of an event is worth keeping; the rest is about its delivery.
_USEFUL = ("id", "source", "detail-type", "time", "account", "region", "resources", "detail")


class EventBridgeTrigger(QueueTrigger):
    """Fires for each event on the deployment's bus that fits the pattern.

    The pattern must list each `source` in full: that is what is wired to the deployment. The
    payload is the event.
    """

    def __init__(self, pattern: dict[str, Any]) -> None:
        super().__init__()
        self._pattern = EventPattern(pattern)
        self._sources = _sources_in(self._pattern.content)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return class_path(type(self)), {"pattern": self._pattern.content}

    @property
    def feed(self) -> Feed:
        return Feed(queue=SOURCES, event_sources=self._sources)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        event = message.content
        if self._pattern.matches(event):
            yield {name: event[name] for name in _USEFUL if name in event}


def _sources_in(pattern: dict[str, Any]) -> tuple[str, ...]:
    sources = pattern.get("source")
    if not isinstance(sources, list) or not all(isinstance(one, str) for one in sources):
        raise DefinitionError(
            "pattern: source: must list who sends the events, in full, as in ['shop.orders']"
        )
    return tuple(dict.fromkeys(sources))
