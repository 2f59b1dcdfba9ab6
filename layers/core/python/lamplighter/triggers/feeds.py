"""What a deployment must know about a trigger without running its author's code.

Owns: the facts that are serialized with a trigger where it is defined, and the placeholder that
stands for an author's trigger where its bundle may not be imported.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Never, Self

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger

log = logging.getLogger(__name__)

# The deployment's own queue, to which S3 and EventBridge send their events.
SOURCES = "(sources)"


@dataclass(frozen=True)
class Feed:
    """What must be wired to a deployment for a trigger; without a queue, its source is polled."""

    queue: str | None = None  # by name
    bucket: str | None = None
    event_sources: tuple[str, ...] = ()  # of events on the bus


@dataclass(frozen=True)
class StreamInfo:
    """What a trigger reads, and with whom it shares it."""

    feed: Feed = Feed()
    # The shared stream key as text; None if the trigger does not share its source.
    stream: str | None = None

    @classmethod
    def of(cls, trigger: Any) -> Self:
        """Return the facts of a trigger; one whose key raises does not share its source."""
        known: Self | None = getattr(trigger, "stream_info", None)
        if known is not None:
            return known  # its class may not run here
        try:
            key = trigger.shared_stream_key()
        except Exception:  # whatever an author's method raises
            about = {"trigger": repr(trigger)}
            log.warning("trigger has no key; its source is not shared", extra=about, exc_info=True)
            key = None
        return cls(getattr(trigger, "feed", Feed()), None if key is None else repr(key))

    def to_json(self) -> dict[str, Any]:
        """Return the facts that differ from the defaults."""
        known = {**asdict(self.feed), "event_sources": list(self.feed.event_sources)}
        feed = {name: value for name, value in known.items() if value}
        found = {"feed": feed, "stream": self.stream}
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the facts that `to_json` wrote."""
        feed = dict(data.get("feed", {}))
        feed["event_sources"] = tuple(feed.get("event_sources", ()))
        return cls(Feed(**feed), data.get("stream"))


_UNKNOWN = StreamInfo()


class ForeignTrigger(BaseEventTrigger):
    """An author's trigger as data: its class name, its arguments and what it reads."""

    def __init__(
        self, type_name: str, data: dict[str, Any], stream_info: StreamInfo = _UNKNOWN
    ) -> None:
        super().__init__()
        self._type_name = type_name
        self._data = data
        self.stream_info = stream_info

    def __repr__(self) -> str:
        return f"<ForeignTrigger {self._type_name}>"

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._type_name, self._data

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise DefinitionError(
            f"{self._type_name} is an author's trigger: it runs only where its bundle may run"
        )

    run = shared_stream_key = filter_shared_stream = _refuse
