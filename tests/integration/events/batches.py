"""Batches as Lambda hands them to `ingest`, and what became of them."""

import json
from collections.abc import Mapping
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import Message, sqs_backends

from lamplighter import Asset, AssetAlias, aws
from lamplighter.events.record import event_id_of
from lamplighter.store.assets import new_rows
from lamplighter.store.models import AssetEvents, Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter_local import deliveries, handlers
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.handlers import LambdaContext

NO_JSON = "no JSON"
Record = dict[str, Any]


def body(asset: str, event_id: str | None = None, **fields: Any) -> str:
    """Return the body of an event as its producer writes it."""
    given = {"asset": asset, "event_id": event_id, **fields}
    return json.dumps({name: value for name, value in given.items() if value is not None})


def message(
    message_id: str,
    text: str,
    *,
    lane: str | None = None,
    receives: int = 1,
    receipt: str = "none",
    attributes: Mapping[str, str] | None = None,
    said: Mapping[str, str] | None = None,
) -> Record:
    """Return a message as it stands in Lambda's envelope; with a lane it is of the FIFO queue."""
    queue = "local-events" if lane is None else "local-events.fifo"
    group = {} if lane is None else {"MessageGroupId": lane, "MessageDeduplicationId": message_id}
    return {
        "messageId": message_id,
        "receiptHandle": receipt,
        "body": text,
        "attributes": {
            "ApproximateReceiveCount": str(receives),
            "SentTimestamp": "1767614400000",
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": "1767614400001",
            **group,
            **(attributes or {}),
        },
        "messageAttributes": {
            name: {
                "stringValue": value,
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": "String",
            }
            for name, value in (said or {}).items()
        },
        "md5OfBody": "0" * 32,
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}",
        "awsRegion": "us-east-1",
    }


def s3_records(*keys: str) -> str:
    """Return a notification of S3 about several objects of the bucket `lake`."""
    return json.dumps(
        {
            "Records": [
                {
                    "eventSource": "aws:s3",
                    "eventName": "ObjectCreated:Put",
                    "eventTime": "2026-01-05T12:00:00.000Z",
                    "s3": {
                        "bucket": {"name": "lake"},
                        "object": {"key": key, "size": 1, "eTag": "e", "sequencer": f"0{at}"},
                    },
                }
                for at, key in enumerate(keys)
            ]
        }
    )


def lines(*texts: str, lane: str | None = None) -> list[Record]:
    """Return messages m0, m1 and so on with these bodies."""
    return [message(f"m{at}", text, lane=lane) for at, text in enumerate(texts)]


def ingest(records: list[Record], *, context: LambdaContext | None = None) -> list[str]:
    """Hand a batch to the handler, and return the messages that it wants to see again."""
    answer = handlers.call("ingest", {"Records": records}, context)
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def received(url: str, *, times: int = 1) -> list[Record]:
    """Receive what is on a queue, the so-many-th time, as records of Lambda's envelope."""
    found: list[dict[str, Any]] = []
    for time in range(1, times + 1):
        answer = aws.client("sqs").receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
            **({} if time == times else {"VisibilityTimeout": 0}),
        )
        found = answer.get("Messages", [])
    return [deliveries._record(url, one) for one in found]


def known(*assets: str | Asset | AssetAlias) -> None:
    """Let assets have their rows, as a push would; nobody waits for them."""
    with Assets.batch_write() as batch:
        for asset in assets:
            leaf = Asset(asset, f"s3://lake/{asset}") if isinstance(asset, str) else asset
            for row in new_rows(leaf):
                batch.save(row)


def asset_row(asset: str) -> Assets:
    """Return the row of an asset as it is now."""
    return Assets.get(asset, ITSELF, consistent_read=True)


def recorded(asset: str) -> list[str]:
    """Return the ids of an asset's events in the order of their numbers, which must be dense."""
    rows = sorted(AssetEvents.query(asset, consistent_read=True), key=lambda row: row.seq)
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1))
    return [event_id_of(row) for row in rows]


def letters(queue: str = "local-events-dlq") -> list[Message]:
    """Return what lies in a dead-letter queue, without receiving it."""
    found: list[Message] = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues[queue]._messages
    return found


def facts(letter: Message) -> dict[str, str]:
    """Return the attributes of a dead letter."""
    return {name: value["StringValue"] for name, value in letter.message_attributes.items()}
