"""Why a reader of a shared stream is told that its stream is over.

Owns: the errors that this package makes itself; what a source or an `advance` raises reaches the
readers as it is.
"""

from lamplighter.errors import LamplighterError


class AckTimeout(LamplighterError):
    """A reader took longer over an event than the manager's `ack_timeout`."""


class SubscriberOverflow(LamplighterError):
    """A reader is so far behind that its queue is full."""


class PollTerminated(LamplighterError):
    """The source has no more events: its stream returned, or its task was cancelled."""


class PollFailure:
    """What a reader is to raise at its next pull, once."""

    __slots__ = ("exc",)

    def __init__(self, exc: BaseException) -> None:
        self.exc = exc
