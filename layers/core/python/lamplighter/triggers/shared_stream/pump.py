"""Advancing: telling the producer what is done with.

Owns: that one `advance` is awaited at a time, and that a stop comes only after everything that was
resolved by then is advanced.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable

from lamplighter.triggers.shared_stream.failures import PollTerminated
from lamplighter.triggers.shared_stream.lanes import Lanes
from lamplighter.triggers.shared_stream.producer import SharedStreamProducer


class AdvancePump:
    """The task that advances a group's resolved events, once it is started."""

    def __init__(
        self,
        *,
        key: Hashable,
        producer: SharedStreamProducer,
        on_failure: Callable[[BaseException], None],
        log: logging.Logger,
    ) -> None:
        self._key = key
        self._producer = producer
        self._on_failure = on_failure
        self._log = log
        self._has_work = asyncio.Event()
        self._is_stopping = False
        self.lanes = Lanes(self._has_work.set)
        self._task = asyncio.create_task(self._run(), name=f"shared-stream-advance[{key!r}]")

    async def finish(self) -> None:
        """Return when everything that is resolved is advanced, and nothing else will be.

        Whoever is cancelled here gives up an `advance` that is under way.
        """
        self._is_stopping = True
        self._has_work.set()
        try:
            await asyncio.wait([self._task])
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise

    async def _run(self) -> None:
        try:
            while True:
                while batch := self.lanes.next_batch():
                    await self._producer.advance(batch)
                if self._is_stopping:
                    return
                self._has_work.clear()
                await self._has_work.wait()
        except asyncio.CancelledError:
            # Not handed on as it is: a reader would take it for its own cancellation.
            self._on_failure(PollTerminated(f"shared stream {self._key!r}: advance was cancelled"))
            raise
        except Exception as exc:  # noqa: BLE001 - whatever the author's code raises, all readers get
            self._log.exception("Shared stream advance failed key=%r", self._key)
            self._on_failure(exc)
