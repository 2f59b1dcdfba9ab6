"""Crowds of consumers: more wait for one asset than an ingest claims itself.

Claims then go by messages, and in these storms most of the messages are lost. The processes are
`pusher.py`; what they left is judged as in `test_producers`.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from lamplighter.events.fan_out import MAX_AT_ONCE
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetQueue, Assets
from lamplighter.store.models.assets import ITSELF
from tests.concurrency import storms
from tests.concurrency.producer import ALWAYS, LATE_BUNDLE, WHILE_EVENTS
from tests.concurrency.pusher import EDITED, PLAIN, POPULAR, RARE, dags_of
from tests.concurrency.storms import PROCESSES, Outcome, fewer_faults, rage
from tests.concurrency.test_producers import Sent, event, judge, register

# The process that registers the pushes is one whose claim function is dead to the end.
PUSHING = 1
WEIGHTS = {
    "ingest": 0.3,
    "claim": 1,
    "finish": 6,
    "tick": 0.05,
    "hand_on": 0.1,
    "register": 0.6,
    "sweep": 0.2,
    "meddle": 0.2,
}


@dataclass(frozen=True)
class Crowd:
    """A storm of events for so many consumers, whose bundle is pushed in these versions."""

    consumers: int
    events: int
    versions: tuple[str, ...]
    # How often calls fail, in comparison to smaller storms: an invocation with hundreds of calls
    # must come to its end now and then.
    severity: float

    def version(self, name: str) -> str:
        """Return the full name of a version."""
        return f"{name}-{self.consumers}"

    def rage(self, environment: Mapping[str, str], seed: int) -> tuple[Outcome, list[str]]:
        """Let the storm rage; return what came of it, and what is wrong."""
        before = register(*dags_of(self.version(PLAIN)), bundle=LATE_BUNDLE)
        sent = self._send(random.Random(seed))
        asked = [self._ask(process, seed, sent) for process in range(PROCESSES)]
        # One process registers all pushes, so that one that is late is not left out.
        asked[PUSHING]["pushes"] = [
            (self.version(name), next_push_number(LATE_BUNDLE)) for name in self.versions
        ]
        outcome = rage("pusher", environment, *asked)
        print(f"seed {seed}", outcome, sep="\n")  # noqa: T201 - to be seen when it fails
        dags = dags_of(self.version(self.versions[-1]))
        return outcome, judge(dags, sent, outcome, before)

    def _send(self, chance: random.Random) -> Sent:
        sent = Sent()
        for number in range(self.events):
            asset, event_id = (RARE if number % 4 == 3 else POPULAR), f"event-{number}"
            for process in {number % PROCESSES, chance.randrange(PROCESSES)}:
                sent.send(process, event(asset, event_id))
            sent.events[asset.name].add(event_id)
        # After the pushes, and all messages about it are lost: only the open asset tells of it.
        sent.send(PUSHING, event(POPULAR, "last"))
        sent.events[POPULAR.name].add("last")
        return sent

    def _ask(self, process: int, seed: int, sent: Sent) -> dict[str, Any]:
        given = {
            "speed": 20,
            "moves_for": 1000,
            "messages": sent.messages[process],
            "pushes": [],
            "has_ordered_pushes": True,
            # One by one, so that events come while others are being handed on.
            "batches_at_once": 1,
            "batch_size": 1,
            "weights": WEIGHTS,
            "faults": fewer_faults(self.severity),
            "pause_count": 1,
            # With more of them nearly every transaction would meet another.
            "threads": 4,
            "dead_claims": ALWAYS if process % 2 else WHILE_EVENTS,
        }
        ids = [dag.dag_id for dag in dags_of(self.version(PLAIN))]
        return storms.storm_of(seed * PROCESSES + process, ids, **given)


def unconsumed() -> list[str]:
    """Return the consumers that have not had all events of the popular asset."""
    asset = Assets.get(POPULAR.name, ITSELF, consistent_read=True)
    rows = AssetQueue.scan(AssetQueue.asset_id == POPULAR.name, consistent_read=True)
    return [row.dag_id for row in rows if row.consumed_seq != asset.seq]


def test_crowd_whose_claim_function_is_dead_consumes_each_event_once(
    environment: dict[str, str],
) -> None:
    """Events for 60 consumers reach each of them once, though claims are lost and a push edits."""
    crowd = Crowd(consumers=60, events=8, versions=(EDITED, PLAIN), severity=0.1)
    assert crowd.consumers > MAX_AT_ONCE

    outcome, found = crowd.rage(environment, random.randrange(10**6))

    assert not found, "\n".join(found)
    assert not unconsumed()
    assert outcome.counts["reported"]["lost claim messages"] > 0


@pytest.mark.full
def test_crowd_of_five_hundred_consumes_each_event_once(environment: dict[str, str]) -> None:
    """Events for 500 consumers reach each of them once, though claims are lost and a push edits."""
    crowd = Crowd(consumers=500, events=8, versions=(EDITED,), severity=0.04)

    outcome, found = crowd.rage(environment, random.randrange(10**6))

    assert not found, "\n".join(found)
    assert outcome.counts["reported"]["lost claim messages"] > 0
