"""Polled sources whose items a test gives, so that simulated time asks no real ones.

A simulated day has 1,440 polls. Here a polled source answers with what was put there, and is empty
otherwise: no page is requested, no folder read, no author's producer opened. S3 stays as it is: in
this process it is emulated.

Owns: what was put at each source. The real `watch` function polls, remembers and delivers it.
"""

from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.store.watchers import read_registered_watchers
from lamplighter.streams.polling import new_items
from lamplighter.streams.watchers import Watcher, by_stream, watchers_in
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import SOURCES
from lamplighter.triggers.sources import PollingTrigger, SourceItem
from lamplighter.zones import as_utc

_RAW = "raw"
Items = dict[str, SourceItem]  # by name


class GivenSource:
    """The polled source of a watcher, and of all watchers that share it."""

    def __init__(self, watcher: str, items: Items, *, has_items: bool) -> None:
        self._watcher = watcher
        self._items = items
        self._has_items = has_items
        # The deployment's own: another one may be current when something is put.
        self._clock = clock.in_force()

    def put(self, item: Any) -> None:
        """Put something at the source; the next poll, within a minute, finds it.

        Args:
            item: For a `PollingTrigger`, a `SourceItem`; one of the same name is replaced. For a
                trigger with a shared stream, an event as the stream yields it. For any other
                trigger, the payload of an event.
        """
        if not self._has_items:
            # A broker's messages have ids, by which it is known what came twice.
            name = getattr(item, "message_id", None) or f"#{len(self._items) + 1}"
            item = SourceItem(str(name), version="", payload={_RAW: item})
        elif not isinstance(item, SourceItem):
            raise RefusedError(f"{self._watcher}: put a SourceItem at this source, not {item!r}")
        # What has no time of its own comes now. Else the first poll would take it for old.
        modified_at = item.modified_at or as_utc(self._clock.now())
        self._items[item.name] = replace(item, modified_at=modified_at)


class GivenSources:
    """All polled sources of a deployment, by stream."""

    def __init__(self) -> None:
        self._items: dict[str, Items] = {}

    def of(self, path: str) -> GivenSource:
        """Return the source of a watcher, which is named like `asset/watcher`."""
        watchers = {watcher.path: watcher for watcher in watchers_in(read_registered_watchers())}
        if path not in watchers:
            names = ", ".join(sorted(watchers)) or "none"
            raise RefusedError(f"there is no watcher {path!r} (there are: {names})")
        watcher = watchers[path]
        feed = watcher.stream_info.feed
        if feed.queue is not None:
            queue = "sources" if feed.queue == SOURCES else feed.queue
            raise RefusedError(f"{path} reads a queue: use send({queue!r}, …)")
        trigger = watcher.build()
        if not isinstance(trigger, _GivenTrigger):
            raise RefusedError(f"{path} lists bucket {feed.bucket!r}: put an object there")
        has_items = isinstance(trigger.of_author, PollingTrigger)
        return GivenSource(path, self._items_for(watcher), has_items=has_items)

    def _items_for(self, watcher: Watcher) -> Items:
        (stream,) = by_stream([watcher])
        return self._items.setdefault(stream, {})

    def has_news(self, seen_items: Mapping[str, bytes]) -> bool:
        """Return whether a poll would find anything, given what was seen, by stream."""
        return any(
            new_items(list(items.values()), seen_items.get(stream, b""), since=clock.now())
            for stream, items in self._items.items()
        )

    def building_triggers(
        self, build: Callable[[Watcher], BaseEventTrigger]
    ) -> Callable[[Watcher], BaseEventTrigger]:
        """Return what builds triggers that read the given items instead of their real source."""

        def build_here(watcher: Watcher) -> BaseEventTrigger:
            trigger, feed = build(watcher), watcher.stream_info.feed
            is_listing = feed.bucket is not None and isinstance(trigger, PollingTrigger)
            if feed.queue is not None or is_listing:
                return trigger
            return _GivenTrigger(trigger, watcher, self._items_for(watcher))

        return build_here


class _GivenTrigger(PollingTrigger):
    """A trigger whose source is never opened: it is polled here, and only its filter is used."""

    def __init__(self, of_author: BaseEventTrigger, watcher: Watcher, items: Items) -> None:
        super().__init__()
        self.of_author = of_author
        self._is_shared = watcher.stream_info.stream is not None
        self._items = items

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self.of_author.serialize()

    def shared_stream_key(self) -> Hashable | None:
        return self.of_author.shared_stream_key()

    # Of the object and not of its class: each deployment has its own items.
    async def poll(self, kwargs: dict[str, Any]) -> Sequence[SourceItem]:  # type: ignore[override] # noqa: ARG002 - they describe the real source
        return list(self._items.values())

    def filter_shared_stream(
        self, shared_stream: AsyncIterator[SourceItem]
    ) -> AsyncIterator[TriggerEvent]:
        if isinstance(self.of_author, PollingTrigger):
            return self.of_author.filter_shared_stream(shared_stream)
        raws = (item.payload[_RAW] async for item in shared_stream)
        if self._is_shared:
            return self.of_author.filter_shared_stream(raws)
        return (TriggerEvent(raw) async for raw in raws)

    async def cleanup(self) -> None:
        await self.of_author.cleanup()
