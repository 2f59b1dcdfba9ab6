"""Events of outlets while `ingest` is down: sent again seldom, and recorded once."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask, aws
from lamplighter.store.models import AssetEvents
from lamplighter_local.emulator.moto_memory import queue_at
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.faults import Kind

NOON = datetime(2026, 1, 5, 12, 0, 5)
ASSETS = [Asset(f"a{at}") for at in range(6)]


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment with a DAG of six outlets and one that waits for all of them."""
    with DAG("producer") as producer:
        SparkTask("make", job="jobs:make", outlets=ASSETS)
    consumer = DAG("consumer", schedule=ASSETS)
    with LocalDeployment([producer, consumer], at=NOON) as made:
        yield made
        made.check_invariants()


@contextmanager
def without_ingest(lamp: LocalDeployment) -> Iterator[None]:
    """Let nothing be received from `events` until the block ends."""
    real = lamp.stack._sources
    with patch.object(
        lamp.stack, "_sources", lambda: [one for one in real() if one[1] != "ingest"]
    ):
        yield


def waiting(lamp: LocalDeployment) -> int:
    """Return how many messages are on `events`."""
    return len(queue_at(lamp.queue_url("events"))._messages)


def recorded() -> list[tuple[str, int]]:
    """Return the assets of all events that have a number, and the numbers."""
    rows = AssetEvents.scan(consistent_read=True)
    return sorted((row.asset_id, int(row.seq)) for row in rows if row.seq is not None)


def test_events_that_nobody_takes_are_sent_again_less_and_less(lamp: LocalDeployment) -> None:
    """In twelve hours each of six events is sent nine times: once, and eight times again."""
    lamp.trigger("producer")
    with without_ingest(lamp):
        lamp.advance(minutes=1)
        assert waiting(lamp) == len(ASSETS)
        lamp.advance(hours=12)
        assert waiting(lamp) == 9 * len(ASSETS)
    lamp.advance(minutes=10)
    assert recorded() == [(asset.name, 1) for asset in ASSETS]
    assert len(lamp.runs("consumer")) == 1
    lamp.advance(hours=12)
    assert (waiting(lamp), len(lamp.runs("consumer"))) == (0, 1)


@pytest.mark.parametrize("kind", ["crash-before", "crash-after", "lost-answer", "throttle"])
@pytest.mark.parametrize(
    ("number", "operation"), [(1, "SendMessageBatch"), (1, "UpdateItem"), (3, "UpdateItem")]
)
def test_sweep_that_dies_between_sending_and_noting_loses_nothing(
    lamp: LocalDeployment, number: int, operation: str, kind: Kind
) -> None:
    """Whatever a sweep got done, the next ones send every event whose messages are gone."""
    lamp.trigger("producer")
    with without_ingest(lamp):
        lamp.advance(minutes=1)
        aws.client("sqs").purge_queue(QueueUrl=lamp.queue_url("events"))
        lamp.faults.at(number, kind, operation)
        lamp.advance(to=NOON.add(minutes=5))
    assert lamp.faults.pending == []
    lamp.advance(minutes=30)
    assert recorded() == [(asset.name, 1) for asset in ASSETS]
    assert len(lamp.runs("consumer")) == 1
