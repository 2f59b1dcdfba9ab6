"""Sources that are polled: what is new fires once, one polls at a time, and time limits hold."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.events.dead_letters import NOWHERE, dead_letters, make_visible, replay
from lamplighter.store import watchers
from lamplighter.store.models import AssetEvents, WatcherStates
from lamplighter.store.watchers import read_parked, resume
from lamplighter.streams import polling
from lamplighter.streams.delivery_rounds import DeliveryRounds
from lamplighter.streams.polling import poll_sources
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import reject_shared_stream_event
from lamplighter.triggers.sources import PollingTrigger, SourceItem, current_source
from lamplighter_local.stack import LocalStack
from tests.patience import LONG_SECONDS
from tests.tools.call_counter import counted_calls

# A busy machine must not make a source look as if it did not answer.
pytestmark = pytest.mark.usefixtures("jumping_loops")


@dataclass
class Source:
    """What is at the source of a test, and what happens to those who poll it."""

    things: dict[str, str] = field(default_factory=dict)
    polls: int = 0
    failing: set[str] = field(default_factory=set)
    refusing: set[str] = field(default_factory=set)


source = Source()


@pytest.fixture(autouse=True)
def begin_with_an_empty_source() -> None:
    """Let nothing be there at first; a new source would not be the one that triggers see."""
    vars(source).update(vars(Source()))


class Polling(PollingTrigger):
    """Sees what is there, by name and version."""

    def __init__(self, *, who: str = "", times: int = 1) -> None:
        super().__init__()
        self.who = who
        self.times = times

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Polling", {"who": self.who, "times": self.times}

    def shared_stream_key(self) -> Hashable | None:
        return "source"

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:  # noqa: ARG003 - all see the same
        source.polls += 1
        return [SourceItem(name, version) for name, version in source.things.items()]

    def payloads(self, item: SourceItem) -> list[Any]:
        if item.name in source.failing and self.who == "fails":
            raise ConnectionError(item.name)
        if item.name in source.refusing:
            reject_shared_stream_event("it is bad")
        return [f"{item.message_id}.{time}" for time in range(self.times)]


class Objects(PollingTrigger):
    """Sees the objects of a bucket."""

    def __init__(self, *, bucket: str) -> None:
        super().__init__()
        self.bucket = bucket

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Objects", {"bucket": self.bucket}

    def shared_stream_key(self) -> Hashable | None:
        return ("objects", self.bucket)

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:
        return current_source().list_objects(kwargs["bucket"], "in/")

    def payloads(self, item: SourceItem) -> list[Any]:
        return [item.payload["key"]]


def polled(**triggers: BaseEventTrigger) -> DAG:
    """Return a DAG that waits for assets, each with a watcher of its name."""
    return DAG(
        "dag",
        schedule=[
            Asset(name, watchers=[AssetWatcher(name, trigger)])
            for name, trigger in triggers.items()
        ],
    )


def push(stack: LocalStack, **triggers: BaseEventTrigger) -> None:
    """Push watchers, and let their source be polled for the first time."""
    stack.push_dags([polled(**triggers)], bundle="objects")
    stack.advance(minutes=1)


def recorded() -> dict[str, list[str]]:
    """Return by asset what its events say, in the order of their numbers."""
    found: dict[str, list[str]] = {}
    for row in sorted(AssetEvents.scan(consistent_read=True), key=lambda row: row.seq or 0):
        found.setdefault(row.asset_id, []).append(row.extra["payload"])
    return found


@contextmanager
def limited(stack: LocalStack, **limits: Any) -> Iterator[None]:
    """Let other limits hold until the block ends."""
    made = replace(stack.settings, **limits)
    with patch.object(stack.runtime, "settings", made):
        yield


# What is new.


def test_thing_that_stays_fires_once(stack: LocalStack) -> None:
    """However many minutes it is there, and whether it was there before its watcher or not."""
    source.things = {"old": "1"}
    push(stack, a=Polling())
    source.things["new"] = "1"
    stack.advance(minutes=30)
    assert source.polls == 31
    assert recorded() == {"a": ["new@1.0"]}


def test_thing_that_changes_fires_again(stack: LocalStack) -> None:
    """Each version of it is delivered once, to everyone who shares the source."""
    push(stack, a=Polling(), b=Polling(who="b", times=2))
    for version in "12":
        source.things["x"] = version
        stack.advance(minutes=3)
    assert recorded() == {
        "a": ["x@1.0", "x@2.0"],
        "b": ["x@1.0", "x@1.1", "x@2.0", "x@2.1"],
    }
    assert source.polls == 7


def test_object_of_a_bucket_fires_once_and_again_when_it_is_put_again(stack: LocalStack) -> None:
    """A listing tells of objects by what they hold and when they were put."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket="theirs")
    push(stack, a=Objects(bucket="theirs"))
    s3.put_object(Bucket="theirs", Key="in/one.csv", Body=b"1")
    s3.put_object(Bucket="theirs", Key="elsewhere.csv", Body=b"1")
    stack.advance(minutes=5)
    assert recorded() == {"a": ["in/one.csv"]}
    s3.put_object(Bucket="theirs", Key="in/one.csv", Body=b"2")
    stack.advance(minutes=5)
    assert recorded() == {"a": ["in/one.csv", "in/one.csv"]}


def test_thing_that_someone_fails_at_is_delivered_again(stack: LocalStack) -> None:
    """Until everyone has taken it; who took it before takes it as known."""
    push(stack, a=Polling(), b=Polling(who="fails"))
    source.things, source.failing = {"x": "1", "y": "1"}, {"x"}
    stack.advance(minutes=3)
    assert {name: sorted(found) for name, found in recorded().items()} == {
        "a": ["x@1.0", "y@1.0"],
        "b": ["y@1.0"],
    }
    source.failing.clear()
    stack.advance(minutes=3)
    assert {name: sorted(found) for name, found in recorded().items()} == {
        "a": ["x@1.0", "y@1.0"],
        "b": ["x@1.0", "y@1.0"],
    }


def test_refused_thing_is_kept_once_and_cannot_be_sent_back(stack: LocalStack) -> None:
    """A source that is polled takes nothing back; the letter says what was there."""
    push(stack, a=Polling())
    source.things, source.refusing = {"x": "1"}, {"x"}
    stack.advance(minutes=5)
    (letter,) = dead_letters(limit=10)
    make_visible([letter])
    assert (json.loads(letter.body), letter.queue_arn) == ({"name": "x"}, NOWHERE)
    assert letter.reason == "rejected by watcher 'a' of asset 'a': it is bad"


def test_watcher_that_joins_others_gets_only_what_comes(stack: LocalStack) -> None:
    """A source that is known stays known; nothing fires twice for those who were there."""
    push(stack, a=Polling())
    source.things = {"x": "1"}
    stack.advance(minutes=2)
    push(stack, a=Polling(), b=Polling(who="b"))
    source.things["y"] = "1"
    stack.advance(minutes=2)
    assert recorded() == {"a": ["x@1.0", "y@1.0"], "b": ["y@1.0"]}


def test_source_that_was_left_and_is_watched_again_begins_anew(stack: LocalStack) -> None:
    """What came while nobody watched is no news to who comes later."""
    push(stack, a=Polling())
    stack.push_dags([DAG("dag", schedule=[Asset("a")])], bundle="objects")
    source.things = {"meanwhile": "1"}
    stack.advance(minutes=5)
    push(stack, a=Polling(), b=Polling(who="b"))
    source.things["later"] = "1"
    stack.advance(minutes=2)
    assert recorded() == {"a": ["later@1.0"], "b": ["later@1.0"]}


# One polls at a time.


def test_source_that_someone_polls_is_left_to_them(stack: LocalStack) -> None:
    """While a lease is held nobody else polls; when it has expired, the next one does."""
    push(stack, a=Polling())
    stream = next(row.id for row in WatcherStates.query("stream"))
    lease = watchers.acquire_lease(stream, seconds=90)
    assert lease is not None
    source.things = {"x": "1"}
    stack.advance(minutes=1)
    assert source.polls == 1
    stack.advance(minutes=1)
    assert source.polls == 2
    assert recorded() == {"a": ["x@1.0"]}


def test_late_one_cannot_write_what_it_saw(stack: LocalStack) -> None:
    """Whoever lost the lease forgets; the seen items are those of who has it."""
    assert stack.settings.bucket
    late = watchers.acquire_lease("s", seconds=10)
    assert watchers.acquire_lease("s", seconds=10) is None
    stack.clock.advance(timedelta(seconds=10))
    present = watchers.acquire_lease("s", seconds=10)
    assert late is not None
    assert present is not None
    assert not watchers.release_lease(late, seen_items=b"late")
    assert watchers.release_lease(present, seen_items=b"present")
    again = watchers.acquire_lease("s", seconds=10)
    assert again is not None
    assert again.seen_items == b"present"


def test_two_that_wake_at_once_poll_once(stack: LocalStack) -> None:
    """The lease decides, whoever is faster."""
    push(stack, a=Polling())
    source.things = {"x": "1"}
    both = threading.Barrier(2)

    def ask() -> None:
        both.wait(timeout=LONG_SECONDS)
        poll_sources(seconds=5)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    with patch.object(watchers, "release_lease", return_value=True):  # held until it expires
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert source.polls == 2
    stack.run_until_idle()
    assert recorded() == {"a": ["x@1.0"]}


def test_session_costs_a_lease_and_a_query_however_many_watch(stack: LocalStack) -> None:
    """Who watches and who is parked is read once; a quiet source is two writes a minute."""
    push(stack, **{f"a{at}": Polling(who=str(at)) for at in range(10)})
    with counted_calls() as calls:
        stack.poll_sources()
    assert dict(calls) == {"Query": 2, "UpdateItem": 2}


# Those who fire too often.


def test_watcher_that_fires_too_often_is_parked_until_someone_resumes_it(
    stack: LocalStack,
) -> None:
    """What it makes meanwhile is kept, and can be sent when it may fire again."""
    with limited(stack, watcher_events_per_minute=5):
        push(stack, busy=Polling(times=3), calm=Polling(who="calm"))
        source.things = {"x": "1", "y": "1"}
        stack.advance(minutes=1)
        assert recorded() == {
            "busy": ["x@1.0", "x@1.1", "x@1.2", "y@1.0", "y@1.1", "y@1.2"],
            "calm": ["x@1.0", "y@1.0"],
        }
        (parked,) = read_parked()
        assert parked.startswith("busy/busy/")
        source.things["z"] = "1"
        stack.advance(minutes=3)
        assert len(recorded()["busy"]) == 6
        assert recorded()["calm"][-1] == "z@1.0"
        resume([parked])
        letters = dead_letters(limit=10)
        assert {letter.reason for letter in letters} == {
            "watcher 'busy' of asset 'busy' is parked: it fires too often"
        }
        for letter in letters:
            replay(letter)
        stack.run_until_idle()
        assert recorded()["busy"][6:] == ["z@1.0", "z@1.1", "z@1.2"]
        source.things["u"] = "1"
        stack.advance(minutes=1)
        assert len(recorded()["busy"]) == 12
        assert read_parked() == {}


def test_watcher_that_fires_often_over_hours_is_not_parked(stack: LocalStack) -> None:
    """The limit is one of a minute."""
    with limited(stack, watcher_events_per_minute=5):
        push(stack, busy=Polling(times=5))
        for version in "12345":
            source.things["x"] = version
            stack.advance(minutes=1)
        assert read_parked() == {}
        assert len(recorded()["busy"]) == 25


# Triggers that read by themselves, and time.


class Own(BaseEventTrigger):
    """Reads a source of its own: one event, and then it waits; or events without an end."""

    def __init__(self, *, act: str = "") -> None:
        super().__init__()
        self.act = act

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Own", {"act": self.act}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        yield TriggerEvent("first")
        while self.act == "endless":
            yield TriggerEvent("more")
        await asyncio.Event().wait()


def test_trigger_that_reads_by_itself_has_its_events_sent(stack: LocalStack) -> None:
    """Its session lasts as long as it may, and what it made is on its way at the end."""
    with limited(stack, watch_session_seconds=1):
        push(stack, a=Own())
        assert recorded() == {"a": ["first"]}
        stack.advance(minutes=1)
    assert recorded() == {"a": ["first", "first"]}


def test_endless_trigger_is_stopped_and_parked(stack: LocalStack) -> None:
    """A generator that never waits does not hang the function; others have their session."""
    with limited(stack, watch_session_seconds=1, watcher_events_per_minute=20):
        push(stack, a=Own(act="endless"), b=Own(), c=Polling())
        assert {name: len(found) for name, found in recorded().items()} == {"a": 20, "b": 1}
        assert [name.partition("/")[0] for name in read_parked()] == ["a"]


class Stubborn(Polling):
    """Looks for ever, and will not be cancelled."""

    def shared_stream_key(self) -> Hashable | None:
        return "stubborn"

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:  # noqa: ARG003 - as above
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                source.polls += 100


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_source_that_does_not_answer_is_given_up_alone(stack: LocalStack) -> None:
    """Others have been polled, and the function ends when its time is up."""
    with limited(stack, watch_session_seconds=1):
        push(stack, a=Stubborn(), b=Polling())
        source.things = {"x": "1"}
        stack.advance(minutes=1)
    assert recorded() == {"b": ["x@1.0"]}


def test_source_that_raises_fails_alone_until_the_next_minute(stack: LocalStack) -> None:
    """Nothing of it is remembered, so nothing is missed when it answers again."""
    push(stack, a=Polling())
    source.things = {"x": "1"}
    with patch.object(Polling, "poll", side_effect=ConnectionError):
        stack.advance(minutes=2)
    assert recorded() == {}
    stack.advance(minutes=1)
    assert recorded() == {"a": ["x@1.0"]}


def test_polling_and_delivering_share_the_time(stack: LocalStack) -> None:
    """What polling took is not left for the rest, so that a lease outlives its session."""
    given: list[float] = []

    class Noted(DeliveryRounds):
        def __init__(self, *arrivals: Any, seconds: float, **more: Any) -> None:
            given.append(seconds)
            super().__init__(*arrivals, seconds=seconds, **more)

    push(stack, a=Polling())
    source.things = {"x": "1"}
    clock = iter([100.0, 103.0])
    with (
        patch.object(polling, "DeliveryRounds", Noted),
        patch.object(polling, "monotonic", lambda: next(clock)),
    ):
        poll_sources(seconds=5)
    assert given == [2.0]
