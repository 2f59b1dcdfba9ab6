"""A queue of SQS, received and deleted by a producer of our own.

`SqsTrigger` needs none of this: Lambda receives for it. This is for a queue that Lambda does not
receive (it needs a role: `watcher_roles`), and a pattern for every broker that redelivers what is
not deleted.

A message is deleted when all watchers have taken or refused it. Any other message appears again
when its visibility timeout is over, which is longer than a session and shorter than a minute. Give
the queue a redrive policy, so that a message at which a watcher always fails does not come for
ever.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import boto3

from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import (
    AdvanceItem,
    SharedStreamProducer,
    reject_shared_stream_event,
)

log = logging.getLogger(__name__)

PAUSE_SECONDS = 1.0
VISIBILITY_SECONDS = 45
AT_ONCE = 10  # the most that SQS allows


@dataclass(frozen=True)
class Message:
    """A message of the queue."""

    message_id: str  # by which Lamplighter knows it: a second delivery makes no second event
    body: str


class OwnQueueTrigger(BaseEventTrigger):
    """Fires for the messages of one region; triggers on one queue share its messages."""

    def __init__(self, *, queue_url: str, region: str) -> None:
        super().__init__()
        self.queue_url = queue_url
        self.region = region

    def serialize(self) -> tuple[str, dict[str, Any]]:
        arguments = {"queue_url": self.queue_url, "region": self.region}
        return "triggers.own_queue.OwnQueueTrigger", arguments

    def shared_stream_key(self) -> Hashable | None:
        return ("own-queue", self.queue_url)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return OwnQueue(kwargs["queue_url"])

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Message]
    ) -> AsyncIterator[TriggerEvent]:
        async for message in shared_stream:
            try:
                parcel = json.loads(message.body)
            except ValueError:
                parcel = None
            if not isinstance(parcel, dict):
                reject_shared_stream_event("a parcel must be a JSON object")
            elif parcel.get("region") == self.region:
                yield TriggerEvent(parcel)


class OwnQueue(SharedStreamProducer):
    """One consumer of the queue, for everyone who watches it."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Made when the stream is opened: whoever only builds a trigger needs no connection.
        self._sqs: Any = None

    async def open_stream(self) -> AsyncIterator[tuple[Message, str]]:
        self._sqs = await asyncio.to_thread(boto3.client, "sqs")
        while True:
            messages = await asyncio.to_thread(self._receive)
            for message in messages:
                yield Message(message["MessageId"], message["Body"]), message["ReceiptHandle"]
            if not messages:
                await asyncio.sleep(PAUSE_SECONDS)

    def get_advance_lane(self, broker_payload: str) -> Hashable:
        # Messages are deleted one by one: none has to wait for another.
        return broker_payload

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for receipt, outcome in batch:
            if outcome.failed or not (outcome.acked or outcome.rejected):
                continue  # it comes again
            if outcome.rejected:
                log.warning("a message of %s is refused and deleted", self._url)
            await asyncio.to_thread(self._delete, receipt)

    def _receive(self) -> list[dict[str, str]]:
        answer = self._sqs.receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=AT_ONCE,
            VisibilityTimeout=VISIBILITY_SECONDS,
        )
        messages: list[dict[str, str]] = answer.get("Messages", [])
        return messages

    def _delete(self, receipt: str) -> None:
        self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)
