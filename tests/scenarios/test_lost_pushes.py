"""Pushes whose message is lost, or whose registration fails for long: they are sent again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, aws
from lamplighter.bundles.archive import Archive
from lamplighter.registry import pushes
from lamplighter.registry.pushes import MAX_RESENDS
from lamplighter.store.bundles import BUNDLE as BUNDLE_KIND
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import Catalog
from lamplighter_local.emulator.moto_memory import queue_at
from lamplighter_operations.push import push_archive
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.faults import Kind

NOON = datetime(2026, 1, 5, 12, 0, 5)
BUNDLE = "objects"


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment at noon, whose tables must be sound in the end."""
    with LocalDeployment(at=NOON) as made:
        yield made
        made.check_invariants()


def push_unheard(lamp: LocalDeployment, *dag_ids: str) -> None:
    """Push DAGs, and lose what S3 tells about it."""
    lamp.stack._objects.push([DAG(name, schedule=Asset("a")) for name in dag_ids], BUNDLE)
    queue_at(lamp.queue_url("registers"))._messages.clear()


def row() -> Catalog:
    """Return the row of the bundle."""
    return Catalog.get(BUNDLE_KIND, BUNDLE, consistent_read=True)


def dag_ids(lamp: LocalDeployment) -> list[str]:
    """Return the DAGs that are registered and not stale."""
    return [dag.dag_id for dag in lamp.dags() if not lamp.stack.dag(dag.dag_id).is_stale]


def while_register_does(lamp: LocalDeployment, instead: Callable[[], Any]) -> Callable[[], None]:
    """Let `register` do something else; return what ends this."""
    real = lamp.stack.call

    def call(function: str, event: dict[str, Any]) -> Any:
        return instead() if function == "register" else real(function, event)

    def end() -> None:
        lamp.stack.call = real

    lamp.stack.call = call
    return end


def test_push_whose_message_is_lost_is_registered(lamp: LocalDeployment) -> None:
    """The sweep finds it after a while, and sends it once."""
    push_unheard(lamp, "one")
    lamp.run_until_idle()
    assert dag_ids(lamp) == []
    lamp.advance(minutes=5)
    assert dag_ids(lamp) == ["one"]
    assert (row().registered, row().resends) == (1, 1)
    lamp.advance(days=2)
    assert row().resends == 1


def test_newest_of_several_lost_pushes_is_registered(lamp: LocalDeployment) -> None:
    """What an older push defined is not seen even for a moment."""
    push_unheard(lamp, "one")
    push_unheard(lamp, "one", "two")
    push_unheard(lamp, "three")
    lamp.advance(minutes=5)
    assert (dag_ids(lamp), row().registered) == (["three"], 3)
    assert len(lamp.dags()) == 1


def test_push_that_died_before_its_announcement_is_nothing_to_do(lamp: LocalDeployment) -> None:
    """There is no object, so nothing is sent; the push before it is registered all the same."""
    push_unheard(lamp, "one")
    next_push_number(BUNDLE)
    lamp.advance(minutes=10)
    assert (dag_ids(lamp), row().registered, row().pushed) == (["one"], 1, 2)
    lamp.advance(days=3)
    assert row().resends == MAX_RESENDS
    assert lamp.stack.sweep()["resent_pushes"] == 0


@pytest.mark.parametrize("is_lost", [False, True])
def test_push_is_registered_when_register_is_back_after_an_hour(
    lamp: LocalDeployment, is_lost: bool
) -> None:
    """Whether its messages wait or are lost, the newest push is registered, and sent few times."""
    back = while_register_does(
        lamp, (lambda: {"batchItemFailures": []}) if is_lost else lambda: None
    )
    lamp.stack._objects.push([DAG("one", schedule=Asset("a"))], BUNDLE)
    lamp.advance(hours=1)
    assert dag_ids(lamp) == []
    assert 1 <= row().resends <= 5
    if not is_lost:
        waiting = queue_at(lamp.queue_url("registers"))._messages
        assert sum("pushes" in message.body for message in waiting) == row().resends + 1
    back()
    lamp.advance(hours=2)
    assert (dag_ids(lamp), row().registered) == (["one"], 1)


def test_archive_that_cannot_be_read_comes_to_its_end(lamp: LocalDeployment) -> None:
    """It is noted as a problem and not sent again; the next push is registered."""
    lamp.push([DAG("one", schedule=Asset("a"))])
    push_archive(Archive(b"no archive", "0" * 64, ()), BUNDLE)
    lamp.advance(days=1)
    assert (row().registered, row().unreadable_push) == (1, 2)
    assert row().resends is None
    lamp.push([DAG("two", schedule=Asset("a"))])
    assert (dag_ids(lamp), row().registered) == (["two"], 3)


def test_push_that_can_never_be_registered_is_not_sent_for_ever(lamp: LocalDeployment) -> None:
    """Its messages become dead letters, and after some tries there are no new ones."""
    key = pushes.announcement_key(BUNDLE, next_push_number(BUNDLE))
    aws.client("s3").put_object(Bucket=lamp.stack.settings.bucket, Key=key, Body=b"no JSON")
    lamp.advance(days=3)
    assert row().resends == MAX_RESENDS
    assert len(lamp.dead_letters()) == MAX_RESENDS + 1
    lamp.advance(days=3)
    assert len(lamp.dead_letters()) == MAX_RESENDS + 1
    push_unheard(lamp, "two")
    lamp.advance(minutes=10)
    assert dag_ids(lamp) == ["two"]


@pytest.mark.parametrize("kind", ["crash-before", "crash-after", "lost-answer", "throttle"])
@pytest.mark.parametrize("operation", ["ListObjectsV2", "SendMessageBatch", "UpdateItem"])
def test_fault_while_a_lost_push_is_sent_again_loses_nothing(
    lamp: LocalDeployment, operation: str, kind: Kind
) -> None:
    """Whatever a sweep got done, the push is registered by a later one."""
    push_unheard(lamp, "one")
    lamp.faults.at(1, kind, operation)
    lamp.advance(minutes=20)
    assert lamp.faults.pending == []
    assert (dag_ids(lamp), row().registered) == (["one"], 1)
