"""Watchers at work on their streams, for as long as a Lambda has.

Owns: how a trigger is run: its key read once, each event bound before it is sent, the subscription
ended in any case. A watcher that fails, fails alone; what it had open is not acknowledged.
"""

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Container,
    Coroutine,
    Hashable,
    Sequence,
)
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol, TypeVar

from lamplighter import settings
from lamplighter.errors import PermanentError, RejectedError
from lamplighter.events.emit import event_body
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
# When time is up, for what waits to be sent.
_SECONDS_TO_SEND = 0.5


@dataclass(eq=False)
class Work:
    """One watcher in one session."""

    watcher: Watcher
    trigger: BaseEventTrigger
    key: Hashable | None  # of the stream that it shares; None: it reads by itself
    kept_because: str | None = None  # parked: its events are kept, not sent
    # What it has read in earlier sessions, by `id`; it is not shown again.
    passed: AbstractSet[int] = frozenset()
    # What it has pulled last, and how much it has made of it.
    raw: Any = None
    ordinal: int = 0
    pulled: int = 0
    # Whether it waits for more, and so is done with all that it has pulled.
    is_waiting: bool = False
    fired: int = 0
    # Whether it ended before its stream did, by an error or by returning.
    has_left: bool = False
    error: BaseException | None = None
    rejected: list[tuple[Any, str]] = field(default_factory=list)
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def may_go_on(self) -> bool:
        """Whether it left by itself, and could go on with the rest."""
        return self.has_left and self.pulled > 0

    def again(self, passed: AbstractSet[int]) -> "Work":
        """Return the same watcher with a fresh start, behind what it has read."""
        return Work(self.watcher, self.watcher.build(), self.key, self.kept_because, passed)

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

    def __init__(
        self, stream: AsyncIterator[Any], work: Work, is_ending: Callable[[], bool]
    ) -> None:
        self._stream = stream
        self._work = work
        self._is_ending = is_ending

    def __aiter__(self) -> "_Noted":
        return self

    async def __anext__(self) -> Any:
        while True:
            self._work.is_waiting = True
            try:
                raw = await anext(self._stream)
            except BaseException:
                # Whoever waits no longer, and is not told to end, may be doing something else.
                self._work.is_waiting = self._is_ending()
                raise
            self._work.is_waiting = False
            if id(raw) not in self._work.passed:
                self._work.raw, self._work.ordinal = raw, 0
                self._work.pulled += 1
                return raw


class Failures(Protocol):
    """What cannot be acknowledged, of a source that brings it again."""

    def give_up(self, raw: Any) -> None:
        """Note that something comes again, whatever else becomes of it."""
        ...


class _TooManyError(PermanentError):
    """A watcher makes more of one thing than any should."""


class Session:
    """Runs the triggers of some watchers together; made in an event loop, used once.

    Without someone to note failures, what cannot be acknowledged stays open until the end.
    """

    def __init__(
        self,
        works: Sequence[Work],
        *,
        seconds: float,
        at_once: int = 0,
        failures: Failures | None = None,
        send: Send = send_to_sqs,
    ) -> None:
        given = settings.current()
        self._works = works
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self._failures = failures
        self._is_ending = False
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
        # The sender is done only if it has died, and then there is nothing to wait for.
        await asyncio.wait(
            [over, everyone, sender], timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
        )
        # Sent before the streams end, so that they hear of it, and once more after that: what
        # came in between, and is never acknowledged, may have no one who would tell it again.
        self._flush()
        self._is_ending = True
        await _end([over, *working])
        self._flush()
        await _end([sender])
        # Streams whose readers would not leave.
        await _end([asyncio.ensure_future(self._manager.stop_all())], is_asked=False)

    async def _work(self, at: int) -> None:
        work = self._works[at]
        on_rejection.set(work.note_rejection)
        try:
            async for event in self._open(at):
                self._take(at, event)
            if self._is_ending:
                self._interrupt(at)
            self._leave(at)
        except asyncio.CancelledError:
            self._interrupt(at)
            raise
        except (AckTimeout, SubscriberOverflow, PollTerminated) as error:
            log.warning("%s: %s", work.watcher.title, error)
            work.error = error
        except _TooManyError as error:
            self._refuse(at, str(error))
            work.error = error
            self._leave(at)
        except (Exception, SystemExit) as error:  # an author's code may raise anything
            log.exception("%s failed", work.watcher.title)
            work.error = error
            self._hold(at)
            self._leave(at)
        finally:
            await self._release(at)

    def _flush(self) -> None:
        """Send what waits; not beyond the time, or all that was done would come again with it."""
        if self._failures is None:
            self.outbox.flush()  # nobody brings it again
        else:
            left = self._deadline - monotonic()
            self.outbox.flush(seconds=max(left, _SECONDS_TO_SEND))

    def _interrupt(self, at: int) -> None:
        """Let a watcher that is told to end be done only with what it had finished."""
        # Whoever leaves, however politely, is taken to be done with what it has open.
        if not self._works[at].is_waiting:
            self._hold(at)

    def _hold(self, at: int) -> None:
        """Let what a watcher has open not be taken for done."""
        raw = self._works[at].raw
        if self._failures is None:
            self._bind(at)  # and never confirmed
        elif raw is not None:
            self._failures.give_up(raw)

    def _leave(self, at: int) -> None:
        self._works[at].has_left = True
        # The last one takes the stream along, and then nobody hears of what is persisted later.
        self._flush()

    def _open(self, at: int) -> AsyncIterator[TriggerEvent]:
        work = self._works[at]
        if work.key is None:
            return work.trigger.run()
        stream = self._manager.subscribe(trigger_id=at, trigger=work.trigger, key=work.key)
        noted = _Noted(stream, work, lambda: self._is_ending)
        return work.trigger.filter_shared_stream(noted)

    def _take(self, at: int, event: TriggerEvent) -> None:
        """Bind an event to what it was made of, and let it be sent; no one else acts in between."""
        work = self._works[at]
        work.fired += 1
        if work.ordinal >= self._most:
            raise _TooManyError(f"it makes more than {self._most} events of one message")
        event_id = work.next_event_id()
        try:
            body = event_body(
                work.watcher.asset,
                event_id=event_id,
                extra={"from_trigger": True, "payload": event.payload},
                source={"watcher": work.watcher.name},
            )
        except RejectedError as error:
            self._refuse(at, f"it made an event that cannot be sent: {error}")
            return
        seq = self._bind(at)
        self.outbox.add(Derived(work.watcher, event_id, body, work.raw, seq, work.kept_because))

    def _refuse(self, at: int, reason: str) -> None:
        """Reject what a watcher has open; of one that reads by itself, nothing is known."""
        work = self._works[at]
        log.error("%s: %s", work.watcher.title, reason)
        if work.key is not None:
            reject_shared_stream_event(reason)

    def _bind(self, at: int) -> int | None:
        key = self._works[at].key
        return None if key is None else self._manager.bind_pending_event(trigger_id=at, key=key)

    def _lost(self, event: Derived) -> None:
        """Wait no longer for an event that was not sent, if what it was made of comes again."""
        if self._failures is not None:
            self._failures.give_up(event.raw)
            self._manager.confirm_persisted([] if event.seq is None else [event.seq])

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


def works_of(
    watchers: Sequence[Watcher], parked: Container[str]
) -> tuple[list[Work], list[Watcher]]:
    """Return watchers ready for work, and those whose trigger cannot be built."""
    works: list[Work] = []
    broken: list[Watcher] = []
    for watcher in watchers:
        try:
            trigger = watcher.build()
        except Exception:  # an author's code may raise anything; the others must not suffer
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
