"""Watchers that do what a script says with each message, and what became of it, without AWS."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from pendulum import datetime

from lamplighter import queues, runtime, settings
from lamplighter.streams.delivery_rounds import DeliveryRounds, StreamMessage
from lamplighter.streams.session import Subscription, run_in_new_loop
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.shared_stream import reject_shared_stream_event
from lamplighter.triggers.sources import QueueMessage, QueueTrigger

SINCE = datetime(2026, 1, 1)
SETTINGS = settings.Settings(
    queue_urls={"events": "events", "events.fifo": "events.fifo", "sources-dlq": "dead"},
    shared_stream_ack_timeout=1,
)


class ScriptedError(Exception):
    """A watcher fails because its script says so."""


class Scripted(QueueTrigger):
    """Reads in its script what to do with a message, by the message's name.

    A number makes so many events. `slow` makes one when others had their turn; `made then raise`
    and `made then return` make one before they leave.
    """

    def __init__(self, *, queue: str = "raw", script: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.queue = queue
        self.script = dict(script or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Scripted", {"queue": self.queue, "script": self.script}

    @property
    def feed(self) -> Feed:
        return Feed(queue=self.queue)

    def payloads(self, message: QueueMessage) -> list[Any]:
        raise NotImplementedError("its filter has the script")

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[QueueMessage]
    ) -> AsyncIterator[TriggerEvent]:
        if _leaves(self.script.get("before reading", "")):
            return
        async for message in shared_stream:
            name = name_of(message)
            act = self.script.get(name, self.script.get("else", "skip"))
            await _take_time(act)
            if act == "reject":
                reject_shared_stream_event(f"{name} is bad")
            times = int(act) if act.isdigit() else int(act == "slow" or act.startswith("made"))
            for time in range(times):
                yield TriggerEvent(f"{name}.{time}")
            if _leaves(act):
                return


async def _take_time(act: str) -> None:
    if act == "slow":
        for _ in range(20):
            await asyncio.sleep(0)
    if act == "hang":
        await asyncio.Event().wait()


def _leaves(act: str) -> bool:
    if act.endswith("raise"):
        raise ScriptedError
    return act.endswith("return")


def name_of(message: QueueMessage) -> str:
    """Return the name of a message, which is all that its body says."""
    return str(message.content["name"])


@dataclass(frozen=True)
class MadeUpWatcher(Watcher):
    """A watcher whose trigger is made by a function."""

    make: Callable[[], BaseEventTrigger] = Scripted

    def build(self) -> BaseEventTrigger:
        return self.make()


def subscription(
    make: Callable[[], BaseEventTrigger], name: str = "w", **more: Any
) -> Subscription:
    """Return a watcher of the asset `a` at work on the one stream of a test."""
    trigger = {"type": "scripts.Scripted", "data": {"name": name}}
    watcher = MadeUpWatcher("a", name, trigger, "bundle", "v1", ("dag",), SINCE, make)
    return replace(Subscription(watcher, make(), "stream"), **more)


def scripted(name: str = "w", **script: str) -> Subscription:
    """Return a watcher that follows a script; underscores stand for spaces."""
    return subscription(
        lambda: Scripted(script={_spaced(k): _spaced(v) for k, v in script.items()}), name
    )


def _spaced(text: str) -> str:
    return text.replace("_", " ")


def stream_messages(*names: str) -> list[StreamMessage]:
    """Return messages of these names; what stands before a slash is the message's lane."""
    return [_stream_message(name) for name in names]


def _stream_message(name: str) -> StreamMessage:
    lane = name.partition("/")[0] if "/" in name else None
    body = json.dumps({"name": name})
    return StreamMessage(QueueMessage(name, body, {"name": name}, group=lane), lane)


@dataclass
class Sent:
    """What was sent: by queue, the calls with the messages of each."""

    calls: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list)
    # Which calls are not to succeed, counted from 1.
    failing: Sequence[int] = ()
    tries: int = 0

    def send(self, queue: str, messages: Sequence[dict[str, Any]]) -> None:
        """Take messages, in place of `queues.send`."""
        self.tries += 1
        if self.tries in self.failing:
            raise ConnectionError("the queue cannot be reached")
        self.calls.append((queue, list(messages)))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The events that were sent, in their order."""
        return [
            json.loads(message["MessageBody"])
            for queue, messages in self.calls
            if queue in ("events", "events.fifo")
            for message in messages
        ]

    @property
    def events(self) -> list[str]:
        """The events that were sent: watcher and payload."""
        return [f"{e['source']['watcher']} {e['extra']['payload']}" for e in self.bodies]

    @property
    def letters(self) -> dict[str, str]:
        """The bodies of what was kept among the dead letters, with the reasons."""
        return {
            message["MessageBody"]: message["MessageAttributes"]["reason"]["StringValue"]
            for queue, messages in self.calls
            if queue == "sources-dlq"
            for message in messages
        }


@contextmanager
def sending(*failing: int, given: Mapping[str, Any] = MappingProxyType({})) -> Iterator[Sent]:
    """Let what is sent be seen, and some calls fail, until the block ends."""
    sent = Sent(failing=failing)
    with (
        runtime.using(settings=replace(SETTINGS, **given)) as here,
        # The triggers are this process's own objects.
        patch.object(here, "isolates_watchers", False),
        patch.object(queues, "send", sent.send),
    ):
        yield sent


def run_rounds(
    messages: Sequence[StreamMessage], *subscriptions: Subscription, seconds: float = 5
) -> DeliveryRounds:
    """Let watchers have messages, and return what became of them."""

    async def run() -> DeliveryRounds:
        rounds = DeliveryRounds(messages, seconds=seconds)
        await rounds.run(subscriptions)
        return rounds

    return run_in_new_loop(run())


def names(some: Any) -> set[str]:
    """Return the names of messages."""
    return {name_of(message.raw) for message in some}
