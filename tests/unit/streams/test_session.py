"""Sessions: how a trigger is run, and that whatever it does, the others and the end are safe."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import queues
from lamplighter.streams.session import Session, Subscription, run_in_new_loop, subscribe_all
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import (
    AdvanceItem,
    SharedStreamManager,
    SharedStreamProducer,
)
from lamplighter.triggers.sources import QueueMessage, SourceContext, source_context
from tests.unit.streams.scripted import (
    Scripted,
    ScriptedError,
    names,
    run_rounds,
    scripted,
    sending,
    stream_messages,
    subscription,
)


class Own(BaseEventTrigger):
    """Reads a source of its own; what it reads and notes is the test's."""

    def __init__(self, payloads: Sequence[Any] = (), *, key: Any = None) -> None:
        super().__init__()
        self.given = payloads
        self.key = key
        self.noted: list[str] = []

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Own", {}

    def shared_stream_key(self) -> Any:
        self.noted.append("key")
        if isinstance(self.key, Exception):
            raise self.key
        return self.key

    async def run(self) -> AsyncIterator[TriggerEvent]:
        self.noted.append("run")
        for payload in self.given:
            yield TriggerEvent(payload)

    async def cleanup(self) -> None:
        self.noted.append("cleanup")


def listen(*subscriptions: Subscription, seconds: float = 0.3) -> Session:
    """Run a session of triggers that read by themselves, until all have left or time is up."""

    async def run() -> Session:
        session = Session(subscriptions, seconds=seconds)
        await session.run(asyncio.Event().wait())
        return session

    return run_in_new_loop(run())


def alone(trigger: BaseEventTrigger, name: str = "w") -> Subscription:
    """Return a watcher that reads by itself."""
    return subscription(lambda: trigger, name, key=None)


# How a trigger is run.


def test_key_is_read_once() -> None:
    """Whoever shares a stream says so when it begins, and is not asked again."""
    trigger = Own(key="k")
    (one,), broken = subscribe_all([subscription(lambda: trigger).watcher], ())
    assert (one.key, broken, trigger.noted) == ("k", [], ["key"])


def test_trigger_whose_key_raises_reads_by_itself() -> None:
    """As in Airflow: a key that cannot be said is none."""
    trigger = Own([1], key=ScriptedError())
    (one,), _ = subscribe_all([subscription(lambda: trigger).watcher], ())
    with sending() as sent:
        listen(one)
    assert sent.events == ["w 1"]
    assert trigger.noted == ["key", "run", "cleanup"]


@pytest.mark.parametrize("error", [ScriptedError, TypeError, ZeroDivisionError])
def test_trigger_that_cannot_be_built_is_broken_alone(error: type[Exception]) -> None:
    """Whatever an author's class raises, the others are ready."""

    def fail() -> BaseEventTrigger:
        raise error

    sound = subscription(Scripted, "sound").watcher
    broken = subscription(Scripted, "broken").watcher
    object.__setattr__(broken, "make", fail)
    subscriptions, failed = subscribe_all([broken, sound], ())
    assert ([one.watcher for one in subscriptions], failed) == ([sound], [broken])


def test_parked_watcher_is_told_why_it_is_kept() -> None:
    """Its events go among the dead letters, with a reason that names it."""
    watcher = subscription(Scripted).watcher
    (one,), _ = subscribe_all([watcher], {watcher.id})
    assert one.parked_reason == "watcher 'w' of asset 'a' is parked: it fires too often"


def test_event_is_bound_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody acts in between: a message is held before its event can be on its way."""
    acts: list[str] = []
    bind = SharedStreamManager.bind_pending_event

    def note(manager: SharedStreamManager, **named: Any) -> int | None:
        acts.append("bind")
        return bind(manager, **named)

    monkeypatch.setattr(SharedStreamManager, "bind_pending_event", note)
    with sending(), patch.object(queues, "send", lambda *_: acts.append("send")):
        run_rounds(stream_messages("m1", "m2"), scripted(m1="2", m2="1"))
    assert acts == ["bind", "bind", "bind", "send"]


@pytest.mark.parametrize("act", ["1", "raise", "return", "hang"])
def test_trigger_is_cleaned_up_and_unsubscribed_whatever_it_did(
    act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its subscription ends, and after that what it holds is released."""
    acts: list[str] = []
    leave = SharedStreamManager.unsubscribe

    async def note(manager: SharedStreamManager, *named: Any) -> None:
        acts.append("unsubscribe")
        await leave(manager, *named)

    class Cleaning(Scripted):
        async def cleanup(self) -> None:
            acts.append("cleanup")

    monkeypatch.setattr(SharedStreamManager, "unsubscribe", note)
    with sending():
        run_rounds(stream_messages("m1"), subscription(lambda: Cleaning(script={"m1": act})))
    assert acts == ["unsubscribe", "cleanup"]


def test_cleanup_that_raises_harms_nobody() -> None:
    """Its work is done, for better or worse."""

    class Dirty(Scripted):
        async def cleanup(self) -> None:
            raise ScriptedError

    with sending() as sent:
        rounds = run_rounds(stream_messages("m1"), subscription(lambda: Dirty(script={"m1": "1"})))
    assert names(rounds.done) == {"m1"}
    assert sent.events == ["w m1.0"]


# Triggers that misbehave.


class Stubborn(Scripted):
    """Will not be cancelled."""

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[QueueMessage]
    ) -> AsyncIterator[TriggerEvent]:
        async for message in shared_stream:
            is_wanted = True
            while is_wanted:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
                except GeneratorExit:
                    is_wanted = False
            yield TriggerEvent(message.body)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_trigger_that_will_not_be_cancelled_does_not_hang_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is left behind, and the others have had their messages."""
    monkeypatch.setattr("lamplighter.streams.session._SECONDS_TO_END", 0.05)
    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1"), subscription(Stubborn, "x"), scripted("y", m1="1"), seconds=0.7
        )
    assert rounds.done == set()
    assert sent.events == ["y m1.0"]


def test_trigger_that_ends_politely_is_not_done_with_what_it_has_open() -> None:
    """Whoever is cancelled in the middle of a message and returns has not finished it."""

    class Polite(Scripted):
        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[QueueMessage]
        ) -> AsyncIterator[TriggerEvent]:
            async for message in shared_stream:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    return
                yield TriggerEvent(message.body)

    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1"), subscription(Polite, "x"), scripted("y", m1="1"), seconds=0.7
        )
    assert rounds.done == set()
    assert sent.events == ["y m1.0"]


def test_trigger_that_waits_no_longer_has_not_read_what_comes() -> None:
    """Whoever gives up waiting before anything came lets nothing be done."""

    class Impatient(Scripted):
        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[QueueMessage]
        ) -> AsyncIterator[TriggerEvent]:
            with suppress(TimeoutError):
                message = await asyncio.wait_for(anext(shared_stream), timeout=0)
                yield TriggerEvent(message.body)

    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1"), subscription(Impatient, "x"), scripted("y", m1="1")
        )
    assert rounds.done == set()
    assert sent.events == ["y m1.0"]


def test_trigger_that_exits_fails_alone() -> None:
    """`sys.exit` in an author's code is a failure like any other."""

    class Exiting(Scripted):
        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[QueueMessage]
        ) -> AsyncIterator[TriggerEvent]:
            async for message in shared_stream:
                if message.message_id == "m1":
                    raise SystemExit(1)
                yield TriggerEvent(message.message_id)

    with sending() as sent:
        rounds = run_rounds(
            stream_messages("m1", "m2"), subscription(Exiting, "x"), scripted("y", m1="1")
        )
    assert names(rounds.done) == {"m2"}
    assert sorted(sent.events) == ["x m2", "y m1.0"]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(object(), "an event holds JSON values only"), ("x" * 40_000, "extra")],
    ids=["no JSON", "too large"],
)
def test_payload_that_cannot_be_sent_rejects_its_message(payload: object, reason: str) -> None:
    """Trying again would not help: the message is refused, and the reason says why."""

    class Unsendable(Scripted):
        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[QueueMessage]
        ) -> AsyncIterator[TriggerEvent]:
            async for message in shared_stream:
                yield TriggerEvent(payload if message.message_id == "m1" else "fine")

    with sending() as sent:
        rounds = run_rounds(stream_messages("m1", "m2"), subscription(Unsendable))
    assert names(rounds.done) == {"m1", "m2"}
    ((message, why),) = rounds.rejected.items()
    assert names([message]) == {"m1"}
    assert why.startswith("rejected by watcher 'w' of asset 'a': it made an event that cannot be")
    assert reason in why
    assert sent.events == ["w fine"]


def test_endless_events_of_one_message_reject_it() -> None:
    """A generator without an end is stopped at the limit; what is behind it is read."""

    class Endless(Scripted):
        async def filter_shared_stream(
            self, shared_stream: AsyncIterator[QueueMessage]
        ) -> AsyncIterator[TriggerEvent]:
            async for message in shared_stream:
                yield TriggerEvent(message.message_id)
                while message.message_id == "m1":
                    yield TriggerEvent("more")

    with sending(given={"watcher_events_per_minute": 20}) as sent:
        rounds = run_rounds(stream_messages("m1", "m2"), subscription(Endless))
    assert names(rounds.done) == {"m1", "m2"}
    assert list(rounds.rejected.values()) == [
        "rejected by watcher 'w' of asset 'a': it makes more than 20 events from one message"
    ]
    assert len(sent.events) == 21
    assert sum(rounds.fired.values()) == 22


# Triggers that read by themselves.


def test_events_of_a_trigger_that_reads_by_itself_are_sent_at_the_end() -> None:
    """Whether it returns or is still reading when time is up."""

    class Reading(Own):
        async def run(self) -> AsyncIterator[TriggerEvent]:
            async for event in super().run():
                yield event
            await asyncio.Event().wait()

    with sending() as sent:
        session = listen(alone(Own([1, 2]), "x"), alone(Reading([3]), "y"))
    assert sorted(sent.events) == ["x 1", "x 2", "y 3"]
    assert session.outbox.sent == 3
    assert len({body["event_id"] for body in sent.bodies}) == 3


def test_endless_trigger_that_reads_by_itself_is_stopped() -> None:
    """It has failed, and what it made up to the limit is sent."""

    class Endless(Own):
        async def run(self) -> AsyncIterator[TriggerEvent]:
            while True:
                yield TriggerEvent("more")

    one = alone(Endless())
    with sending(given={"watcher_events_per_minute": 20}) as sent:
        listen(one)
    assert one.error is not None
    assert (len(sent.events), one.fired) == (20, 21)


def test_payload_that_cannot_be_sent_is_left_out_of_an_own_source() -> None:
    """There is no message to refuse; the events round it are sent."""
    with sending() as sent:
        listen(alone(Own([1, object(), 2])))
    assert sent.events == ["w 1", "w 2"]


@pytest.mark.parametrize(("failing", "deleted"), [((), ["1", "2"]), ((2,), ["1"])])
def test_trigger_that_deletes_what_it_read_does_so_when_its_event_is_stored(
    failing: tuple[int, ...], deleted: list[str]
) -> None:
    """What stands behind `yield` is a trigger's own acknowledgement, and may not come too early."""
    trace: list[str] = []

    class Deleting(Own):
        async def run(self) -> AsyncIterator[TriggerEvent]:
            for name in ("1", "2"):
                yield TriggerEvent(name)
                trace.append(name)

    with sending(*failing) as sent:
        listen(alone(Deleting()))
    assert trace == deleted
    assert sent.events == [f"w {name}" for name in deleted]


class Acknowledging(Scripted):
    """Reads an author's own source, which is told what is done with."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Acknowledging", {}


class Producer(SharedStreamProducer):
    """Has two messages, and notes what is advanced."""

    def __init__(self) -> None:
        self.advanced: list[str] = []

    async def open_stream(self) -> AsyncIterator[tuple[Any, str]]:
        for name in ("m1", "m2"):
            body = json.dumps({"name": name})
            yield QueueMessage(name, body, {"name": name}), name
        await asyncio.Event().wait()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        self.advanced += [item.broker_payload for item in batch if item.outcome.is_clean]


@pytest.mark.parametrize(
    ("script", "failing", "advanced"),
    [
        ({"m1": "1", "m2": "1"}, (), ["m1", "m2"]),
        ({"m1": "made then raise"}, (), []),
        ({"m1": "1", "m2": "1"}, (1,), []),
    ],
    ids=["taken", "failed", "not sent"],
)
def test_authors_own_source_is_told_only_of_what_was_sent(
    script: dict[str, str], failing: tuple[int, ...], advanced: list[str]
) -> None:
    """Nobody brings again what such a source takes for done."""
    producer = Producer()
    with sending(*failing), source_context(SourceContext(producer=producer)):
        listen(subscription(lambda: Acknowledging(script=script)))
    assert producer.advanced == advanced
