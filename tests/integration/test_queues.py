"""Messages: what is in them, when they arrive, and which are left to the tick."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import aws, queues
from lamplighter.errors import TransientError
from lamplighter_local.deliveries import next_delivery
from lamplighter_local.stack import LocalStack, local_stack

NOW = datetime(2026, 1, 1, 12, 0, 0, 400_000)


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Return an empty deployment."""
    with local_stack(at=NOW) as made:
        yield made


def waiting(url: str) -> list[dict[str, Any]]:
    """Return the bodies of all messages that can be received now."""
    bodies: list[dict[str, Any]] = []
    while True:
        found = aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        if not found.get("Messages"):
            return bodies
        bodies += [json.loads(message["Body"]) for message in found["Messages"]]


def arrives_at(stack: LocalStack, due: DateTime) -> DateTime:
    """Return the first whole second after now at which a claim for `due` can be received."""
    queues.send_claims([("dag", due)])
    for _ in range(1_000):
        if waiting(stack.settings.queue_url("claims")):
            return stack.clock.now()
        stack.clock.move(to=stack.clock.now().add(seconds=1))
    raise AssertionError("the message never came")


@pytest.mark.parametrize(
    ("due", "arrival"),
    [
        (NOW.subtract(hours=1), NOW),
        (NOW, NOW),
        (NOW.add(microseconds=1), NOW.add(seconds=1)),
        (NOW.add(seconds=59, microseconds=600_000), NOW.add(seconds=60)),
        (NOW.add(seconds=300), NOW.add(seconds=300)),
    ],
)
def test_claim_message_arrives_in_the_second_of_its_due_time(
    stack: LocalStack, due: DateTime, arrival: DateTime
) -> None:
    """A message comes at its due time or less than a second after it, and never before."""
    assert arrives_at(stack, due) == arrival


def test_dags_of_one_second_share_messages(stack: LocalStack) -> None:
    """A hundred and twenty DAGs of one second go out as three messages."""
    sent = queues.send_claims((f"dag_{number}", NOW) for number in range(120))

    bodies = waiting(stack.settings.queue_url("claims"))
    assert sent == 3
    assert sum(len(body["dag_ids"]) for body in bodies) == 120


def test_announcement_of_a_distant_run_is_left_to_the_tick(stack: LocalStack) -> None:
    """What comes due after the look-ahead is not announced; the tick will find it."""
    assert (
        queues.announce_due([("soon", NOW.add(seconds=360)), ("late", NOW.add(seconds=361))]) == 1
    )


def test_submits_go_out_in_messages_of_ten(stack: LocalStack) -> None:
    """Runs are handed on ten to a message."""
    queues.send_submits(("dag", f"run_{number}") for number in range(25))

    bodies = waiting(stack.settings.queue_url("submits"))
    assert sorted(len(body["runs"]) for body in bodies) == [5, 10, 10]
    assert ["dag", "run_24"] in [run for body in bodies for run in body["runs"]]


def test_message_that_sqs_does_not_take_is_an_error(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that is taken in part raises, so that whoever sent it is called again."""

    class Client:
        def send_message_batch(self, **_: object) -> dict[str, Any]:
            return {"Failed": [{"Id": "0", "Code": "InternalError"}]}

    monkeypatch.setattr(aws, "client", lambda _: Client())
    with pytest.raises(TransientError, match="1 of 1 messages"):
        queues.send_refill(["dag"])


@pytest.mark.parametrize(
    ("receives", "seconds"),
    [(0, 5), (1, 10), (2, 20), (5, 160), (7, 640), (8, 900), (10**9, 900)],
)
def test_failed_message_waits_longer_each_time(
    stack: LocalStack, receives: int, seconds: int
) -> None:
    """The more often a message failed the later it comes again, but never too late."""
    url = stack.settings.queue_url("claims")
    queues.send_claims([("dag", NOW)])
    (message,) = aws.client("sqs").receive_message(QueueUrl=url)["Messages"]
    queues.delay_redelivery("claims", [(message["ReceiptHandle"], receives)])

    shown_at = next_delivery(url)
    assert shown_at is not None
    assert round((shown_at - stack.clock.now()).total_seconds()) == seconds


def test_pause_that_sqs_refuses_is_no_error(stack: LocalStack) -> None:
    """A message whose pause is not taken comes again by itself; the others have their pauses."""
    url = stack.settings.queue_url("claims")
    queues.send_claims([("dag", NOW)])
    (message,) = aws.client("sqs").receive_message(QueueUrl=url)["Messages"]
    others = [(f"unknown-{number}", 1) for number in range(10)]
    queues.delay_redelivery("claims", [*others, (message["ReceiptHandle"], 1)])

    shown_at = next_delivery(url)
    assert shown_at is not None
    assert round((shown_at - stack.clock.now()).total_seconds()) == 10


def test_pause_of_a_message_that_is_too_old_for_one_is_no_error(stack: LocalStack) -> None:
    """Where a queue refuses the whole call, what is in the next call has its turn."""
    url = stack.settings.queue_url("claims")
    queues.send_claims([("old", NOW)])
    stack.clock.move(to=NOW.add(hours=13))
    queues.send_claims([("new", stack.clock.now())])
    answer = aws.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    old, new = (message["ReceiptHandle"] for message in answer["Messages"])
    queues.delay_redelivery("claims", [*[(old, 1)] * 10, (new, 1)])

    shown_at = next_delivery(url)
    assert shown_at is not None
    assert round((shown_at - stack.clock.now()).total_seconds()) == 10
