"""What must be wired to a deployment for a trigger to hear anything.

Owns: the facts about a trigger that are written down where it is defined, because they are needed
where an author's code may not run.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

log = logging.getLogger(__name__)

# The queue of every deployment on which S3 and EventBridge tell what happened.
SOURCES = "(sources)"


@dataclass(frozen=True)
class Feed:
    """The sources of a trigger: a queue, else it has to be asked."""

    queue: str | None = None  # by name
    bucket: str | None = None
    event_sources: tuple[str, ...] = ()  # of events on the bus


@dataclass(frozen=True)
class Watched:
    """What a trigger reads, and with whom it shares it."""

    feed: Feed = Feed()
    # The key of the shared stream, as text; None if the trigger reads by itself.
    stream: str | None = None

    @classmethod
    def by(cls, trigger: Any) -> Self:
        """Return the facts of a trigger; one that cannot say its key reads by itself."""
        known: Self | None = getattr(trigger, "watched", None)
        if known is not None:
            return known  # its class may not run here
        try:
            key = trigger.shared_stream_key()
        except Exception:  # whatever an author's method raises
            log.warning("%r has no key and reads by itself", trigger, exc_info=True)
            key = None
        return cls(getattr(trigger, "feed", Feed()), None if key is None else repr(key))

    def to_json(self) -> dict[str, Any]:
        """Return the facts that differ from those of a trigger that reads by itself."""
        known = {**asdict(self.feed), "event_sources": list(self.feed.event_sources)}
        feed = {name: value for name, value in known.items() if value}
        found = {"feed": feed, "stream": self.stream}
        return {name: value for name, value in found.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the facts that were written."""
        feed = dict(data.get("feed", {}))
        feed["event_sources"] = tuple(feed.get("event_sources", ()))
        return cls(Feed(**feed), data.get("stream"))
