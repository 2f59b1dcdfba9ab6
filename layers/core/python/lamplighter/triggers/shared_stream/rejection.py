"""How a filter refuses an event: `reject_shared_stream_event()`.

Owns: knowing which event a filter has open, by a context variable, so that the function needs no
argument and cannot reach the event of another filter.
"""

import logging
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING

from lamplighter.triggers.shared_stream.lanes import StreamEvent

if TYPE_CHECKING:
    from lamplighter.triggers.shared_stream.subscriber import AckSubscriber

log = logging.getLogger(__name__)

# Who pulled last in this context, and what; it stays when the event is no longer open.
last_pulled: ContextVar[tuple["AckSubscriber", StreamEvent] | None] = ContextVar(
    "shared_stream_last_pulled", default=None
)
# Told of each rejection, and why; set by whoever runs the filter.
on_rejection: ContextVar[Callable[[str | None], None] | None] = ContextVar(
    "shared_stream_on_rejection", default=None
)


def reject_shared_stream_event(reason: str | None = None) -> None:
    """Count the event that the calling filter has open as rejected, whatever is made of it.

    The reason, which Airflow's function does not have, is kept with the refused message.
    Without such an event nothing happens but a warning: outside a filter, between events, on a
    stream that is not acknowledged, or in a task that the filter did not start for the event.
    """
    pulled = last_pulled.get()
    if pulled is None or not pulled[0].reject(pulled[1]):
        log.warning("reject_shared_stream_event: there is no open event to reject; nothing is done")
    elif (tell := on_rejection.get()) is not None:
        tell(reason)
