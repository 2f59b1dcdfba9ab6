"""An author's own producer with lanes, through the real function: no watcher misses an event.

The producer is the most dangerous one: it commits whatever it is told of, as a consumer of Kafka
may, so that an event of which it hears too early never comes again.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetWatcher, queues, runtime
from lamplighter.events.dead_letters import NOWHERE, DeadLetter, dead_letters, make_visible
from lamplighter.store.models import AssetEvents, WatcherStates
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.shared_stream import (
    AdvanceItem,
    SharedStreamProducer,
    reject_shared_stream_event,
)
from lamplighter_local.stack import LocalStack

# A busy machine must not make a watcher look as if it hung.
pytestmark = pytest.mark.usefixtures("jumping_loops")


@dataclass(frozen=True)
class Record:
    """An event of the log; its name begins with its partition, as in `a1`."""

    name: str
    message_id: str | None


@dataclass
class Log:
    """What the producer reads and commits, and what the watchers do."""

    names: list[str] = field(default_factory=list)
    # What is appended while a session goes on.
    later: list[str] = field(default_factory=list)
    committed: set[str] = field(default_factory=set)
    # Outcomes by event, as `advance` was told them: acked, failed, rejected.
    told: list[tuple[str, tuple[int, int, int]]] = field(default_factory=list)
    # By watcher and event: raise, hang, slow, return, reject. Anything else makes an event.
    acts: dict[str, dict[str, str]] = field(default_factory=dict)
    has_ids: bool = True
    refuses_commits: bool = False


log = Log()


@pytest.fixture(autouse=True)
def begin_with_an_empty_log() -> None:
    """Let nothing be there at first; a new log would not be the one that triggers see."""
    vars(log).update(vars(Log()))


class Producer(SharedStreamProducer):
    """Reads the log from the committed offsets on, and commits whatever it is told of."""

    async def open_stream(self) -> AsyncIterator[tuple[Record, str]]:
        for name in [one for one in log.names if one not in log.committed]:
            yield Record(name, name if log.has_ids else None), name
        while True:
            await asyncio.sleep(5)
            while log.later:
                name = log.later.pop(0)
                log.names.append(name)
                yield Record(name, name if log.has_ids else None), name

    def get_advance_lane(self, broker_payload: str) -> Hashable:
        return broker_payload[0]

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        if log.refuses_commits:
            raise ConnectionError("the broker is gone")
        for name, outcome in batch:
            log.told.append((name, (outcome.acked, outcome.failed, outcome.rejected)))
        # A batch is of one lane, and a commit covers everything before it in its partition.
        name = batch[-1].broker_payload
        before = log.names[: log.names.index(name) + 1]
        log.committed |= {one for one in before if one[0] == name[0]}


class Reader(BaseEventTrigger):
    """Does with each event what the log says."""

    def __init__(self, *, who: str, version: int = 1) -> None:
        super().__init__()
        self.who = who
        self.version = version

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Reader", {"who": self.who, "version": self.version}

    def shared_stream_key(self) -> Hashable | None:
        return "log"

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:  # noqa: ARG003 - one log
        return Producer()

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Record]
    ) -> AsyncIterator[TriggerEvent]:
        acts = log.acts.get(self.who, {})
        if acts.get("at once") == "return":
            return
        async for record in shared_stream:
            act = acts.get(record.name, acts.get("else", ""))
            if act == "raise":
                raise ConnectionError(f"no {record.name}")
            if act == "hang":
                await asyncio.Event().wait()
            if act == "slow":
                await asyncio.sleep(3)
            if act == "reject":
                reject_shared_stream_event("it is bad")
                continue
            yield TriggerEvent(record.name)
            if act == "return":
                return


def push(stack: LocalStack, *names: str, dag_id: str = "dag", **more: Any) -> None:
    """Push watchers that share the log, one for each name."""
    assets = [
        Asset(name, watchers=[AssetWatcher(name, Reader(who=name, **more))]) for name in names
    ]
    stack.push_dags([DAG(dag_id, schedule=assets)], bundle="objects")


def session(stack: LocalStack, *, times: int = 1) -> None:
    """Let the timer fire, each time a minute later, and let events be recorded."""
    for _ in range(times):
        stack.poll_sources()
        stack.run_until_idle()
        stack.clock.move(to=stack.clock.now().add(minutes=1))


def recorded() -> dict[str, list[str]]:
    """Return by asset what its events say."""
    found: dict[str, list[str]] = {}
    for row in AssetEvents.scan(consistent_read=True):
        found.setdefault(row.asset_id, []).append(row.extra["payload"])
    return {name: sorted(payloads) for name, payloads in found.items()}


def letters() -> list[DeadLetter]:
    """Return the dead letters, which stay."""
    found = dead_letters(limit=100)
    make_visible(found)
    return found


def kept() -> list[tuple[str, str]]:
    """Return the names of the events among the dead letters, with the reasons."""
    return sorted((json.loads(letter.body)["name"], letter.reason) for letter in letters())


@contextmanager
def limited(stack: LocalStack, **limits: Any) -> Iterator[None]:
    """Let other limits hold until the block ends."""
    with patch.object(stack.runtime, "settings", replace(stack.settings, **limits)):
        yield


# A watcher that raises.


def test_watcher_that_raises_in_one_lane_misses_nothing_of_another(stack: LocalStack) -> None:
    """What comes behind an event at which someone raised is not committed, in no lane."""
    push(stack, "shaky", "sound")
    log.names, log.later = ["a1", "b1", "a2", "b2"], ["b3"]
    log.acts = {"shaky": {"a2": "raise"}}
    session(stack)
    assert log.committed == {"a1", "b1"}
    # Nobody else waits for it.
    assert recorded() == {"shaky": ["a1", "b1"], "sound": ["a1", "a2", "b1", "b2", "b3"]}
    log.acts.clear()
    session(stack)
    everything = ["a1", "a2", "b1", "b2", "b3"]
    assert recorded() == {"shaky": everything, "sound": everything}
    assert sorted(log.told) == [(name, (2, 0, 0)) for name in everything]


def test_event_that_always_fails_is_given_up_after_some_sessions(stack: LocalStack) -> None:
    """Then a copy is kept, the producer is told once that it failed, and the stream goes on."""
    push(stack, "shaky", "sound")
    log.names, log.acts = ["a1", "b1", "a2"], {"shaky": {"b1": "raise"}}
    session(stack, times=5)
    assert log.committed == {"a1"}
    assert kept() == []
    session(stack)
    assert log.committed == {"a1", "b1", "a2"}
    assert dict(log.told)["b1"] == (1, 1, 0)
    assert len(log.told) == 3
    assert recorded() == {"shaky": ["a1", "a2"], "sound": ["a1", "a2", "b1"]}
    (letter,) = letters()
    assert json.loads(letter.body) == {"name": "b1", "message_id": "b1"}
    assert letter.queue_arn == NOWHERE
    assert letter.reason == "watcher 'shaky' of asset 'shaky' failed at it: ConnectionError: no b1"


def test_siblings_of_one_that_always_fails_get_few_copies_of_events_without_ids(
    stack: LocalStack,
) -> None:
    """Nobody knows such events again; but what comes again does so a limited number of times."""
    log.has_ids = False
    push(stack, "shaky", "sound")
    log.names, log.acts = ["a1", "b1"], {"shaky": {"a1": "raise"}}
    with limited(stack, watcher_retry_sessions=2):
        session(stack, times=10)
    assert recorded() == {"shaky": ["b1"], "sound": ["a1"] * 3 + ["b1"] * 3}
    assert log.committed == {"a1", "b1"}


def test_watcher_that_fails_at_everything_lets_the_stream_go_on(stack: LocalStack) -> None:
    """Each event is kept for it, and its siblings have no more delay."""
    push(stack, "shaky", "sound")
    log.acts = {"shaky": {"else": "raise"}}
    log.names = ["a1", "b1"]
    with limited(stack, watcher_retry_sessions=1):
        session(stack, times=2)
        log.names += ["a2", "c1"]
        session(stack)
    assert log.committed == {"a1", "b1", "a2", "c1"}
    assert [name for name, _ in kept()] == ["a1", "a2", "b1", "c1"]
    assert recorded() == {"sound": ["a1", "a2", "b1", "c1"]}


def test_session_without_failure_begins_the_count_anew(stack: LocalStack) -> None:
    """Only sessions in a row count; those in which nothing came change nothing."""
    push(stack, "shaky", "sound")
    log.names, log.acts = ["a1"], {"shaky": {"a1": "raise", "a3": "raise"}}
    with limited(stack, watcher_retry_sessions=2):
        session(stack)
        log.acts["shaky"]["a1"] = ""
        session(stack)
        log.names += ["a2", "a3"]
        session(stack)
        assert log.committed == {"a1", "a2"}
        log.names.remove("a3")
        session(stack, times=3)
        log.names.append("a3")
        session(stack)
        assert log.committed == {"a1", "a2"}
        session(stack)
    assert log.committed == {"a1", "a2", "a3"}
    assert [name for name, _ in kept()] == ["a3"]


def test_new_push_of_a_watcher_begins_the_count_anew(stack: LocalStack) -> None:
    """Whoever mends a watcher gets as many sessions as before."""
    push(stack, "shaky", "sound")
    log.names, log.acts = ["a1"], {"shaky": {"a1": "raise"}}
    with limited(stack, watcher_retry_sessions=2):
        session(stack, times=2)
        push(stack, "shaky", "sound", dag_id="renamed")
        session(stack, times=2)
        assert log.committed == set()
        assert kept() == []
        (row,) = WatcherStates.query("stream")
        assert list(row.failed_sessions.values()) == [2]
        log.acts.clear()
        session(stack)
    assert recorded() == {"shaky": ["a1"], "sound": ["a1"]}


@pytest.mark.interferes
def test_event_whose_copy_cannot_be_kept_is_withheld(stack: LocalStack) -> None:
    """The producer hears of it only when the copy is stored, and the source delivers it again."""
    push(stack, "shaky", "sound")
    log.names, log.acts = ["a1", "b1"], {"shaky": {"a1": "raise"}}
    urls = stack.settings.queue_urls | {"sources-dlq": "https://no.such/queue"}
    with limited(stack, watcher_retry_sessions=1):
        session(stack)
        with runtime.using(settings=replace(stack.settings, queue_urls=urls)):
            session(stack)
        assert log.told == []
        session(stack)
    assert log.committed == {"a1", "b1"}
    assert [name for name, _ in kept()] == ["a1"]
    assert recorded() == {"shaky": ["b1"], "sound": ["a1", "b1"]}


# A watcher that hangs, or falls behind.


def test_producer_hears_at_once_of_a_watcher_that_hangs(stack: LocalStack) -> None:
    """It decides about what was not finished; of what comes later it does not hear yet."""
    push(stack, "hangs", "sound")
    log.names, log.later = ["a1", "b1"], ["b2"]
    log.acts = {"hangs": {"b1": "hang"}}
    with limited(stack, shared_stream_ack_timeout=2):
        session(stack)
    assert log.told == [("a1", (2, 0, 0)), ("b1", (1, 1, 0))]
    assert recorded() == {"hangs": ["a1"], "sound": ["a1", "b1", "b2"]}
    log.acts.clear()
    session(stack)
    assert log.told[2:] == [("b2", (2, 0, 0))]
    assert recorded()["hangs"] == ["a1", "b2"]


def test_ack_timeout_is_at_most_half_of_the_session(stack: LocalStack) -> None:
    """However long the setting is, the producer hears of who hangs while it still can act."""
    push(stack, "hangs", "sound")
    log.names, log.later, log.acts = ["a1"], ["b1"], {"hangs": {"a1": "hang"}}
    with limited(stack, shared_stream_ack_timeout=90, watch_session_seconds=8):
        session(stack)
    # The other one came when the first was over.
    assert log.told == [("a1", (1, 1, 0))]


def test_watcher_that_always_hangs_lets_the_stream_go_on(stack: LocalStack) -> None:
    """After some sessions what it does not read is kept for it, and comes no more."""
    log.has_ids = False
    push(stack, "hangs", "sound")
    log.acts = {"hangs": {"else": "hang"}}
    with limited(stack, watcher_retry_sessions=2, shared_stream_ack_timeout=2):
        for at in range(6):
            log.names.append(f"a{at}")
            log.later = [f"b{at}"]
            session(stack)
    assert log.committed == set(log.names)
    counts = {name: recorded()["sound"].count(name) for name in log.names}
    assert set(counts.values()) == {1, 2}
    # What it held up in the first two sessions was the producer's to deliver again.
    assert {name for name, _ in kept()} == set(log.names) - {"a0", "b0", "a1"}


def test_watcher_without_time_gets_the_rest_in_the_next_session(stack: LocalStack) -> None:
    """What it had not read when the session ended is not reported as failed."""
    push(stack, "slow", "sound")
    log.names, log.later, log.acts = ["a1"], ["b1", "b2"], {"slow": {"b1": "slow"}}
    with limited(stack, watch_session_seconds=7):
        session(stack)
        assert log.told == [("a1", (2, 0, 0))]
        session(stack)
    assert log.told == [(name, (2, 0, 0)) for name in ("a1", "b1", "b2")]
    assert recorded() == {"slow": ["a1", "b1", "b2"], "sound": ["a1", "b1", "b2"]}


def test_producer_hears_at_once_of_a_watcher_whose_queue_is_full(stack: LocalStack) -> None:
    """It decides about what was waiting; what comes later is withheld."""
    push(stack, "slow", "sound")
    log.names, log.acts = ["a1", "a2", "a3"], {"slow": {"a1": "slow"}, "sound": {}}
    with limited(stack, shared_stream_subscriber_queue_size=2):
        session(stack)
    failed = {name for name, (_, failed, _) in log.told if failed}
    assert failed
    assert log.committed >= failed


# A watcher that returns, and one that is there in name only.


def test_watcher_that_returns_goes_on_in_the_same_session(stack: LocalStack) -> None:
    """As on a queue: a new one reads behind it, and nothing comes again."""
    push(stack, "returns", "sound")
    log.names, log.acts = ["a1", "b1", "a2"], {"returns": {"else": "return"}}
    session(stack)
    assert recorded() == {"returns": ["a1", "a2", "b1"], "sound": ["a1", "a2", "b1"]}
    assert sorted(log.told) == [(name, (2, 0, 0)) for name in ("a1", "a2", "b1")]


def test_nothing_is_committed_without_a_watcher_that_does_not_read(stack: LocalStack) -> None:
    """Until it is given up; then everything is kept for it."""
    push(stack, "absent", "sound")
    log.names, log.acts = ["a1"], {"absent": {"at once": "return"}}
    with limited(stack, watcher_retry_sessions=2):
        session(stack, times=2)
        assert log.told == []
        session(stack)
    assert log.told == [("a1", (1, 1, 0))]
    assert kept() == [("a1", "watcher 'absent' of asset 'absent' did not finish it")]
    assert recorded() == {"sound": ["a1"]}


def test_rejection_reaches_the_producer_even_if_the_watcher_then_raises(stack: LocalStack) -> None:
    """A rejected event is finished; the next one is the one that comes again."""
    push(stack, "rejects", "sound")
    log.names, log.acts = ["a1", "b1"], {"rejects": {"a1": "reject", "b1": "raise"}}
    session(stack)
    assert log.told == [("a1", (1, 0, 1))]


# What is nobody's fault.


@pytest.mark.interferes
def test_event_that_could_not_be_sent_comes_again(stack: LocalStack) -> None:
    """A queue that does not answer costs no event, and is not the watchers' failure."""
    push(stack, "one", "other")
    log.names = ["a1", "b1"]
    send, tries = queues.send, iter([ConnectionError("no queue")])

    def fail_once(queue: str, messages: Sequence[dict[str, Any]]) -> None:
        if queue == "events" and (error := next(tries, None)):
            raise error
        send(queue, messages)

    with patch.object(queues, "send", fail_once):
        session(stack)
    assert log.told == []
    session(stack)
    assert recorded() == {"one": ["a1", "b1"], "other": ["a1", "b1"]}
    (row,) = WatcherStates.query("stream")
    assert not row.failed_sessions


def test_producer_that_cannot_commit_is_not_the_watchers_failure(stack: LocalStack) -> None:
    """Everything comes again, and nothing is given up, however long it takes."""
    push(stack, "one", "other")
    log.names, log.refuses_commits = ["a1", "b1"], True
    with limited(stack, watcher_retry_sessions=1):
        session(stack, times=4)
        assert kept() == []
        log.refuses_commits = False
        session(stack)
    assert log.committed == {"a1", "b1"}
    assert recorded() == {"one": ["a1", "b1"], "other": ["a1", "b1"]}


def test_session_that_lost_its_lease_counts_nothing(stack: LocalStack) -> None:
    """Who holds the lease counts; the other one's failure is seen again."""
    push(stack, "shaky")
    log.names, log.acts = ["a1"], {"shaky": {"a1": "raise"}}
    open_stream = Producer.open_stream

    def open_late(producer: Producer) -> AsyncIterator[tuple[Record, str]]:
        (row,) = WatcherStates.query("stream")
        row.update([WatcherStates.lease_owner.set("another")])
        return open_stream(producer)

    with patch.object(Producer, "open_stream", open_late):
        session(stack)
    (row,) = WatcherStates.query("stream")
    assert row.failed_sessions is None


def test_log_says_once_a_session_who_shares_the_stream(
    stack: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key, and the watchers that one reading serves."""
    push(stack, "one", "other")
    log.names = ["a1"]
    session(stack, times=2)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    started = [line for line in lines if line["message"].startswith("Shared stream group started")]
    assert [(line["message"], line["watchers"]) for line in started] == [
        ("Shared stream group started key='log'", ["one/one", "other/other"])
    ] * 2
