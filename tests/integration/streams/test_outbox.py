"""The outbox: few calls, in order, and nothing counts as sent before it is."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import aws, runtime
from lamplighter.streams import outbox as outbox_module
from lamplighter.streams.outbox import Outbox, WatcherEvent, send_to_sqs
from lamplighter.streams.session import run_in_new_loop
from lamplighter.triggers.sources import QueueMessage
from lamplighter_local.stack import LocalStack
from tests.unit.streams.scripted import scripted, sending


@dataclass
class Told:
    """What the outbox has told."""

    confirmed: list[int] = field(default_factory=list)
    lost: list[int | None] = field(default_factory=list)

    def outbox(self) -> Outbox:
        """Return an outbox that tells it here."""
        return Outbox(
            send=send_to_sqs,
            confirm=self.confirmed.extend,
            on_lost=lambda event: self.lost.append(event.seq),
        )


def watcher_event(
    seq: int | None, *, group: str | None = None, body: str = "{}", **more: Any
) -> WatcherEvent:
    """Return an event that was made of a message."""
    message = QueueMessage("m", "", group=group)
    return WatcherEvent(scripted().watcher, f"e{seq}", body, message, seq, **more)


def in_a_loop(act: Callable[[Outbox], None], told: Told) -> Outbox:
    """Do something with an outbox, which needs an event loop."""

    async def run() -> Outbox:
        outbox = told.outbox()
        act(outbox)
        return outbox

    return run_in_new_loop(run())


def add_and_flush(*events: WatcherEvent) -> tuple[Told, Outbox]:
    """Send events, and return what was told of them."""
    told = Told()

    def act(outbox: Outbox) -> None:
        for event in events:
            outbox.add(event)
        outbox.flush()

    return told, in_a_loop(act, told)


def test_events_are_sent_ten_to_a_call_in_order() -> None:
    """As few calls as possible, and each is confirmed after it."""
    with sending() as sent:
        told, outbox = add_and_flush(*(watcher_event(seq) for seq in range(23)))
    assert [len(messages) for _, messages in sent.calls] == [10, 10, 3]
    assert told.confirmed == list(range(23))
    assert (outbox.sent, outbox.parked) == (23, 0)


def test_failed_call_confirms_nothing_of_it() -> None:
    """What was in it is lost, and what is not, goes on."""
    with sending(2):
        told, outbox = add_and_flush(*(watcher_event(seq) for seq in range(23)))
    assert told.confirmed == [*range(10), 20, 21, 22]
    assert told.lost == list(range(10, 20))
    assert outbox.sent == 13


def test_call_that_is_taken_in_part_confirms_nothing_of_it(stack: LocalStack) -> None:
    """Which of ten were refused does not matter: those that were taken are known by their ids."""
    url = stack.settings.queue_url("events")
    send = aws.client("sqs").send_message_batch

    def send_some(**request: Any) -> Any:
        entries = request["Entries"]
        answer = send(QueueUrl=url, Entries=entries[1:])
        return {**answer, "Failed": [{"Id": entries[0]["Id"], "Code": "InternalError"}]}

    with patch.object(aws.client("sqs"), "send_message_batch", send_some):
        told, _ = add_and_flush(watcher_event(0), watcher_event(1))
    assert (told.confirmed, told.lost) == ([], [0, 1])


def test_largest_events_fit_into_a_call(stack: LocalStack) -> None:
    """Ten events with as much to say as is allowed are one call."""
    body = '{"asset": "a", "extra": {"payload": "' + "x" * 31_900 + '"}}'
    with runtime.using(settings=stack.settings):
        told, _ = add_and_flush(*(watcher_event(seq, body=body) for seq in range(10)))
    assert told.confirmed == list(range(10))


def test_lost_event_of_a_lane_keeps_those_behind_it() -> None:
    """What comes later in the lane is not sent before it; other lanes go on."""
    events = [watcher_event(seq, group="g" if seq % 2 else "h") for seq in range(10)]
    later = [watcher_event(10, group="g"), watcher_event(11, group="i"), watcher_event(12)]
    with sending(1):
        told, _ = add_and_flush(*events, *later)
    assert told.lost == [*range(10), 10]
    assert told.confirmed == [11, 12]


def test_events_that_cannot_be_sent_in_time_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that is slow does not keep what was sent from being acknowledged."""
    seconds = iter(range(100))
    monkeypatch.setattr(outbox_module, "monotonic", lambda: next(seconds))
    told = Told()

    def act(outbox: Outbox) -> None:
        for seq in range(40):
            outbox.add(watcher_event(seq))
        outbox.flush(seconds=3)

    with sending():
        in_a_loop(act, told)
    assert (told.confirmed, told.lost) == (list(range(20)), list(range(20, 40)))


def test_kept_events_are_letters_that_can_be_sent() -> None:
    """What is not to be sent is kept with the reason, as the event that it is."""
    with sending() as sent:
        told, outbox = add_and_flush(
            watcher_event(0), watcher_event(1, body="kept", parked_reason="parked")
        )
    assert sorted(told.confirmed) == [0, 1]
    assert (outbox.sent, outbox.parked) == (1, 1)
    assert sent.letters == {"kept": "parked"}


def test_failed_letter_confirms_nothing() -> None:
    """Also what is kept must have been taken by the queue."""
    with sending(1):
        told, outbox = add_and_flush(watcher_event(0, parked_reason="parked"))
    assert (told.confirmed, told.lost, outbox.parked) == ([], [0], 0)


def test_events_of_no_stream_are_sent_without_confirmation() -> None:
    """A trigger that reads by itself has nobody who waits."""
    with sending() as sent:
        told, _ = add_and_flush(watcher_event(None))
    assert (len(sent.calls), told.confirmed) == (1, [])


@pytest.mark.parametrize("count", [1, 15])
def test_outbox_sends_by_itself_what_comes(count: int) -> None:
    """Those who are at work in the same turn share a call."""

    async def run() -> None:
        outbox = told.outbox()
        sender = asyncio.create_task(outbox.run())
        await asyncio.sleep(0)
        for seq in range(count):
            outbox.add(watcher_event(seq))
        for _ in range(10):
            await asyncio.sleep(0)
        sender.cancel()

    told = Told()
    with sending() as sent:
        run_in_new_loop(run())
    assert told.confirmed == list(range(count))
    assert len(sent.calls) == (count + 9) // 10
