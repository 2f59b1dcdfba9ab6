"""Which keys are being read, and by whom.

Owns: the one map from key to group. A key is in it only while its source is being polled; whoever
subscribes afterwards starts a new reading. Nothing is remembered beyond the process: what was not
advanced is delivered again by the source.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from time import monotonic
from typing import Any

from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.shared_stream.ack_group import AckGroup
from lamplighter.triggers.shared_stream.bindings import Bindings
from lamplighter.triggers.shared_stream.fast_group import FastGroup
from lamplighter.triggers.shared_stream.group import (
    DEFAULT_ACK_TIMEOUT,
    DEFAULT_SUBSCRIBER_QUEUE_MAX,
    Limits,
    SharedStreamGroup,
)


class SharedStreamManager:
    """Lets triggers with equal keys share one reading of their source, in one event loop."""

    def __init__(
        self,
        *,
        log: logging.Logger | None = None,
        max_subscriber_queue: int = DEFAULT_SUBSCRIBER_QUEUE_MAX,
        ack_timeout: float = DEFAULT_ACK_TIMEOUT,
        cohort_grace_period: float = 0.0,
        _now: Callable[[], float] = monotonic,
    ) -> None:
        self._log = log or logging.getLogger(__name__)
        self._limits = Limits(
            max_subscriber_queue=max_subscriber_queue,
            ack_timeout=ack_timeout,
            cohort_grace_period=cohort_grace_period,
            now=_now,
        )
        self._bindings = Bindings()
        self._groups: dict[Hashable, SharedStreamGroup[Any]] = {}
        # Groups that are over and still release what they hold; a task without a reference may
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
            group = self._new_group(trigger, key)
            group.start()
            self._groups[key] = group
        stream: AsyncIterator[Any] = group.subscribe(trigger_id)
        return stream

    def bind_pending_event(self, *, trigger_id: int, key: Hashable) -> int | None:
        """Return a number for something that the trigger made of the event that it has open.

        The event is held until that number is confirmed. None if there is nothing to hold.
        """
        group = self._groups.get(key)
        if not isinstance(group, AckGroup):
            return None
        subscriber = group.subscribers.get(trigger_id)
        return None if subscriber is None else self._bindings.bind(subscriber)

    def confirm_persisted(self, seqs: Iterable[int]) -> None:
        """Note that what has these numbers is persisted; unknown ones are ignored."""
        self._bindings.confirm(seqs)

    async def unsubscribe(self, trigger_id: int, key: Hashable) -> None:
        """Remove a trigger from its stream, and close the source if it was the last one."""
        group = self._groups.get(key)
        if group is None:
            return
        group.unsubscribe(trigger_id)
        if group.is_empty:
            self._evict(group)
            group.cancel()
            # Being cancelled here leaves the group to end by itself.
            await asyncio.wait([group.task])

    async def stop_all(self) -> None:
        """Close every source, and return when all is released."""
        for group in list(self._groups.values()):
            self._evict(group)
            group.cancel()
        if self._ending:
            await asyncio.wait(self._ending)

    def _new_group(self, trigger: BaseEventTrigger, key: Hashable) -> SharedStreamGroup[Any]:
        _, kwargs = trigger.serialize()
        trigger_class = type(trigger)
        group_class = AckGroup if _is_acknowledged(trigger_class) else FastGroup
        return group_class(
            key=key,
            trigger_class=trigger_class,
            kwargs=kwargs,
            limits=self._limits,
            on_end=self._evict,
            log=self._log,
        )

    def _evict(self, group: SharedStreamGroup[Any]) -> None:
        """Forget a group, so that the next subscriber of its key starts a new one."""
        del self._groups[group.key]
        self._ending.add(group.task)
        group.task.add_done_callback(self._ending.discard)
        if isinstance(group, AckGroup):
            self._bindings.forget(set(group.readers))


def _is_acknowledged(trigger_class: type[BaseEventTrigger]) -> bool:
    """Whether the class, or one between it and `BaseEventTrigger`, makes a producer."""
    classes = trigger_class.__mro__
    own = classes[: classes.index(BaseEventTrigger)]
    return any("create_shared_stream_producer" in vars(one) for one in own)
