"""Messages of watched queues that fail for more than a day: kept, and sent again one day."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.errors import TransientError
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.store.models import AssetEvents
from lamplighter.streams import watch
from lamplighter_local.deliveries import deliver
from lamplighter_local.stack import LocalStack
from tests.unit.streams.scripted import Scripted


@contextmanager
def out_of_reach() -> Iterator[None]:
    """Let nobody find out who watches a queue."""
    with patch.object(watch, "read_watchers", side_effect=TransientError("no table answers")):
        yield


def send(stack: LocalStack, queue: str, name: str) -> None:
    """Send a message with an attribute to a watched queue; on a FIFO queue all in one group."""
    lane = {"MessageGroupId": "north", "MessageDeduplicationId": name}
    aws.client("sqs").send_message(
        QueueUrl=stack.watched_queue(queue),
        MessageBody=json.dumps({"name": name}),
        MessageAttributes={"tenant": {"DataType": "String", "StringValue": "blue"}},
        **(lane if queue.endswith(".fifo") else {}),
    )


def fail_for(stack: LocalStack, queue: str, hours: int) -> None:
    """Let the function fail once an hour."""
    with out_of_reach():
        for _ in range(hours + 1):
            deliver(stack.watched_queue(queue), "watch", stack.call)
            stack.clock.advance(timedelta(hours=1))


@pytest.mark.parametrize("queue", ["raw", "raw.fifo"])
def test_message_that_fails_for_a_day_is_kept_and_sent_back(stack: LocalStack, queue: str) -> None:
    """It returns to the queue that it came from, with its attributes and in its order."""
    watcher = AssetWatcher("orders", Scripted(queue=queue, script={"else": "1"}))
    dag = DAG("dag", schedule=[Asset("orders", watchers=[watcher])])
    stack.push_dags([dag], bundle="objects")
    for name in ("a", "b", "c"):
        send(stack, queue, name)
    fail_for(stack, queue, hours=24)
    assert dead_letters(limit=10) == []
    fail_for(stack, queue, hours=1)
    found = dead_letters(limit=10)
    assert [json.loads(letter.body)["name"] for letter in found] == ["a", "b", "c"]
    assert {letter.queue_url for letter in found} == {stack.settings.queue_url("sources-dlq")}
    assert {(letter.texts["tenant"], letter.reason[:35]) for letter in found} == {
        ("blue", "it failed for more than 24 hours: a")
    }
    for letter in found:
        replay(letter)
    stack.run_until_idle()
    rows = sorted(AssetEvents.query("orders"), key=lambda row: row.seq)
    assert sorted(row.extra["payload"] for row in rows) == ["a.0", "b.0", "c.0"]
    if queue.endswith(".fifo"):
        assert [row.extra["payload"] for row in rows] == ["a.0", "b.0", "c.0"]
