"""Handles a batch of a watched queue: events are sent first, messages acknowledged afterwards.

Owns: the id of a message, so that duplicate notifications fire once, and the outcome of each
message. Finished by all watchers, with their events on `events`: acknowledged. Rejected by one, or
without watchers: moved to the dead-letter queue with the reason. Failed in one: delivered again to
all, and deduplicated by id; after too long, moved to the dead-letter queue.
"""

import hashlib
import json
import logging
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lamplighter import settings
from lamplighter.errors import RejectedError, in_short
from lamplighter.events import fields
from lamplighter.events.dead_letters import SOURCES_DLQ, FailedMessage, send_expired_to_dlq
from lamplighter.events.message import CreatedObject, created_objects, open_eventbridge, open_sns
from lamplighter.queues import Delivery, from_first_in_lane
from lamplighter.store.watchers import read_parked, read_watchers
from lamplighter.streams.delivery_rounds import DeliveryRounds, StreamMessage, WatchReport
from lamplighter.streams.isolation import GRACE_SECONDS, BundleProcesses, Work, isolated_by_bundle
from lamplighter.streams.outside import Outside
from lamplighter.streams.session import run_in_new_loop, subscribe_all
from lamplighter.streams.watchers import Watcher, watchers_in
from lamplighter.triggers.feeds import SOURCES
from lamplighter.triggers.sources import QueueMessage

log = logging.getLogger(__name__)

_MAX_REASONS = 10


def watch_batch(records: Sequence[Mapping[str, Any]], *, seconds: float) -> WatchReport:
    """Run all watchers of a queue on a batch within a time limit."""
    deliveries = [Delivery.of(record) for record in records]
    # Until their outcome is known, all are delivered again.
    failed = deliveries
    report = WatchReport(received=len(records), failed={one.message_id for one in deliveries})
    try:
        if records:
            failed = _watch(deliveries, report, seconds=seconds)
    except Exception:  # if the function failed, they would come back at once, without a delay
        queue = deliveries[0].queue_arn
        log.exception("batch failed", extra={"queue": queue, "messages": len(records)})
    kept = send_expired_to_dlq(
        [FailedMessage(one, "a watcher failed; see its log") for one in failed], SOURCES_DLQ
    )
    report.dead_lettered = len(kept)
    report.failed -= kept
    return report


def _watch(
    deliveries: Sequence[Delivery], report: WatchReport, *, seconds: float
) -> list[Delivery]:
    """Return the failed messages, without those that only follow one in its lane."""
    queue = _queue_name(deliveries[0].queue_arn)
    # Not by id: SQS may deliver a message twice in one batch.
    received = {stream_message(delivery): delivery for delivery in deliveries}
    rounds = DeliveryRounds(list(received), seconds=seconds)
    watchers, parked = watchers_in(read_watchers(queue)), read_parked()
    ours, isolated = isolated_by_bundle(watchers)
    with BundleProcesses(parked, seconds=seconds - GRACE_SECONDS) as processes:
        for bundle, some in isolated.items():
            given = [delivery.to_json() for delivery in deliveries]
            processes.start(bundle, some, {"queue": queue, "deliveries": given})
        if ours:
            report.failed_watchers += run_watchers(rounds, ours, queue, parked)
        else:
            rounds.done.update(received)
    for work in processes.works:
        _join(rounds, list(received), work, report)
    if not watchers:
        rounds.reasons.update({one: [f"no watcher reads queue {queue!r}"] for one in received})
    # Dead letters of rejected messages have no sequence number, unlike those that expired.
    done = rounds.finish(report, lambda one: replace(received[one], sequence=None))
    failed = {delivery.message_id for one, delivery in received.items() if one not in done}
    report.failed = from_first_in_lane(deliveries, failed)
    report.park_busy_watchers(rounds.fired)
    first: dict[int | str, Delivery] = {}
    for one in deliveries:
        if one.message_id in report.failed:
            first.setdefault(id(one) if one.lane is None else one.lane, one)
    return list(first.values())


def run_watchers(
    rounds: DeliveryRounds, watchers: Sequence[Watcher], queue: str, parked: Container[str]
) -> int:
    """Run watchers of a queue on its messages; return how many could not be built."""
    subscriptions, broken = subscribe_all(watchers, parked)
    for subscription in subscriptions:
        # One stream per queue, whatever a trigger returns.
        subscription.key = ("queue", queue)
    run_in_new_loop(rounds.run(subscriptions))
    if broken:
        rounds.done.clear()
    return len(broken)


def deliver_to_bundle(
    watchers: Sequence[Watcher],
    deliveries: Sequence[Mapping[str, Any]],
    queue: str,
    parked: Container[str],
    *,
    seconds: float,
    outside: Outside,
) -> dict[str, Any]:
    """Run watchers of one bundle, in its process; return what became of the messages, as JSON."""
    messages = [stream_message(Delivery.from_json(each)) for each in deliveries]
    rounds = DeliveryRounds(messages, seconds=seconds, outside=outside)
    broken = run_watchers(rounds, watchers, queue, parked)
    return {
        "done": [at for at, one in enumerate(messages) if one in rounds.done],
        "reasons": {
            str(at): rounds.reasons[one] for at, one in enumerate(messages) if one in rounds.reasons
        },
        "failed_watchers": broken,
    }


def _join(
    rounds: DeliveryRounds, messages: Sequence[StreamMessage], work: Work, report: WatchReport
) -> None:
    """Take over what became of messages in a bundle's process: all must be done with each."""
    rounds.sent += work.sent
    rounds.parked += work.parked_events
    rounds.fired.update(work.fired)
    try:
        done = {messages[at] for at in work.answer["done"]}
        reasons = {
            messages[int(at)]: [in_short(str(reason)) for reason in some[:_MAX_REASONS]]
            for at, some in work.answer["reasons"].items()
        }
        report.failed_watchers += work.count(work.answer, "failed_watchers")
    except Exception:  # its process has failed, or what it says is nonsense
        log.exception("watchers of a bundle failed", extra={"bundle": work.bundle})
        work.end_process()
        report.failed_watchers += len(work.watchers)
        done, reasons = set(), {}
    rounds.done &= done
    for message, some in reasons.items():
        rounds.reasons[message] += some


def _queue_name(arn: str) -> str:
    name = arn.rpartition(":")[2]
    is_ours = name == settings.current().queue_urls.get("sources", "").rpartition("/")[2]
    return SOURCES if is_ours else name


# What triggers see of a message.


def stream_message(delivery: Delivery) -> StreamMessage:
    """Return a delivery as triggers see it."""
    return StreamMessage(message_of(delivery), delivery.lane)


def message_of(delivery: Delivery) -> QueueMessage:
    """Return the content of a delivery; a queue may carry anything, so nothing is rejected."""
    message_id = delivery.first_id
    content: Any = None
    objects: tuple[CreatedObject, ...] = ()
    try:
        content, message_id = open_sns(fields.json_object(delivery.body, "body"), message_id)
    except RejectedError:
        with suppress(ValueError, RecursionError):
            content = json.loads(delivery.body)
    else:
        with suppress(RejectedError):  # not a creation, or not from S3
            objects = tuple(created_objects(content) or ())
        with suppress(RejectedError):  # not from EventBridge
            message_id = _id_of(objects) or open_eventbridge(content, message_id)[1]
    return QueueMessage(message_id, delivery.body, content, objects, delivery.texts, delivery.lane)


def _id_of(objects: Sequence[CreatedObject]) -> str | None:
    """Return an id that is the same for all notifications of these objects."""
    ids = [created.event_id for created in objects]
    digest = hashlib.sha256("\n".join(ids).encode()).hexdigest() if len(ids) > 1 else None
    return digest or next(iter(ids), None)
