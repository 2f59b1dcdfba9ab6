"""What came of an event: how many of those who were to see it took it, failed, or refused it."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class AdvanceOutcome:
    """How the members of an event's snapshot ended with it; each is counted once."""

    acked: int
    failed: int
    rejected: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether someone took the event, and nobody failed or refused it."""
        return self.failed == 0 and self.rejected == 0 and self.acked > 0


class AdvanceItem(NamedTuple):
    """An event that is done with: what the producer needs to acknowledge it, and the outcome."""

    broker_payload: Any
    outcome: AdvanceOutcome


# Outcomes cannot be changed, and nearly all events of a stream have the same one.
outcome_of = lru_cache(maxsize=256)(AdvanceOutcome)
