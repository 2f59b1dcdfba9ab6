"""Dead letters: kept with the reason, listed, released, and sent again under their first id."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import aws, queues
from lamplighter.errors import RefusedError, TransientError
from lamplighter.events import record
from lamplighter.events.dead_letters import (
    FailedMessage,
    dead_letters,
    make_visible,
    reject_events,
    replay,
)
from lamplighter.queues import Delivery
from lamplighter.store.models import AssetEvents
from lamplighter.store.models.assets import REJECTED
from lamplighter.store.transactions import Write
from lamplighter.topology import MAX_RECEIVES, QUEUES, Queue
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import (
    NO_JSON,
    body,
    facts,
    ingest,
    known,
    letters,
    lines,
    message,
    recorded,
)
from tests.tools.faults import Crash, Faults

pytestmark = pytest.mark.usefixtures("stack")

TOO_OFTEN = "delivered too often without success"
UNNAMED = '{"asset": "orders"}'  # its only id is that of its message


def reject(name: str, text: str = "x", reason: str = "because", *event_ids: str) -> FailedMessage:
    """Return a message that is given up."""
    return FailedMessage(Delivery(name, text, name, "", 1, None), reason, event_ids)


def traces() -> dict[str, str]:
    """Return why events were rejected, by their ids."""
    return {row.event_id: row.rejected for row in AssetEvents.query(REJECTED)}


def a_moment_later(stack: LocalStack) -> None:
    """Let the emulator show what was released, which it does after that moment and not at it."""
    stack.clock.move(to=stack.clock.now().add(seconds=1))


@contextmanager
def nothing_recorded() -> Iterator[None]:
    """Let no event be recorded."""

    def refuse(_: Sequence[Write]) -> None:
        raise TransientError("busy on purpose")

    with patch.object(record, "transact", refuse):
        yield


# Keeping them.


def test_thirty_rejects_fit_into_calls_of_the_queue() -> None:
    """No call has more than ten letters or a mebibyte, measured in bytes and not in characters."""
    # 80,000 characters are 240,000 bytes here, of which 200,000 are kept.
    sizes = [80_000 if at % 2 else 10 for at in range(30)]
    rejects = [reject(f"m{at}", "\u20ac" * size) for at, size in enumerate(sizes)]
    calls: list[list[dict[str, Any]]] = []

    def send(queue: str, messages: list[dict[str, Any]]) -> None:
        calls.append(messages)
        queues_send(queue, messages)

    queues_send = queues.send
    with patch.object(queues, "send", send):
        assert reject_events(rejects) == []
    weights = [sum(len(one["MessageBody"].encode()) for one in call) for call in calls]
    assert max(weights) <= (1 << 20) - 100_000
    assert max(len(call) for call in calls) <= 10
    assert [facts(letter)["event_id"] for letter in letters()] == [f"m{at}" for at in range(30)]
    assert ["is_cut" in facts(letter) for letter in letters()] == [size > 10 for size in sizes]
    assert len(traces()) == 30


def test_reject_leaves_a_trace_for_each_event() -> None:
    """Why an event is not among its asset's is found by its id, or by the message's if unknown."""
    assert (
        reject_events([reject("m1", "x", "no asset", "a", "b"), reject("m2", "x", "no JSON")]) == []
    )
    assert traces() == {"a": "no asset", "b": "no asset", "m2": "no JSON"}


def test_same_event_in_two_rejects_is_one_trace() -> None:
    """Two messages with one id are two letters; DynamoDB would refuse the same key twice."""
    assert reject_events([reject("m1", "x", "first", "a"), reject("m2", "x", "second", "a")]) == []
    assert (traces(), len(letters())) == ({"a": "second"}, 2)


def test_reason_is_kept_as_the_queue_can_take_it() -> None:
    """Characters that SQS refuses are replaced, and a long reason is cut."""
    reason = "bad \x00 nul, \x1b[31m colour, \n line, \ud800 half, \uffff none, ü 漢" + "x" * 600
    assert reject_events([reject("m", reason=reason)]) == []
    (letter,) = dead_letters(limit=1)
    assert letter.reason.startswith("bad ? nul, ?[31m colour, ? line, ? half, ? none, ü 漢xxx")
    assert len(letter.reason) == 500


def test_half_a_surrogate_pair_is_kept_and_marked() -> None:
    """A body that cannot be sent as it is does not keep the other rejects from being kept."""
    batch = lines("\ud800", NO_JSON)
    assert ingest(batch) == []
    first, second = letters()
    assert (first.body, "is_cut" in facts(first)) == ("?", True)
    assert (second.body, "is_cut" in facts(second)) == (NO_JSON, False)


def test_rejects_that_could_not_be_kept_are_returned() -> None:
    """One call that fails costs only the letters of that call."""
    rejects = [reject(f"m{at}") for at in range(25)]
    planned = Faults()
    planned.at(2, "throttle", "SendMessageBatch")
    with planned.on(aws.client("sqs")):
        lost = reject_events(rejects)
    assert [one.delivery.message_id for one in lost] == [f"m{at}" for at in range(10, 20)]
    assert len(letters()) == 15


def test_reject_that_was_refused_by_the_queue_is_returned() -> None:
    """An answer that names failed entries is a failure, too."""
    failed = {"Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False}]}
    client = aws.client("sqs")
    with patch.object(client, "send_message_batch", return_value=failed):
        assert reject_events([reject("m")]) == [reject("m")]


def test_no_rejects_call_nobody() -> None:
    """Most batches have none."""
    planned = Faults()
    with planned.on(aws.client("sqs")):
        assert reject_events([]) == []
    assert planned.calls == []


# Looking at them.


def test_letters_are_listed_with_all_that_is_known(stack: LocalStack) -> None:
    """A letter says why and when it was given up, and who it was."""
    ingest([message("m", NO_JSON, lane="north")])
    (letter,) = dead_letters(limit=10)
    assert (letter.body, letter.first_id, letter.lane) == (NO_JSON, "m", "north")
    assert letter.reason.startswith("body must be JSON")
    assert (letter.rejected_at, letter.is_cut) == ("2026-01-05T12:00:05+00:00", False)
    assert letter.queue_url == stack.settings.queue_url("events-dlq")


def test_listed_letters_are_hidden_until_released(stack: LocalStack) -> None:
    """Who lists letters has them alone, and gives them back."""
    reject_events([reject(f"m{at}") for at in range(25)])
    mine = dead_letters(limit=100)
    assert (len(mine), dead_letters(limit=100)) == (25, [])
    make_visible(mine)
    a_moment_later(stack)
    assert {letter.first_id for letter in dead_letters(limit=100)} == {f"m{at}" for at in range(25)}


def test_letters_come_back_by_themselves(stack: LocalStack) -> None:
    """If nobody releases them they are hidden for a short time only."""
    reject_events([reject("m")])
    dead_letters(limit=1)
    stack.clock.move(to=stack.clock.now().add(seconds=31))
    assert len(dead_letters(limit=1)) == 1


@pytest.mark.parametrize("limit", [1, 7, 10, 13])
def test_no_more_letters_are_listed_than_asked_for(limit: int) -> None:
    """The others stay visible for whoever asks next."""
    reject_events([reject(f"m{at}") for at in range(20)])
    assert len(dead_letters(limit=limit)) == limit
    assert len(dead_letters(limit=100)) == 20 - limit


def test_listing_ends_when_it_is_slower_than_the_queue() -> None:
    """Letters that can be seen again before all are read do not keep the listing going."""
    again = {"MessageId": "m", "Body": "x", "ReceiptHandle": "handle"}
    client = aws.client("sqs")
    with patch.object(client, "receive_message", return_value={"Messages": [again]}) as receive:
        (letter,) = dead_letters(limit=100)
    assert (letter.message_id, receive.call_count) == ("m", len(QUEUES) + 1)


# Sending them again.


def test_replay_after_the_asset_came_records_once(stack: LocalStack) -> None:
    """A reject that has become possible is recorded under the id of its first message."""
    ingest([message("first", UNNAMED)])
    (letter,) = dead_letters(limit=10)
    known("orders")
    replay(letter)
    stack.run_until_idle()
    assert (recorded("orders"), letters()) == (["first"], [])


def test_replay_twice_records_once(stack: LocalStack) -> None:
    """Whoever dies between sending and removing sends again, and nothing is doubled."""
    ingest([message("first", UNNAMED)])
    (letter,) = dead_letters(limit=10)
    known("orders")
    planned = Faults()
    planned.at(1, "crash-before", "DeleteMessage")
    with planned.on(aws.client("sqs")), pytest.raises(Crash):
        replay(letter)
    assert len(letters()) == 1
    stack.run_until_idle()
    stack.clock.move(to=stack.clock.now().add(seconds=31))
    (letter,) = dead_letters(limit=10)
    replay(letter)
    replay(letter)
    stack.run_until_idle()
    assert (recorded("orders"), letters()) == (["first"], [])


def test_replay_of_what_was_recorded_before_changes_nothing(stack: LocalStack) -> None:
    """A message that was recorded and then given up all the same is no second event."""
    known("orders")
    assert ingest([message("first", UNNAMED)]) == []
    reject_events([reject("first", UNNAMED)])
    (letter,) = dead_letters(limit=10)
    replay(letter)
    stack.run_until_idle()
    assert recorded("orders") == ["first"]


def test_replay_of_what_is_still_wrong_comes_back_with_its_id(stack: LocalStack) -> None:
    """A letter may die many times; it remains the same event."""
    ingest([message("first", UNNAMED)])
    for _ in range(3):
        (letter,) = dead_letters(limit=10)
        assert letter.first_id == "first"
        replay(letter)
        stack.run_until_idle()
    assert (len(letters()), list(traces())) == (1, ["first"])


def test_replay_of_a_lane_goes_through_its_lane(stack: LocalStack) -> None:
    """What came in a lane goes back there, also a second time within minutes."""
    ingest([message("first", UNNAMED, lane="north")])
    for _ in range(2):
        (letter,) = dead_letters(limit=10)
        replay(letter)
        (sent,) = letters("local-events.fifo")
        assert sent.group_id == "north"
        assert facts(sent) == {"event_id": "first"}
        stack.run_until_idle()
    known("orders")
    (letter,) = dead_letters(limit=10)
    replay(letter)
    stack.run_until_idle()
    assert recorded("orders") == ["first"]


def test_replay_of_a_cut_letter_is_refused(stack: LocalStack) -> None:
    """Half an event is none; the letter stays where it is."""
    ingest([message("m", '{"asset": "orders"}' + " " * 300_000)])
    (letter,) = dead_letters(limit=1)
    assert letter.is_cut
    with pytest.raises(RefusedError, match="too long to be kept whole: send the event again"):
        replay(letter)
    make_visible([letter])
    a_moment_later(stack)
    assert len(dead_letters(limit=1)) == 1


# Letters that SQS itself has moved there.


def send(url: str, text: str, **more: Any) -> str:
    """Send a message as a producer does that knows only SQS; return its id."""
    answer = aws.client("sqs").send_message(QueueUrl=url, MessageBody=text, **more)
    return str(answer["MessageId"])


@pytest.mark.parametrize("lane", [None, "north"])
def test_message_that_never_succeeds_is_listed_and_replayed(
    stack: LocalStack, lane: str | None
) -> None:
    """After very many deliveries SQS gives up; the letter says so and keeps its id and lane."""
    known("orders")
    made = stack.settings
    url, dead = made.queue_url("events"), made.queue_url("events-dlq")
    group = {}
    if lane:
        url, dead = made.queue_url("events.fifo"), made.queue_url("events-dlq.fifo")
        group = {"MessageGroupId": lane, "MessageDeduplicationId": "once"}
    sent = send(url, UNNAMED, **group)
    for _ in range(MAX_RECEIVES + 1):
        # A function that dies each time gets to decide nothing.
        aws.client("sqs").receive_message(QueueUrl=url, VisibilityTimeout=1)
        stack.clock.move(to=stack.clock.now().add(seconds=2))
    (lying,) = letters(dead.rpartition("/")[2])
    assert lying.approximate_receive_count == MAX_RECEIVES

    (letter,) = dead_letters(limit=10)
    assert (letter.reason, letter.queue_url) == (TOO_OFTEN, dead)
    assert (letter.first_id, letter.lane) == (sent, lane)
    assert (letter.rejected_at, letter.is_cut) == (None, False)
    replay(letter)
    if lane:
        (again,) = letters("local-events.fifo")
        assert again.group_id == lane
    stack.run_until_idle()
    assert recorded("orders") == [sent]
    assert letters(dead.rpartition("/")[2]) == []


def test_attributes_of_a_producer_are_not_taken_for_ours(stack: LocalStack) -> None:
    """A producer may send any attributes, also binary ones; only our copies are believed."""
    text = {name: {"DataType": "String", "StringValue": "his"} for name in ("reason", "lane")}
    other = {"is_cut": {"DataType": "Binary", "BinaryValue": b"\x00"}}
    send(stack.settings.queue_url("events-dlq"), UNNAMED, MessageAttributes=text | other)
    (letter,) = dead_letters(limit=1)
    assert (letter.reason, letter.lane, letter.is_cut) == (TOO_OFTEN, None, False)


def test_group_of_a_standard_queue_is_no_lane(stack: LocalStack) -> None:
    """A message of a fair queue has a group, and is replayed to the queue without lanes."""
    send(stack.settings.queue_url("events-dlq"), UNNAMED)
    (lying,) = letters()
    lying.group_id = "tenant"
    (letter,) = dead_letters(limit=1)
    assert letter.lane is None
    replay(letter)
    assert len(letters("local-events")) == 1


def test_attribute_that_is_no_id_is_not_replayed(stack: LocalStack) -> None:
    """The id of a letter is its own if the attribute of that name cannot be one."""
    attribute = {"event_id": {"DataType": "String", "StringValue": "x" * 300}}
    sent = send(stack.settings.queue_url("events-dlq"), UNNAMED, MessageAttributes=attribute)
    (letter,) = dead_letters(limit=1)
    assert letter.first_id == sent


def test_both_queues_are_listed(stack: LocalStack) -> None:
    """Rejects and what SQS gave up are listed together, from the queue with lanes too."""
    made = stack.settings
    reject_events([reject("rejected")])
    group = {"MessageGroupId": "listed", "MessageDeduplicationId": "listed"}
    send(made.queue_url("events-dlq.fifo"), body("orders"), **group)
    found = dead_letters(limit=10)
    assert [letter.reason for letter in found] == ["because", TOO_OFTEN]
    assert [letter.lane for letter in found] == [None, "listed"]


@pytest.mark.parametrize("queue", QUEUES.values(), ids=list(QUEUES))
def test_letter_of_any_queue_is_listed_and_sent_back(stack: LocalStack, queue: Queue) -> None:
    """Whatever SQS has moved among the dead letters returns to the queue that it came from."""
    group = {"MessageGroupId": "north", "MessageDeduplicationId": "once"} if queue.is_fifo else {}
    send(stack.settings.queue_url(queue.dlq), "text", **group)
    (letter,) = dead_letters(limit=10)
    assert letter.queue_url == stack.settings.queue_url(queue.dlq)
    replay(letter)
    (again,) = letters(stack.settings.queue_url(queue.name).rpartition("/")[2])
    assert (again.body, letters(letter.queue)) == ("text", [])
