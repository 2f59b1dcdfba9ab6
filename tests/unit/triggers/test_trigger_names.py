"""What a trigger written for Airflow finds under the same names."""

import asyncio
import logging

import pytest

from lamplighter.triggers import shared_stream
from lamplighter.triggers.base import (
    BaseTaskEndEvent,
    TaskFailedEvent,
    TaskSkippedEvent,
    TaskSuccessEvent,
    TriggerEvent,
)
from tests.parity.shared_stream_kit import Kit
from tests.parity.shared_stream_source import settle

NAMES = {
    "AckTimeout",
    "AdvanceItem",
    "AdvanceOutcome",
    "DEFAULT_ACK_TIMEOUT",
    "DEFAULT_SUBSCRIBER_QUEUE_MAX",
    "SharedStreamManager",
    "SharedStreamProducer",
    "_PollFailure",
    "_PollTerminated",
    "_SharedStreamGroup",
    "_SubscriberOverflow",
    "reject_shared_stream_event",
}


def test_shared_stream_package_offers_the_names() -> None:
    """All that triggers, and tests of triggers, import is there."""
    assert set(shared_stream.__all__) == NAMES
    assert all(hasattr(shared_stream, name) for name in NAMES)


@pytest.mark.parametrize(
    ("kind", "state"),
    [(TaskSuccessEvent, "success"), (TaskFailedEvent, "failed"), (TaskSkippedEvent, "skipped")],
)
def test_task_end_event_has_state_as_payload(kind: type[BaseTaskEndEvent], state: str) -> None:
    """An event that ends a task is an event like others, and carries what it is given."""
    event = kind(xcoms={"rows": 3})
    assert isinstance(event, TriggerEvent)
    assert (event.payload, event.xcoms) == (state, {"rows": 3})
    assert repr(event) == f"TriggerEvent<{state!r}>"


async def _read_by_three() -> str:
    kit = Kit("lamplighter")
    manager = shared_stream.SharedStreamManager()
    for number in range(3):
        manager.subscribe(trigger_id=number, trigger=kit.acked(), key=("queue", 1))
    await settle()
    await manager.stop_all()
    return str(kit.acked().log.name)


def test_group_that_starts_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    """There is one line for each key, however many share it."""
    caplog.set_level(logging.INFO, logger="lamplighter")
    asyncio.run(_read_by_three())
    assert caplog.messages == ["Shared stream group started key=('queue', 1)"]


def test_trigger_logs_under_the_name_of_its_class() -> None:
    """`self.log` is there, as authors know it."""
    assert asyncio.run(_read_by_three()).endswith("Acked")
