"""One reading of a source for many triggers, acknowledged only when everyone is done.

`SharedStreamManager` opens a source once for each key and hands every raw event to all who are
subscribed at that moment. If the trigger makes a `SharedStreamProducer`, each event is given back
to it with the outcome, lane by lane in order, as soon as everyone has resolved it.
"""

from lamplighter.triggers.shared_stream.failures import AckTimeout
from lamplighter.triggers.shared_stream.failures import PollFailure as _PollFailure
from lamplighter.triggers.shared_stream.failures import PollTerminated as _PollTerminated
from lamplighter.triggers.shared_stream.failures import SubscriberOverflow as _SubscriberOverflow
from lamplighter.triggers.shared_stream.group import (
    DEFAULT_ACK_TIMEOUT,
    DEFAULT_SUBSCRIBER_QUEUE_MAX,
)
from lamplighter.triggers.shared_stream.group import SharedStreamGroup as _SharedStreamGroup
from lamplighter.triggers.shared_stream.manager import SharedStreamManager
from lamplighter.triggers.shared_stream.outcome import AdvanceItem, AdvanceOutcome
from lamplighter.triggers.shared_stream.producer import SharedStreamProducer
from lamplighter.triggers.shared_stream.rejection import reject_shared_stream_event

# The names with an underscore are those that tests written for Airflow import.
__all__ = [
    "DEFAULT_ACK_TIMEOUT",
    "DEFAULT_SUBSCRIBER_QUEUE_MAX",
    "AckTimeout",
    "AdvanceItem",
    "AdvanceOutcome",
    "SharedStreamManager",
    "SharedStreamProducer",
    "_PollFailure",
    "_PollTerminated",
    "_SharedStreamGroup",
    "_SubscriberOverflow",
    "reject_shared_stream_event",
]
