"""What came of watching, and what is done at its end, wherever it was heard."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lamplighter import queues, settings
from lamplighter.store.watchers import count_fired

log = logging.getLogger(__name__)

K = TypeVar("K")

# A call to SQS takes 1 MiB in all, and a letter has at most 200 KB.
_LETTERS_PER_CALL = 4


@dataclass
class WatchReport:
    """What became of what was heard, in numbers; `failed` are messages to be delivered again."""

    received: int = 0
    sent_events: int = 0
    kept_events: int = 0
    rejected: int = 0
    dead_lettered: int = 0
    failed: set[str] = field(default_factory=set)
    failed_watchers: int = 0
    parked_watchers: int = 0


def send_to_dlq(letters: Mapping[K, dict[str, Any]]) -> set[K]:
    """Keep what was rejected; return what could not be kept."""
    lost: set[K] = set()
    for some in queues.chunks(letters, _LETTERS_PER_CALL):
        try:
            queues.send("sources-dlq", [letters[key] for key in some])
        except Exception:  # whatever it is, these come again, and no others
            log.exception("%d rejected messages could not be kept, and come again", len(some))
            lost.update(some)
    return lost


def park(fired: Mapping[str, int]) -> int:
    """Count what watchers have fired; return how many of them are parked for it."""
    limit = settings.current().watcher_events_per_minute
    parked = count_fired({name: times for name, times in fired.items() if times}, limit=limit)
    for watcher in parked:
        log.error("watcher %s is parked: it fires more than %d times a minute", watcher, limit)
    return len(parked)
