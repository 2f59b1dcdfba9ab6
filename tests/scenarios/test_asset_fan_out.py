"""Handing events on: to very many, past one who is broken, and after a crash."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, aws, queues
from lamplighter.errors import TransientError
from lamplighter.events import fan_out as handing_on
from lamplighter.events.fan_out import MAX_AT_ONCE
from lamplighter.scheduler import pending
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.models import AssetEvents, Assets, Dags, Runs
from lamplighter.store.models.assets import ITSELF
from lamplighter_local import handlers
from lamplighter_local.deliveries import _record
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.scenarios.acts import register
from tests.tools.faults import Crash
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

A = Asset("a")


@pytest.fixture
def few() -> Iterator[int]:
    """Let five consumers be as many as are claimed at once."""
    with patch.object(handing_on, "MAX_AT_ONCE", 5):
        yield 5


def consumers(number: int) -> list[DAG]:
    """Return so many DAGs that wait for one asset."""
    return [DAG(f"dag-{at:03}", schedule=A) for at in range(number)]


def counts(dags: list[DAG]) -> set[int]:
    """Return how many runs there are of each, all equal numbers as one."""
    runs = Counter(run.dag_id for run in Runs.scan(consistent_read=True))
    return {runs[dag.dag_id] for dag in dags}


def messages(url: str) -> int:
    """Return how many messages can be received from a queue now."""
    found = aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    return int(found["Attributes"]["ApproximateNumberOfMessages"])


def is_open(asset: str = "a") -> bool:
    """Return whether it may be that not everyone has seen the newest event."""
    return Assets.get(asset, ITSELF, consistent_read=True).open_shard is not None


def take_only_events(stack: LocalStack) -> None:
    """Deliver events, and leave lying what comes of them."""
    only = [(stack.settings.queue_url("events"), "ingest")]
    with patch.object(stack, "_sources", lambda: only):
        stack.run_until_idle()


# Very many.


@pytest.mark.full
def test_event_reaches_more_consumers_than_fit_at_once(stack: LocalStack) -> None:
    """They are claimed by messages, in chunks, each of them once; the sweep closes the asset."""
    dags = consumers(120)
    register(stack, *dags)
    stack.emit("a")
    take_only_events(stack)
    assert (counts(dags), is_open()) == ({0}, True)
    assert messages(stack.settings.queue_url("claims")) == 3
    stack.run_until_idle()
    assert counts(dags) == {1}
    stack.advance(minutes=10)
    assert (counts(dags), is_open()) == ({1}, False)
    require_sound()


@pytest.mark.full
def test_as_many_consumers_as_fit_need_no_message(stack: LocalStack) -> None:
    """Up to the limit all fire where the event is taken."""
    dags = consumers(MAX_AT_ONCE)
    register(stack, *dags)
    stack.emit("a")
    take_only_events(stack)
    assert (counts(dags), is_open()) == ({1}, False)
    assert messages(stack.settings.queue_url("claims")) == 0
    require_sound()


def test_second_event_before_the_chunks_arrive_makes_one_run_each(
    stack: LocalStack, few: int
) -> None:
    """Chunks of two events find two events pending the first time, and none the second time."""
    dags = consumers(few + 2)
    register(stack, *dags)
    stack.emit("a")
    take_only_events(stack)
    stack.emit("a")
    take_only_events(stack)
    stack.run_until_idle()
    assert counts(dags) == {1}
    assert stack.runs("dag-006")[0].events == {"a": [0, 2]}
    require_sound()


# Someone who is broken.


@contextmanager
def broken(dag_id: str) -> Iterator[None]:
    """Let a DAG's row hold a condition that cannot be read, as after a step back in versions."""
    row = Dags.get(dag_id)
    before = row.asset_condition
    row.update([Dags.asset_condition.set({"of the future": 5})])
    yield
    row.update([Dags.asset_condition.set(before)])


@pytest.mark.parametrize("number", [3, 8])
def test_consumer_that_cannot_be_read_holds_up_no_other(
    stack: LocalStack, few: int, number: int
) -> None:
    """It is marked on its own row; the others have their runs, and the event is taken."""
    dags = consumers(number)
    register(stack, *dags)
    with broken("dag-001"):
        stack.emit("a")
        stack.run_until_idle()
        assert stack.dag("dag-001").schedule_error
        assert stack.runs("dag-001") == []
    del dags[1]
    stack.advance(minutes=10)
    assert (counts(dags), is_open()) == ({1}, False)
    assert messages(stack.settings.queue_url("events-dlq")) == 0


def test_timetable_is_not_asked_for_an_event(stack: LocalStack) -> None:
    """One that cannot be read stops timed runs, and a DAG that waits for assets only has none."""
    register(stack, DAG("dag", schedule=A))
    Dags("dag").update([Dags.timetable.set('{"type": "of the future"}')])
    stack.emit("a")
    stack.run_until_idle()
    assert len(stack.runs("dag")) == 1


def test_mended_consumer_makes_up_for_what_it_missed(stack: LocalStack) -> None:
    """The next push mends it, and the event that it could not take is still pending."""
    register(stack, DAG("dag", schedule=A))
    with broken("dag"):
        stack.emit("a")
        stack.run_until_idle()
    register(stack, DAG("dag", schedule=A))
    assert stack.dag("dag").schedule_error is None
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}]
    require_sound()


def test_push_mends_a_condition_that_cannot_be_read(stack: LocalStack) -> None:
    """Also one on names that share events, of which it is asked with which of them it begins."""
    dag = DAG("dag", schedule=(A | AssetAlias("fresh")))
    register(stack, dag)
    Dags("dag").update([Dags.asset_condition.set({"of the future": 5})])
    register(stack, dag)
    stack.emit("a")
    stack.run_until_idle()
    assert len(stack.runs("dag")) == 1
    require_sound()


def test_broken_consumer_with_waiting_events_is_left_alone(stack: LocalStack) -> None:
    """It is looked at once, and not over and over again because something waits for it."""
    register(stack, DAG("dag", schedule=A))
    pause("dag")
    stack.emit("a")
    stack.run_until_idle()
    left = iter(range(20))
    with broken("dag"):
        unpause("dag")
        claim_all(["dag"], has_time=lambda: next(left, None) is not None)
    assert next(left, None) is not None
    assert stack.dag("dag").schedule_error


def test_consumer_whose_assets_stay_busy_holds_up_no_other(stack: LocalStack) -> None:
    """An alias under a storm of events: whoever waits for it comes later, and the others now."""
    mixed = DAG("mixed", schedule=(A | AssetAlias("fresh")))
    timed = DAG("timed", schedule="0 * * * *", start_date=stack.clock.now().subtract(hours=3))
    register(stack, mixed, DAG("dag", schedule=A), timed)
    stack.clock.move(to=stack.clock.now().add(hours=1))
    stack.emit("a")
    busy = TransientError("assets stayed busy")
    with patch.object(pending, "read_assets_at_one_moment", side_effect=busy):
        stack.run_until_idle()
        claim_all(["mixed", "timed"])
        runs = [len(stack.runs(dag_id)) for dag_id in ("mixed", "dag", "timed")]
    assert runs == [0, 1, 3]
    stack.advance(minutes=5)
    assert [run.events for run in stack.runs("mixed")] == [{"a": [0, 1]}]
    require_sound()


# A crash.


def crash(*_: Any, **__: Any) -> None:
    """Die in the place of whoever was to be called."""
    raise Crash("before the event was handed on")


def record_and_crash(stack: LocalStack, *, is_lost: bool = False) -> None:
    """Let an event be recorded by a process that dies before it hands it on."""
    url, sqs = stack.settings.queue_url("events"), aws.client("sqs")
    stack.emit("a")
    (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
    with (
        patch.object(handing_on, "claim_all", crash),
        patch.object(queues, "send_claims", crash),
        pytest.raises(Crash),
    ):
        handlers.call("ingest", {"Records": [_record(url, message)]})
    if is_lost:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert is_open()


def test_redelivery_hands_on_what_a_crash_left(stack: LocalStack) -> None:
    """The message was not acknowledged: it comes again, and its event is not recorded twice."""
    register(stack, DAG("dag", schedule=A))
    record_and_crash(stack)
    assert stack.runs("dag") == []
    stack.advance(minutes=5)
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}]
    assert (len(list(AssetEvents.query("a"))), is_open()) == (1, False)
    require_sound()


def test_next_event_hands_on_what_a_crash_left(stack: LocalStack) -> None:
    """Whoever comes next takes the earlier event along."""
    register(stack, DAG("dag", schedule=A))
    record_and_crash(stack)
    stack.emit("a")
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 2]}]
    stack.advance(minutes=5)
    assert len(stack.runs("dag")) == 1
    require_sound()


def test_sweep_hands_on_what_nobody_delivers_again(stack: LocalStack) -> None:
    """The message is gone; the sweep finds the open asset, but not before its time."""
    register(stack, DAG("dag", schedule=A))
    record_and_crash(stack, is_lost=True)
    assert stack.sweep()["claimed_runs"] == 0
    stack.advance(seconds=stack.settings.resend_after_seconds)
    assert stack.sweep()["claimed_runs"] == 1
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}]
    assert (stack.sweep()["claimed_runs"], is_open()) == (0, False)
    require_sound()


def test_sweep_hands_on_to_more_than_fit_at_once(stack: LocalStack, few: int) -> None:
    """The sweep claims a crowd itself: messages would leave nobody to remember."""
    dags = consumers(few + 2)
    register(stack, *dags)
    record_and_crash(stack, is_lost=True)
    stack.advance(seconds=stack.settings.resend_after_seconds)
    stack.sweep()
    assert (counts(dags), is_open()) == ({1}, False)
    require_sound()


def test_swept_event_of_a_busy_consumer_waits_for_its_slot(stack: LocalStack) -> None:
    """The sweep hands on; that the consumer cannot run now is then known on its row."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    stack.emit("a")
    stack.run_until_idle()
    record_and_crash(stack, is_lost=True)
    stack.advance(seconds=stack.settings.resend_after_seconds)
    stack.sweep()
    assert not is_open()
    (run,) = stack.runs("dag")
    finish_run("dag", run.run_key, state="success")
    stack.run_until_idle()
    assert len(stack.runs("dag")) == 2
    require_sound()
