"""Which keys are being read, and by whom.

Owns: the one map from key to group, and the numbers of what was derived from events until it is
persisted. A key is in the map only while its source is being polled; whoever subscribes afterwards
opens the source anew. Nothing is remembered beyond the process: the source delivers again what was
not advanced.
"""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream.groups import (
    AckGroup,
    FastGroup,
    Limits,
    Log,
    SharedStreamGroup,
    WrapProducer,
)

if TYPE_CHECKING:
    from lamplighter.triggers.shared_stream.lanes import StreamEvent
    from lamplighter.triggers.shared_stream.subscriber import AckSubscriber

DEFAULT_SUBSCRIBER_QUEUE_MAX = 1024
DEFAULT_ACK_TIMEOUT = 300.0


class SharedStreamManager:
    """Lets triggers with equal keys share one connection to their source, in one event loop."""

    def __init__(
        self,
        *,
        log: Log | None = None,
        max_subscriber_queue: int = DEFAULT_SUBSCRIBER_QUEUE_MAX,
        ack_timeout: float = DEFAULT_ACK_TIMEOUT,
        cohort_grace_period: float = 0.0,
        wrap_producer: WrapProducer = lambda _, producer: producer,
        _now: Callable[[], float] = monotonic,
    ) -> None:
        self._log = log or logging.getLogger(__name__)
        self._limits = Limits(
            max_subscriber_queue=max_subscriber_queue if max_subscriber_queue > 0 else math.inf,
            ack_timeout=ack_timeout,
            cohort_grace_period=cohort_grace_period,
            now=_now,
        )
        self._wrap_producer = wrap_producer
        self._seqs = count()
        # What awaits confirmation, by its number, over all groups.
        self._unconfirmed: dict[int, tuple[AckSubscriber, StreamEvent]] = {}
        self._groups: dict[Hashable, SharedStreamGroup[Any]] = {}
        # Groups that have ended and still release what they hold; a task without a reference may
        # vanish.
        self._ending: set[asyncio.Task[None]] = set()

    def subscribe(
        self, *, trigger_id: int, trigger: BaseEventTrigger, key: Hashable
    ) -> AsyncIterator[Any]:
        """Return the raw events of the key from now on; its first subscriber opens the source.

        The source is opened with the class and the arguments of that first trigger.
        """
        if key is None:
            raise ValueError("a shared stream needs a key; None means that a trigger shares none")
        group = self._groups.get(key)
        if group is None:
            group_class = AckGroup if _is_acknowledged(type(trigger)) else FastGroup
            group = group_class(
                key=key,
                trigger_class=type(trigger),
                kwargs=trigger.serialize()[1],
                limits=self._limits,
                on_end=self._evict,
                wrap_producer=self._wrap_producer,
                log=self._log,
            )
            group.start()
            self._groups[key] = group
        stream: AsyncIterator[Any] = group.subscribe(trigger_id)
        return stream

    def bind_pending_event(self, *, trigger_id: int, key: Hashable) -> int | None:
        """Return a number for something that the trigger derived from the event it has open.

        The event is held until that number is confirmed. None if there is nothing to hold.
        """
        group = self._groups.get(key)
        subscriber = group.subscribers.get(trigger_id) if isinstance(group, AckGroup) else None
        event = None if subscriber is None else subscriber.bind()
        if subscriber is None or event is None:
            return None
        seq = next(self._seqs)
        self._unconfirmed[seq] = subscriber, event
        return seq

    def confirm_persisted(self, seqs: Iterable[int]) -> None:
        """Note that what has these numbers is persisted; unknown ones are ignored."""
        for seq in seqs:
            unconfirmed = self._unconfirmed.pop(seq, None)
            if unconfirmed is not None:
                subscriber, event = unconfirmed
                subscriber.confirm(event)

    async def unsubscribe(self, trigger_id: int, key: Hashable) -> None:
        """Remove a trigger from its stream, and close the source if it was the last one."""
        group = self._groups.get(key)
        if group is None:
            return
        group.unsubscribe(trigger_id)
        if not group.subscribers:
            self._evict(group)
            group.cancel()
            # Being cancelled here leaves the group to end by itself.
            await asyncio.wait([group.task])

    async def stop_all(self) -> None:
        """Close every source, and return when everything is released."""
        for group in list(self._groups.values()):
            self._evict(group)
            group.cancel()
        if self._ending:
            await asyncio.wait(self._ending)

    def _evict(self, group: SharedStreamGroup[Any]) -> None:
        """Forget a group, so that the next subscriber of its key starts a new one."""
        del self._groups[group.key]
        self._ending.add(group.task)
        group.task.add_done_callback(self._ending.discard)
        if isinstance(group, AckGroup):
            over = set(group.unresolved)
            self._unconfirmed = {
                seq: bound for seq, bound in self._unconfirmed.items() if bound[0] not in over
            }


def _is_acknowledged(trigger_class: type[BaseEventTrigger]) -> bool:
    """Whether the class, or one between it and `BaseEventTrigger`, makes a producer."""
    classes = trigger_class.__mro__
    own = classes[: classes.index(BaseEventTrigger)]
    return any("create_shared_stream_producer" in vars(one) for one in own)
