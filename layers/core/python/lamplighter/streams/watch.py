"""A batch of a watched queue, from reading to answering: sent on first, acknowledged after that.

Owns: what becomes of each message. Every watcher of the queue is done with it, and what they made
of it is on the queue `events`: it is acknowledged. Someone rejected it, or there is nobody: it is
kept among the dead letters with the reason, and acknowledged. Someone failed: it is delivered
again, to everyone; what the others made of it is known by its id. If that goes on for too long, it
is kept among the dead letters as well.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lamplighter import settings
from lamplighter.events.dead_letters import (
    SOURCES_DLQ,
    FailedMessage,
    dead_letter,
    send_expired_to_dlq,
)
from lamplighter.queues import Delivery, from_first_in_lane
from lamplighter.store.watchers import read_parked, read_watchers
from lamplighter.streams.messages import message_of
from lamplighter.streams.report import WatchReport, park, send_to_dlq
from lamplighter.streams.rounds import Arrival, Rounds
from lamplighter.streams.session import run_in_a_loop, works_of
from lamplighter.streams.watchers import watchers_in
from lamplighter.triggers.feeds import SOURCES

log = logging.getLogger(__name__)


def watch_batch(records: Sequence[Mapping[str, Any]], *, seconds: float) -> WatchReport:
    """Let everyone who watches a queue have a batch of it, within some seconds."""
    # Until it is known what became of them, they come again.
    came = [Delivery.of(record) for record in records]
    report = WatchReport(received=len(records), failed={one.message_id for one in came})
    failed = came
    try:
        if records:
            failed = _watch(came, report, seconds=seconds)
    except Exception:  # an error of Lambda's would bring them back at once, and without a pause
        log.exception("a batch of %d messages failed", len(records))
    kept = send_expired_to_dlq(
        [FailedMessage(one, "a watcher failed; see its log") for one in failed], SOURCES_DLQ
    )
    report.dead_lettered = len(kept)
    report.failed -= kept
    return report


def _watch(
    deliveries: Sequence[Delivery], report: WatchReport, *, seconds: float
) -> list[Delivery]:
    """Return the messages that failed, without those that only come after one in its lane."""
    queue = queue_of(deliveries[0].queue_arn)
    # By the place in the batch: SQS may deliver a message twice at once.
    came = {_arrival(delivery): delivery for delivery in deliveries}
    rounds = Rounds(list(came), seconds=seconds)
    watchers = watchers_in(read_watchers(queue))
    works, broken = works_of(watchers, read_parked())
    for work in works:
        # Whatever a trigger says: what is heard on this queue is one stream.
        work.key = ("queue", queue)
    if watchers:
        run_in_a_loop(rounds.run(works))
    else:
        rounds.done.update(came)
        rounds.reasons.update({arrival: [f"no watcher reads queue {queue!r}"] for arrival in came})
    if broken:
        rounds.done.clear()
    lost = send_to_dlq(
        {
            arrival: dead_letter(
                came[arrival].body,
                reason=reason,
                first_id=came[arrival].first_id,
                lane=came[arrival].lane,
                queue_arn=came[arrival].queue_arn,
                texts=came[arrival].texts,
            )
            for arrival, reason in rounds.rejected.items()
        }
    )
    report.rejected = len(rounds.rejected) - len(lost)
    report.sent_events, report.kept_events = rounds.sent, rounds.kept
    report.failed_watchers = len(broken)
    failed = {one.message_id for arrival, one in came.items() if arrival not in rounds.done - lost}
    report.failed = from_first_in_lane(came.values(), failed)
    report.parked_watchers = park(rounds.fired)
    return _first_of_lanes(one for one in deliveries if one.message_id in report.failed)


def _first_of_lanes(deliveries: Iterable[Delivery]) -> list[Delivery]:
    first: list[Delivery] = []
    lanes: set[str] = set()
    for one in deliveries:
        if one.lane is None or one.lane not in lanes:
            first.append(one)
        if one.lane is not None:
            lanes.add(one.lane)
    return first


def _arrival(delivery: Delivery) -> Arrival:
    return Arrival(message_of(delivery), delivery.lane)


def queue_of(arn: str) -> str:
    """Return the name by which watchers know a queue."""
    name = arn.rpartition(":")[2]
    is_ours = name == settings.current().queue_urls.get("sources", "").rpartition("/")[2]
    return SOURCES if is_ours else name
