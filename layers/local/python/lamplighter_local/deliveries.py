"""Delivers queues to handlers as Lambda's pollers do: batches, partial answers, redelivery."""

from collections.abc import Callable
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from pendulum import DateTime, from_timestamp

from lamplighter import aws, clock
from lamplighter_local import handlers
from lamplighter_local.emulator.moto_memory import REGION, queue_at

Call = Callable[[str, dict[str, Any]], Any]

_BATCH = 10


def deliver(url: str, function: str, call: Call = handlers.call) -> int:
    """Hand every message that can be received now to a function; return how many there were."""
    sqs = aws.client("sqs")
    delivered = 0
    while True:
        at = next_delivery(url)
        if at is None or at > clock.now():
            return delivered
        _free_lanes(url)
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=_BATCH,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            return delivered
        delivered += len(messages)
        _hand_over(url, function, messages, call)


def _hand_over(
    url: str, function: str, messages: list[dict[str, Any]], call: Call = handlers.call
) -> None:
    """Call a function with messages and delete those that it has dealt with."""
    answer = call(function, {"Records": [_record(url, message) for message in messages]})
    if answer is None:
        return  # it has died
    failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
    for message in messages:
        if message["MessageId"] not in failed:
            aws.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def _record(url: str, message: dict[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {
            name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{DEFAULT_ACCOUNT_ID}:{url.rpartition('/')[2]}",
        "awsRegion": REGION,
    }


def next_delivery(url: str) -> DateTime | None:
    """Return when the next message of a queue can be received, if there is one."""
    by_lane: dict[object, float] = {}
    for message in queue_at(url)._messages:  # noqa: SLF001 - moto has no other way to see them
        # A millisecond more: these are floats, and must not be a moment too early.
        instant = max(message.visible_at + 1, message.delayed_until)
        lane = message.group_id or message
        # A lane waits for those of its messages that are being dealt with.
        by_lane[lane] = max(by_lane.get(lane, 0), instant)
    return from_timestamp(min(by_lane.values()) / 1000) if by_lane else None


def is_on_its_way(url: str) -> bool:
    """Return whether a queue has a message that was received before, or could be now."""
    now = clock.now().timestamp() * 1000
    return any(
        message.approximate_receive_count or message.delayed_until <= now
        for message in queue_at(url)._messages  # noqa: SLF001 - as above
    )


def _free_lanes(url: str) -> None:
    """Let moto forget that it has handed out messages which can be received again.

    It takes a lane for busy while one of them is known, and then gives the last of it first.
    """
    pending = queue_at(url).pending_messages
    # Copied: someone else may receive from the queue at this moment.
    pending.difference_update([message for message in list(pending) if message.visible])
