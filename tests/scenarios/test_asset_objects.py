"""Objects of S3 as events: which asset an object belongs to, whoever tells of it."""

import json
from itertools import count
from typing import Any

import pytest

from lamplighter import Asset, aws
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.store.models import AssetEvents
from lamplighter_local.stack import LocalStack
from tests.scenarios.acts import consumer, reasons, register, woken
from tests.tools.invariants.tables import require_sound

_numbers = count(1)


def send_body(stack: LocalStack, body: Any, **lane: str) -> None:
    """Put a message on the queue as some service would, and let it be taken."""
    urls = stack.settings.queue_url("events"), stack.settings.queue_url("events.fifo")
    aws.client("sqs").send_message(QueueUrl=urls[bool(lane)], MessageBody=json.dumps(body), **lane)
    stack.run_until_idle()


def of_s3(bucket: str, *keys: str) -> dict[str, Any]:
    """Return S3's own notification that objects were created."""
    return {
        "Records": [
            {
                "eventSource": "aws:s3",
                "eventName": "ObjectCreated:Put",
                "eventTime": "2026-01-05T12:00:00Z",
                "s3": {
                    "bucket": {"name": bucket},
                    "object": {"key": key, "sequencer": f"{next(_numbers):04}"},
                },
            }
            for key in keys
        ]
    }


def on_eventbridge(bucket: str, key: str) -> dict[str, Any]:
    """Return what S3 puts on EventBridge when an object was created."""
    return {
        "id": f"envelope-{next(_numbers)}",
        "source": "aws.s3",
        "detail-type": "Object Created",
        "time": "2026-01-05T12:00:00Z",
        "detail": {"bucket": {"name": bucket}, "object": {"key": key, "sequencer": "0A"}},
    }


def on_sns(message: object) -> dict[str, Any]:
    """Return what SNS sends to a queue."""
    return {
        "Type": "Notification",
        "MessageId": f"sns-{next(_numbers)}",
        "Message": json.dumps(message),
    }


LAKE = [
    Asset("root", uri="s3://lake"),
    Asset("orders", uri="s3://lake/orders/"),
    Asset("daily", uri="s3://lake/orders/daily"),
    Asset("file", uri="s3://lake/orders/latest.csv"),
    Asset("elsewhere", uri="s3://archive/orders"),
]


@pytest.mark.parametrize(
    ("bucket", "key", "expected"),
    [
        pytest.param("lake", "orders/part-1.parquet", "orders", id="below-a-prefix"),
        pytest.param("lake", "orders/daily/2026/part-1", "daily", id="longest-prefix"),
        pytest.param("lake", "orders/daily_old/part-1", "orders", id="prefix-ends-at-a-slash"),
        pytest.param("lake", "orders_old/part-1", "root", id="not-the-neighbour"),
        pytest.param("lake", "orders/latest.csv", "file", id="exact-object"),
        pytest.param("lake", "orders/latest.csv.bak", "orders", id="not-the-exact-object"),
        pytest.param("lake", "orders/", "orders", id="marker-of-the-folder"),
        pytest.param("lake", "orders//part-1", "orders", id="double-slash"),
        pytest.param("lake", "orders/day%3D1/part+1", "orders", id="encoded-key"),
        pytest.param("lake", "readme", "root", id="bucket-root"),
        pytest.param("archive", "orders/part-1", "elsewhere", id="other-bucket"),
        pytest.param("archive", "invoices/part-1", None, id="below-none"),
        pytest.param("nowhere", "orders/part-1", None, id="unknown-bucket"),
    ],
)
def test_object_belongs_to_the_longest_prefix(
    stack: LocalStack, bucket: str, key: str, expected: str | None
) -> None:
    """One asset at most is woken: the one whose URI is nearest above the object."""
    register(stack, *map(consumer, LAKE))
    send_body(stack, of_s3(bucket, key))
    names = [asset.name for asset in LAKE]
    assert woken(stack, *names) == ([expected] if expected else [])
    assert len(reasons(stack)) == (expected is None)
    require_sound()


@pytest.mark.parametrize("wrap", [lambda body: body, on_sns], ids=["direct", "sns"])
@pytest.mark.parametrize("tell", [of_s3, on_eventbridge])
def test_object_wakes_its_consumer_whoever_tells(stack: LocalStack, tell: Any, wrap: Any) -> None:
    """S3 itself, EventBridge, and each of them through SNS."""
    register(stack, consumer(LAKE[1]))
    send_body(stack, wrap(tell("lake", "orders/part-1")))
    assert woken(stack, "orders") == ["orders"]
    (event,) = AssetEvents.query("orders")
    assert (event.source, event.extra["key"]) == ("s3", "orders/part-1")
    require_sound()


def test_plain_event_on_eventbridge_through_sns_is_taken(stack: LocalStack) -> None:
    """An event of one's own may travel in envelopes, and is known by the inner one's id."""
    register(stack, consumer(LAKE[1]))
    inner = {"id": "e-7", "detail-type": "Sold", "detail": {"asset": "orders", "extra": {"n": 1}}}
    for _ in range(2):
        send_body(stack, on_sns(inner))
    (event,) = AssetEvents.query("orders")
    assert (event.event_id, event.extra) == ("e-7", {"n": 1})
    assert len(stack.runs("orders")) == 1
    require_sound()


def test_objects_of_two_assets_in_one_message_wake_both(stack: LocalStack) -> None:
    """A notification with several records is several events."""
    register(stack, *map(consumer, LAKE))
    send_body(stack, of_s3("lake", "orders/1", "orders/2", "orders/daily/1"))
    assert woken(stack, "orders", "daily", "root") == ["orders", "daily"]
    assert stack.runs("orders")[0].events == {"orders": [0, 2]}
    require_sound()


@pytest.mark.parametrize("lane", [{}, {"MessageGroupId": "g", "MessageDeduplicationId": "once"}])
def test_message_may_tell_of_more_objects_than_fit_a_transaction(
    stack: LocalStack, lane: dict[str, str]
) -> None:
    """All of them are recorded, and one run takes them."""
    register(stack, consumer(LAKE[1]))
    send_body(stack, of_s3("lake", *(f"orders/{at}" for at in range(120))), **lane)
    assert [run.events for run in stack.runs("orders")] == [{"orders": [0, 120]}]
    require_sound()


def test_object_of_no_asset_does_not_hold_up_the_others_in_its_message(stack: LocalStack) -> None:
    """What can be recorded is; sent again, the message adds only what was missing."""
    register(stack, consumer(LAKE[4]))
    send_body(stack, of_s3("archive", "orders/1", "invoices/1"))
    assert len(stack.runs("elsewhere")) == 1
    assert len(reasons(stack)) == 1
    register(stack, consumer(Asset("invoices", uri="s3://archive/invoices")), bundle="more")
    (letter,) = dead_letters(limit=10)
    replay(letter)
    stack.run_until_idle()
    assert len(stack.runs("elsewhere")) == len(stack.runs("invoices")) == 1
    require_sound()


# Where URIs lead.


def test_object_at_a_uri_that_was_given_up_belongs_to_what_lies_above(stack: LocalStack) -> None:
    """Nobody has the URI any more, so it is no prefix; the bucket's asset owns the object."""
    register(stack, consumer(Asset("orders", uri="s3://lake/orders")), consumer(LAKE[0]))
    register(stack, consumer(Asset("orders", uri="s3://lake/v2/orders")), consumer(LAKE[0]))
    send_body(stack, of_s3("lake", "orders/1"))
    assert woken(stack, "root", "orders") == ["root"]
    require_sound()


@pytest.mark.parametrize("is_one_push", [True, False])
def test_asset_named_without_its_uri_keeps_it(stack: LocalStack, is_one_push: bool) -> None:
    """Another DAG says `Asset("orders")` only; objects below the URI still wake both."""
    full, short = consumer(LAKE[1], "full"), consumer(Asset("orders"), "short")
    if is_one_push:
        register(stack, full, short)
    else:
        register(stack, full, bundle="full")
        register(stack, short, bundle="short")
    send_body(stack, of_s3("lake", "orders/1"))
    assert woken(stack, "full", "short") == ["full", "short"]
    require_sound()
