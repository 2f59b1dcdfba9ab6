"""Runs the triggers of watchers on their streams, for as long as a Lambda has.

Owns: how a trigger is run: its key is read once, each event is bound before it is sent, and the
subscription always ends. A watcher that fails does not affect others; its message is not
acknowledged. On an author's own producer, a trigger that returns is followed by a new one on the
rest of the stream, and so is one that raises at an event that is given up. Where nothing is
acknowledged, a trigger goes on only when its event is stored.
"""

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Container, Coroutine, Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, TypeVar

from lamplighter import settings
from lamplighter.errors import PermanentError, RejectedError, TransientError, in_short
from lamplighter.events.message import event_body
from lamplighter.streams.guarded_producer import (
    GuardedProducer,
    Keep,
    Progress,
    keep_as_dead_letters,
)
from lamplighter.streams.outbox import Outbox, Send, WatcherEvent, send_to_sqs
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import (
    AckTimeout,
    SharedStreamManager,
    SharedStreamProducer,
    reject_shared_stream_event,
)
from lamplighter.triggers.shared_stream.producer import SubscriberOverflow
from lamplighter.triggers.shared_stream.subscriber import on_rejection

log = logging.getLogger(__name__)

T = TypeVar("T")

_SECONDS_TO_END = 2.0
# For sending what is queued when time is up.
_SECONDS_TO_SEND = 0.5


@dataclass(eq=False)
class Subscription:
    """One watcher in one session."""

    watcher: Watcher
    trigger: BaseEventTrigger
    key: Hashable | None  # of its shared stream; None if it reads its own source
    parked_reason: str | None = None  # its events go to the dead-letter queue
    # The `id` of messages read in earlier sessions, which are not shown again.
    already_read: AbstractSet[int] = frozenset()
    trigger_id: int = 0  # in its session
    # The message read last, and the number of events made from it.
    raw: Any = None
    events_of_raw: int = 0
    progress: Progress = field(default_factory=Progress)
    # Whether it waits for more, and so has finished all that it has read.
    is_waiting: bool = False
    fired: int = 0
    lost_events: int = 0  # of a source that cannot deliver them again
    # Whether it ended before its stream, by an error or by returning.
    has_left: bool = False
    error: BaseException | None = None
    # What its stream raised when it was read.
    stream_error: Exception | None = None
    rejected: list[tuple[Any, str]] = field(default_factory=list)
    _name: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def can_resume(self) -> bool:
        """Whether it ended by itself and can be restarted on the rest."""
        return self.has_left and self.progress.read > 0

    def has_failed(self, delivered: int) -> bool | None:
        """Return whether it failed in a session with so many events; None if that is not known.

        One that hangs at the first event has failed. One that was slow has not: it went on.
        """
        progress = self.progress
        is_blameless = self.stream_error is not None and not self.was_failed
        is_stuck = not progress.finished and not self.is_waiting and not is_blameless
        has_missed = progress.finished < delivered or bool(progress.errors)
        if has_missed and (progress.has_raised or is_stuck):
            return True
        return False if progress.finished else None

    @property
    def was_failed(self) -> bool:
        """Whether the engine failed it, and has told its source."""
        return isinstance(self.stream_error, AckTimeout | SubscriberOverflow)

    def resumed(self, already_read: AbstractSet[int]) -> "Subscription":
        """Return a new subscription of the same watcher after what it has read."""
        trigger = self.watcher.build()
        return Subscription(self.watcher, trigger, self.key, self.parked_reason, already_read)

    def next_event_id(self) -> str:
        """Return an event id that is the same whenever the message is processed again."""
        # Sources that identify their messages have `message_id`; others are numbered.
        source = getattr(self.raw, "message_id", None) or f"{self._name}#{self.progress.read}"
        text = json.dumps([str(source), self.watcher.id, self.events_of_raw])
        self.events_of_raw += 1
        return hashlib.sha256(text.encode()).hexdigest()

    def note_lost(self) -> None:
        """Note that an event could not be stored."""
        self.lost_events += 1

    def note_rejection(self, reason: str | None) -> None:
        """Record why the watcher rejected the message read last, which it is done with."""
        self.progress.finished = self.progress.read
        why = f"rejected by {self.watcher.title}"
        self.rejected.append((self.raw, f"{why}: {reason}" if reason else why))


@dataclass(frozen=True)
class _TrackedStream:
    """A stream that records what its subscription read last."""

    stream: AsyncIterator[Any]
    subscription: Subscription
    is_ending: Callable[[], bool]

    def __aiter__(self) -> "_TrackedStream":
        return self

    async def __anext__(self) -> Any:
        subscription, progress = self.subscription, self.subscription.progress
        while True:
            subscription.is_waiting = True
            progress.finished = progress.read
            try:
                raw = await anext(self.stream)
            except BaseException as error:
                # A trigger that stops waiting, and is not being ended, may be doing something else.
                subscription.is_waiting = self.is_ending()
                if isinstance(error, Exception) and subscription.stream_error is None:
                    subscription.stream_error = error
                raise
            subscription.is_waiting = False
            if id(raw) not in subscription.already_read:
                subscription.raw, subscription.events_of_raw = raw, 0
                progress.read += 1
                return raw


class _TooManyEventsError(PermanentError):
    """A watcher makes too many events from one message."""


class Session:
    """Runs the triggers of some subscriptions together; created in an event loop, used once.

    `redeliver` marks a message that its source delivers again. Without it, triggers read sources
    of their own: what one of them did not finish is withheld from their producer, or given up and
    stored with `keep`.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        *,
        seconds: float,
        batch_size: int = 0,
        redeliver: Callable[[Any], None] | None = None,
        send: Send = send_to_sqs,
        keep: Keep = keep_as_dead_letters,
    ) -> None:
        self._subscriptions = subscriptions
        for trigger_id, subscription in enumerate(subscriptions):
            subscription.trigger_id = trigger_id
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self._redeliver = redeliver
        self._keep = keep
        # Of authors' own producers, by key.
        self._guards: dict[Hashable, GuardedProducer] = {}
        self._is_ending = False
        given = settings.current()
        self._max_events = given.watcher_events_per_minute
        self._manager = SharedStreamManager(
            log=logging.LoggerAdapter(
                log, {"watchers": [one.watcher.path for one in subscriptions]}
            ),
            # Time must be left to acknowledge what the others have finished.
            ack_timeout=min(given.shared_stream_ack_timeout, seconds / 2),
            max_subscriber_queue=max(given.shared_stream_subscriber_queue_size, batch_size),
            wrap_producer=self._guard,
        )
        self.outbox = Outbox(
            send=send, confirm=self._manager.confirm_persisted, on_lost=self._on_lost
        )

    @property
    def given_up(self) -> int:
        """How many copies of events were stored that watchers will not get again."""
        return sum(guard.given_up for guard in self._guards.values())

    def has_failed(self, subscription: Subscription) -> bool | None:
        """Return whether a watcher failed at its producer's events; None if that is not known."""
        guard = self._guards.get(subscription.key)
        return None if guard is None else subscription.has_failed(guard.delivered)

    async def run(self, until: Coroutine[Any, Any, object]) -> None:
        """Run all triggers until the coroutine is done, or all have left, or time is up."""
        sender = asyncio.create_task(self.outbox.run())
        running = [asyncio.create_task(self._run(one)) for one in self._subscriptions]
        over: asyncio.Future[object] = asyncio.ensure_future(until)
        everyone: asyncio.Future[Any] = asyncio.gather(*running, return_exceptions=True)
        # If the sender ends, it has failed, and there is nothing to wait for.
        await asyncio.wait(
            [over, everyone, sender], timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED
        )
        # Before the streams end, so that they get the confirmations, and again afterwards, as
        # events in between may not be delivered again.
        self._flush()
        self._is_ending = True
        await _end(over, *running)
        self._flush()
        await _end(sender)
        # For streams whose subscribers did not leave.
        stopping = asyncio.ensure_future(self._manager.stop_all())
        await asyncio.wait([stopping], timeout=_SECONDS_TO_END)

    async def _run(self, subscription: Subscription) -> None:
        on_rejection.set(subscription.note_rejection)
        try:
            stream = self._subscribe(subscription)
            while await self._read(subscription, stream):
                await self._clean_up(subscription)
                subscription.trigger = subscription.watcher.build()
            self._leave(subscription)
        except asyncio.CancelledError:
            self._interrupt(subscription)
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - author code may raise anything
            self._fail(subscription, error)
        finally:
            # Before it unsubscribes, which lets the producer hear of what it has not read.
            subscription.progress.has_ended = not subscription.was_failed
            await self._release(subscription)

    async def _read(self, subscription: Subscription, stream: AsyncIterator[Any] | None) -> bool:
        """Run a trigger until it ends; return whether a new one is to read on behind it."""
        progress = subscription.progress
        before = progress.read
        try:
            async for event in self._events(subscription, stream):
                self._take(subscription, event)
                self._store(subscription)
            if self._is_ending:
                self._interrupt(subscription)
            else:
                progress.finished = progress.read
        except _TooManyEventsError as error:
            self._reject(subscription, str(error))
            subscription.error = error
        except (Exception, SystemExit) as error:  # author code may raise anything
            if not progress.gives_up or error is subscription.stream_error:
                raise
            self._fail(subscription, error)
        has_stream = subscription.key in self._guards and subscription.stream_error is None
        return has_stream and progress.read > before and not self._is_ending

    def _fail(self, subscription: Subscription, error: BaseException) -> None:
        fields = subscription.watcher.log_fields
        subscription.error = error
        if error is subscription.stream_error:
            log.warning("watcher lost its stream", extra={**fields, "error": str(error)})
            return
        log.error("watcher failed", exc_info=error, extra=fields)
        subscription.progress.note_error(in_short(f"{type(error).__name__}: {error}"))
        self._hold(subscription)
        self._leave(subscription)

    def _flush(self) -> None:
        """Send what is queued; past the deadline, finished messages would be delivered again."""
        if self._redeliver is None:
            self.outbox.flush()  # these are not delivered again
        else:
            self.outbox.flush(seconds=max(self._deadline - monotonic(), _SECONDS_TO_SEND))

    def _interrupt(self, subscription: Subscription) -> None:
        """Hold what a watcher had not finished when it was ended."""
        # Leaving counts as finishing what is open.
        if not subscription.is_waiting:
            self._hold(subscription)

    def _hold(self, subscription: Subscription) -> None:
        """Keep a watcher's open message from being acknowledged."""
        if self._redeliver is not None and subscription.raw is not None:
            self._redeliver(subscription.raw)

    def _leave(self, subscription: Subscription) -> None:
        subscription.has_left = True
        # The last one closes the stream, which then misses later confirmations.
        self._flush()

    def _subscribe(self, subscription: Subscription) -> AsyncIterator[Any] | None:
        """Return the shared stream of a watcher; None if it reads its own source."""
        trigger, key, number = subscription.trigger, subscription.key, subscription.trigger_id
        if key is None:
            return None
        stream = self._manager.subscribe(trigger_id=number, trigger=trigger, key=key)
        return _TrackedStream(stream, subscription, lambda: self._is_ending)

    def _events(
        self, subscription: Subscription, stream: AsyncIterator[Any] | None
    ) -> AsyncIterator[TriggerEvent]:
        trigger = subscription.trigger
        return trigger.run() if stream is None else trigger.filter_shared_stream(stream)

    def _guard(self, key: Hashable, producer: SharedStreamProducer) -> SharedStreamProducer:
        """Return the producer of a stream, guarded if it is an author's own."""
        if self._redeliver is not None:
            return producer
        sharing = [one for one in self._subscriptions if one.key == key]
        progress = [(one.watcher.title, one.progress) for one in sharing]
        self._guards[key] = GuardedProducer(producer, progress, self._keep)
        return self._guards[key]

    def _take(self, subscription: Subscription, event: TriggerEvent) -> None:
        """Bind an event to its message and queue it for sending, without awaiting in between."""
        subscription.fired += 1
        if subscription.events_of_raw >= self._max_events:
            raise _TooManyEventsError(
                f"it makes more than {self._max_events} events from one message"
            )
        watcher, event_id = subscription.watcher, subscription.next_event_id()
        try:
            body = event_body(
                watcher.asset,
                event_id=event_id,
                extra={"from_trigger": True, "payload": event.payload},
                source={"watcher": watcher.name},
            )
        except RejectedError as error:
            self._reject(subscription, f"it made an event that cannot be sent: {error}")
            return
        seq, again = self._bind(subscription), self._redeliver_from(subscription)
        raw, reason = subscription.raw, subscription.parked_reason
        self.outbox.add(WatcherEvent(watcher, event_id, body, raw, seq, reason, again))

    def _store(self, subscription: Subscription) -> None:
        """Store a trigger's event before the trigger goes on, unless its message is acknowledged.

        What it does next, such as deleting a file, may be its way to acknowledge.
        """
        if self._redeliver is not None or subscription.key in self._guards:
            return
        self.outbox.flush()
        if subscription.lost_events:
            raise TransientError("its event could not be stored")

    def _reject(self, subscription: Subscription, reason: str) -> None:
        """Reject a watcher's open message; a watcher with its own source has none."""
        fields = {**subscription.watcher.log_fields, "reason": reason}
        log.error("watcher rejected an event", extra=fields)
        if subscription.key is not None:
            reject_shared_stream_event(reason)

    def _bind(self, subscription: Subscription) -> int | None:
        key = subscription.key
        if key is None:
            return None
        return self._manager.bind_pending_event(trigger_id=subscription.trigger_id, key=key)

    def _on_lost(self, event: WatcherEvent) -> None:
        """Let the message of an event that was not sent be delivered again; do not wait for it."""
        event.redeliver()
        self._manager.confirm_persisted([] if event.seq is None else [event.seq])

    def _redeliver_from(self, subscription: Subscription) -> Callable[[], None]:
        """Return what lets the message that a watcher is at be delivered again."""
        if self._redeliver is not None:
            return partial(self._redeliver, subscription.raw)
        guard = self._guards.get(subscription.key)
        number = subscription.progress.read
        return subscription.note_lost if guard is None else partial(guard.withhold_from, number)

    async def _release(self, subscription: Subscription) -> None:
        try:
            if subscription.key is not None:
                await self._manager.unsubscribe(subscription.trigger_id, subscription.key)
        finally:
            await self._clean_up(subscription)

    async def _clean_up(self, subscription: Subscription) -> None:
        try:
            await subscription.trigger.cleanup()
        except Exception:  # its work is done
            log.exception("watcher failed to clean up", extra=subscription.watcher.log_fields)


def subscribe_all(
    watchers: Sequence[Watcher], parked: Container[str]
) -> tuple[list[Subscription], list[Watcher]]:
    """Return the subscriptions of watchers, and the watchers whose triggers cannot be built."""
    subscriptions: list[Subscription] = []
    broken: list[Watcher] = []
    for watcher in watchers:
        fields = watcher.log_fields
        try:
            trigger = watcher.build()
        except Exception:  # author code may raise anything; the others go on
            log.exception("watcher cannot be built: push its bundle again", extra=fields)
            broken.append(watcher)
            continue
        key = None
        try:
            key = trigger.shared_stream_key()
        except Exception:  # author code may raise anything; then it reads its own source
            log.exception("watcher has no key; its source is not shared", extra=fields)
        reason = f"{watcher.title} is parked: it fires too often" if watcher.id in parked else None
        subscriptions.append(Subscription(watcher, trigger, key, reason))
    return subscriptions, broken


async def _end(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks and wait for them to end, but not for one that will not."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=_SECONDS_TO_END)


def run_in_new_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a new event loop; tasks that do not end are abandoned."""
    # `asyncio.run` would wait for them for ever, and block all acknowledgements.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()
