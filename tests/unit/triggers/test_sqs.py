"""Triggers on queues: which messages fire, and with what."""

from typing import Any

import pytest

from lamplighter.errors import DefinitionError
from lamplighter.triggers import SqsTrigger
from lamplighter.triggers.feeds import Feed
from tests.unit.triggers.made_up import message, play

ARN = "arn:aws:sqs:eu-central-1:000000000000:orders.fifo"
URL = "https://sqs.eu-central-1.amazonaws.com/000000000000/orders.fifo"


@pytest.mark.parametrize("queue", ["orders.fifo", URL, ARN])
def test_queue_in_each_spelling_is_wired_by_name(queue: str) -> None:
    """A name, a URL and an ARN mean the same queue; the trigger keeps what was written."""
    trigger = SqsTrigger(queue)
    assert trigger.feed == Feed(queue="orders.fifo")
    assert trigger.shared_stream_key() == SqsTrigger("orders.fifo").shared_stream_key()
    assert trigger.serialize()[1]["queue"] == queue


@pytest.mark.parametrize(
    "queue", ["", "a b", "x" * 81, "orders.csv", "(sources)", URL + "/", None, 5]
)
def test_queue_that_cannot_be_is_refused(queue: Any) -> None:
    """What no queue can be called is told to whoever wrote it."""
    with pytest.raises(DefinitionError, match="SqsTrigger: queue must be a name, a URL or an ARN"):
        SqsTrigger(queue)


def test_match_with_mistake_is_refused_by_its_path() -> None:
    """A wrong pattern is named by the argument and the field."""
    with pytest.raises(DefinitionError, match="match: size: unknown operator 'numerc'"):
        SqsTrigger("orders", match={"size": [{"numerc": [">", 1]}]})


def test_message_without_pattern_fires_with_its_content() -> None:
    """The payload is the JSON of the body, and the text of a body that is none."""
    messages = [message({"n": 1}), message([1, 2]), message(body="plain"), message(body="null")]
    assert play(SqsTrigger("orders"), messages=messages).payloads == [
        [{"n": 1}, [1, 2], "plain", "null"]
    ]


def test_message_that_differs_from_pattern_is_skipped() -> None:
    """Only JSON objects can fit a pattern; the rest is done with, without an event."""
    trigger = SqsTrigger("orders", match={"kind": ["order"]})
    messages = [message({"kind": "order"}), message({"kind": "refund"}), message(body="order")]
    played = play(trigger, messages=messages)
    assert played.payloads == [[{"kind": "order"}]]
    assert [outcome.is_clean for outcome in played.outcomes] == [True, True, True]


def test_siblings_on_one_queue_share_its_messages() -> None:
    """However many read a queue, and however they spell it, it is opened once."""
    orders = SqsTrigger("shop", match={"kind": ["order"]})
    refunds = SqsTrigger(ARN.replace("orders.fifo", "shop"), match={"kind": ["refund"]})
    messages = [message({"kind": kind}) for kind in ("order", "refund", "order")]
    played = play(orders, refunds, messages=messages)
    assert [len(payloads) for payloads in played.payloads] == [2, 1]
    assert played.opened == ["stream"]
    assert {outcome.acked for outcome in played.outcomes} == {2}
