"""Watchers at work on their streams, for as long as a Lambda has.

Owns: how a trigger is run: its key read once, each event bound before it is sent, the subscription
ended in any case. A watcher that fails, fails alone; what it had open is not acknowledged.
"""

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from lamplighter import settings
from lamplighter.errors import DefinitionError, PermanentError, RejectedError
from lamplighter.events.emit import event_body
from lamplighter.store.watchers import read_parked
from lamplighter.streams.outbox import Derived, Outbox, Send, send_to_sqs
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import SharedStreamManager, reject_shared_stream_event
from lamplighter.triggers.shared_stream.failures import (
    AckTimeout,
    PollTerminated,
    SubscriberOverflow,
)
from lamplighter.triggers.shared_stream.rejection import on_rejection

log = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS_TO_END = 2.0


@dataclass(eq=False)
class Work:
    """One watcher in one session."""

    watcher: Watcher
    trigger: BaseEventTrigger
    key: Hashable | None  # of the stream that it shares; None: it reads by itself
    kept_because: str | None = None  # parked: its events are kept, not sent
    # What it has pulled last, and how much it has made of it.
    raw: Any = None
    ordinal: int = 0
    pulled: int = 0
    fired: int = 0
    # Whether it ended before its stream did, by an error or by returning.
    has_left: bool = False
    error: Exception | None = None
    # Whether the stream gave it up.
    was_given_up: bool = False
    rejected: list[tuple[Any, str]] = field(default_factory=list)
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def again(self) -> "Work":
        """Return the same watcher with a fresh start."""
        trigger = type(self.trigger)(**self.trigger.serialize()[1])
        return Work(self.watcher, trigger, self.key, self.kept_because)

    def next_event_id(self) -> str:
        """Return an id that the same event has however often it is made."""
        # A source that names its messages has an attribute for that; of others nothing is known.
        source = getattr(self.raw, "message_id", None) or f"{self._name}#{self.pulled}"
        written = json.dumps([str(source), self.watcher.id, self.ordinal])
        self.ordinal += 1
        return hashlib.sha256(written.encode()).hexdigest()

    def note_rejection(self, reason: str | None) -> None:
        """Keep why the watcher refused what it has open."""
        why = f"rejected by {self.watcher.title}"
        self.rejected.append((self.raw, f"{why}: {reason}" if reason else why))


class _Noted:
    """A stream of which the work knows what was pulled last."""

    def __init__(self, stream: AsyncIterator[Any], work: Work) -> None:
        self._stream = stream
        self._work = work

    def __aiter__(self) -> "_Noted":
        return self

    async def __anext__(self) -> Any:
        raw = await anext(self._stream)
        self._work.raw, self._work.ordinal = raw, 0
        self._work.pulled += 1
        return raw


class Session:
    """Runs the triggers of some watchers together; made in an event loop, used once."""

    def __init__(
        self,
        works: Sequence[Work],
        *,
        seconds: float,
        at_once: int = 0,
        on_failure: Callable[[Any], None] = lambda _: None,
        send: Send = send_to_sqs,
    ) -> None:
        given = settings.current()
        self._works = works
        self._seconds = seconds
        # Called with what was pulled when it is clear that it cannot be acknowledged.
        self._on_failure = on_failure
        self._most = given.watcher_events_per_minute
        self._manager = SharedStreamManager(
            log=log,
            ack_timeout=min(given.shared_stream_ack_timeout, seconds),
            max_subscriber_queue=max(given.shared_stream_subscriber_queue_size, at_once),
        )
        self.outbox = Outbox(send=send, confirm=self._manager.confirm_persisted, on_lost=self._lost)

    async def run(self, until: Awaitable[object]) -> None:
        """Let everyone work until the awaitable is done, or all have left, or time is up."""
        sender = asyncio.create_task(self.outbox.run())
        working = [asyncio.create_task(self._work(at)) for at in range(len(self._works))]
        over: asyncio.Future[object] = asyncio.ensure_future(until)
        everyone: asyncio.Future[Any] = asyncio.gather(*working, return_exceptions=True)
        await asyncio.wait(
            [over, everyone], timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
        )
        # Sent before the streams end, so that they hear of it, and once more after that: what
        # came in between, and is never acknowledged, may have no one who would tell it again.
        self.outbox.flush()
        await _end([over, *working])
        self.outbox.flush()
        await _end([sender])
        # Streams whose readers would not leave.
        await _end([asyncio.ensure_future(self._manager.stop_all())], is_asked=False)

    async def _work(self, at: int) -> None:
        work = self._works[at]
        on_rejection.set(work.note_rejection)
        try:
            async for event in self._open(at):
                self._take(at, event)
            work.has_left = True
        except (AckTimeout, SubscriberOverflow, PollTerminated) as error:
            log.warning("%s: %s", work.watcher.title, error)
            work.was_given_up, work.error = True, error
        except Exception as error:  # an author's code may raise anything
            log.exception("%s failed", work.watcher.title)
            work.has_left, work.error = True, error
            # Never confirmed, so that what it had open is not taken for done.
            self._bind(at)
            self._lost(work.raw)
        finally:
            await self._release(at)

    def _open(self, at: int) -> AsyncIterator[TriggerEvent]:
        work = self._works[at]
        if work.key is None:
            return work.trigger.run()
        stream = self._manager.subscribe(trigger_id=at, trigger=work.trigger, key=work.key)
        return work.trigger.filter_shared_stream(_Noted(stream, work))

    def _take(self, at: int, event: TriggerEvent) -> None:
        """Bind an event to what it was made of, and let it be sent; no one else acts in between."""
        work = self._works[at]
        work.fired += 1
        if work.fired > self._most:
            raise PermanentError(f"more than {self._most} events in one session")
        event_id = work.next_event_id()
        try:
            body = event_body(
                work.watcher.asset,
                event_id=event_id,
                extra={"from_trigger": True, "payload": event.payload},
                source={"watcher": work.watcher.name},
            )
        except RejectedError as error:
            log.error("%s made an event that cannot be sent: %s", work.watcher.title, error)  # noqa: TRY400 - where is of no interest, and the payload may be secret
            if work.key is not None:
                reject_shared_stream_event(str(error))
            return
        seq = self._bind(at)
        self.outbox.add(Derived(work.watcher, event_id, body, work.raw, seq, work.kept_because))

    def _bind(self, at: int) -> int | None:
        key = self._works[at].key
        return None if key is None else self._manager.bind_pending_event(trigger_id=at, key=key)

    def _lost(self, raw: Any) -> None:
        if raw is not None:
            self._on_failure(raw)

    async def _release(self, at: int) -> None:
        work = self._works[at]
        try:
            if work.key is not None:
                await self._manager.unsubscribe(at, work.key)
        finally:
            try:
                await work.trigger.cleanup()
            except Exception:  # its work is done, for better or worse
                log.exception("%s did not clean up", work.watcher.title)


def works_of(watchers: Sequence[Watcher]) -> tuple[list[Work], list[Watcher]]:
    """Return watchers ready for work, and those whose trigger cannot be built."""
    parked = read_parked()
    works: list[Work] = []
    broken: list[Watcher] = []
    for watcher in watchers:
        try:
            trigger = watcher.build()
        except DefinitionError:
            log.exception("%s cannot be built: push its bundle again", watcher.title)
            broken.append(watcher)
            continue
        reason = f"{watcher.title} is parked: it fires too often" if watcher.id in parked else None
        works.append(Work(watcher, trigger, _key_of(watcher, trigger), reason))
    return works, broken


def _key_of(watcher: Watcher, trigger: BaseEventTrigger) -> Hashable | None:
    try:
        return trigger.shared_stream_key()
    except Exception:  # an author's code may raise anything; then it reads by itself
        log.exception("%s has no key and reads by itself", watcher.title)
        return None


async def _end(tasks: "Sequence[asyncio.Future[Any]]", *, is_asked: bool = True) -> None:
    """Let tasks end, but do not wait for one that will not."""
    if is_asked:
        for task in tasks:
            task.cancel()
    await asyncio.wait(tasks, timeout=_SECONDS_TO_END)


def run_in_a_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in an event loop of its own; tasks that would not end are left behind."""
    # `asyncio.run` would wait for them for ever, and with it everyone's acknowledgement.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
