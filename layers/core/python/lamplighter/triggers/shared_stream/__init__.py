"""One connection to a source for many triggers, acknowledged only when all of them are done.

`SharedStreamManager` opens a source once for each key and fans out every raw event to all who are
subscribed at that moment. If the trigger makes a `SharedStreamProducer`, each event is given back
to it with the outcome, lane by lane in order, as soon as every subscriber has resolved it.
"""

from lamplighter.triggers.shared_stream.groups import SharedStreamGroup as _SharedStreamGroup
from lamplighter.triggers.shared_stream.manager import (
    DEFAULT_ACK_TIMEOUT,
    DEFAULT_SUBSCRIBER_QUEUE_MAX,
    SharedStreamManager,
)
from lamplighter.triggers.shared_stream.producer import (
    AckTimeout,
    AdvanceItem,
    AdvanceOutcome,
    SharedStreamProducer,
)
from lamplighter.triggers.shared_stream.producer import PollTerminated as _PollTerminated
from lamplighter.triggers.shared_stream.producer import SubscriberOverflow as _SubscriberOverflow
from lamplighter.triggers.shared_stream.subscriber import PollFailure as _PollFailure
from lamplighter.triggers.shared_stream.subscriber import reject_shared_stream_event

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
