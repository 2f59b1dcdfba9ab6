"""One of the processes of a storm of events: threads that ingest, claim, finish, pause and push.

A program that `test_producers` starts several of; `pusher.py` does the same with other bundles.
Each has queues of its own, with messages of which others have some too. A message comes again until
it is answered for.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any
from unittest.mock import patch

from lamplighter import DAG, Asset, AssetAlias
from lamplighter.bundles.importer import ParsedFile
from lamplighter.errors import RefusedError
from lamplighter.events.fan_out import sweep_open
from lamplighter.events.ingest import ingest
from lamplighter.registry.pushes import Push, Retire, read_message
from lamplighter.registry.register import register, retire
from lamplighter.registry.sandbox import Sandbox
from lamplighter.store.models import Assets
from lamplighter_local.dag_objects import parsed_dag
from tests.concurrency import turns
from tests.concurrency.sqs_stand_in import Message, Queue

A, B, C, D, LATE = (Asset(name, f"s3://lake/{name}") for name in ("a", "b", "c", "d", "late"))
FRESH = AssetAlias("fresh")
A_BY_URI, B_BY_URI, C_BY_URI, D_BY_URI = (Asset.ref(uri=asset.uri) for asset in (A, B, C, D))

LATE_BUNDLE = "late"
NARROW, WIDE = "narrow", "wide"

# How long the claim function is dead: not at all, while this process has events, or to the end.
NEVER, WHILE_EVENTS, ALWAYS = "never", "while events", "always"

_PER_BATCH = 10
# How often a consumer of `claims` that found no message makes one up.
_GUESSES = 0.1
_OUT_OF_TIME = 0.03
_EVENTS = ("events", "events.fifo")
_QUEUES = (*_EVENTS, "claims", "submits", "registers")


def late_dags(version: str) -> list[DAG]:
    """Return the DAGs of a bundle that is pushed while events stream in.

    The wide version waits for more: for an asset that the narrow one gives up again, for one that
    nobody knew before, and for URIs whose assets have had events without that.
    """
    if version == NARROW:
        return [DAG("late", schedule=A, max_active_runs=2)]
    return [
        DAG("late", schedule=(A | C), max_active_runs=2),
        DAG("later", schedule=(A_BY_URI | B_BY_URI | C_BY_URI), max_active_runs=1),
        DAG("latest", schedule=LATE, max_active_runs=1),
    ]


@dataclass(frozen=True)
class Storm(turns.Storm):
    """What one process is asked to do."""

    # As `Message` has them, in the order in which they were sent.
    messages: list[dict[str, Any]]
    # The versions of the late bundle that this process registers, and their numbers.
    pushes: list[tuple[str, int]]
    # How many threads may ingest at the same time, and how many messages each of them takes.
    batches_at_once: int
    batch_size: int = _PER_BATCH
    # Whether this process registers its pushes one after the other, and how many seconds after the
    # push before it each of them begins.
    has_ordered_pushes: bool = False
    push_every: float = 0
    # Until when the claim function loses its messages: NEVER, WHILE_EVENTS or ALWAYS.
    dead_claims: str = NEVER


@dataclass
class Process(turns.Process[Storm]):
    """Everything that the threads of this process share."""

    room: threading.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        """Fill the queues."""
        super().__post_init__()
        self.room = threading.Semaphore(self.storm.batches_at_once)
        for fields in self.storm.messages:
            message = Message(**fields)
            self.queues["events" if message.lane is None else "events.fifo"].put(message)
        for push in self.storm.pushes:
            lane = "pushes" if self.storm.has_ordered_pushes else None
            self.queues["registers"].put(Message(json.dumps(push), lane))

    def is_claim_dead(self) -> bool:
        """Return whether messages for the claim function are lost."""
        has_events = any(len(self.queues[name]) for name in _EVENTS)
        dead = self.storm.dead_claims
        return dead == ALWAYS or (dead == WHILE_EVENTS and has_events)

    def is_early(self, push: int) -> bool:
        """Return whether it is too early for a push; the first one came before the storm."""
        begins_at = self.storm.began_at + (push - 1) * self.storm.push_every
        return time.monotonic() < begins_at

    def is_quiet(self) -> bool:
        """Return whether all that was sent has been dealt with."""
        is_empty = not any(len(self.queues[name]) for name in _QUEUES)
        return is_empty and super().is_quiet()

    def answer(self) -> dict[str, Any]:
        """Return also what is left on the queues, and what was given up."""
        dead = {one.message_id: asdict(one) for one in self.queues["events-dlq"].all()}
        return {
            **super().answer(),
            # The others hold hints, and someone may have sent one more at the very end.
            "left": {name: len(self.queues[name]) for name in (*_EVENTS, "registers")},
            "dead": list(dead.values()),
            "most_receives": max(self.queues[name].most_receives for name in _EVENTS),
        }


class Thread(turns.Thread[Process]):
    """One thread: invocation after invocation, each of a random kind."""

    def ingest(self) -> bool:
        """Be the consumer of `events`."""
        return self._ingest_from("events")

    def ingest_lanes(self) -> bool:
        """Be the consumer of `events.fifo`."""
        return self._ingest_from("events.fifo")

    def _ingest_from(self, name: str) -> bool:
        if not self.process.room.acquire(blocking=False):
            return False
        try:
            return self._ingest_now(name)
        finally:
            self.process.room.release()

    def _ingest_now(self, name: str) -> bool:
        queue: Queue = self.process.queues[name]
        with queue.receive(self.process.storm.batch_size) as (messages, again):
            if not messages:
                return False
            report = ingest([_record(name, one) for one in messages], has_time=self.budget())
            again.update(report.failed)
        with self.process.lock:
            self.process.reported["recorded events"] += report.recorded
            self.process.reported["rejected messages"] += report.rejected
            self.process.reported["failed messages"] += len(report.failed)
            self.process.reported["runs fired by events"] += report.triggered_runs
        return True

    def claim(self) -> bool:
        """Be the consumer of `claims`, or the queue that gives its messages up when it is dead."""
        if not self.process.is_claim_dead():
            return super().claim()
        with self.process.queues["claims"].receive(_PER_BATCH) as (messages, _):
            lost = len(messages)
        with self.process.lock:
            self.process.reported["lost claim messages"] += lost
        return lost > 0

    def register(self) -> bool:
        """Be the consumer of `registers`: of a push, or of the wish to tidy up after one."""
        with self.process.queues["registers"].receive(1) as (messages, again):
            for message in messages:
                body = json.loads(message.body)
                if isinstance(body, list) and self.process.is_early(body[1]):
                    again.add(message.message_id)
                    return False
                self._register(message.body, body)
        return bool(messages)

    def _register(self, text: str, body: Any) -> None:
        try:
            if isinstance(body, list):
                register(Push(LATE_BUNDLE, *body))
                with self.process.lock:
                    self.process.reported["registered pushes"] += 1
            else:
                _tidy_up(text)
        except RefusedError:
            return  # of an old push: there is nothing to repeat

    def hand_on(self) -> bool:
        """Be the timer that finds what was recorded and not handed on."""
        report = sweep_open(has_time=self.budget())
        self.process.count(report)
        return report.considered > 0

    def budget(self) -> Callable[[], bool]:
        """Return what lets an invocation run out of time by chance: a slow machine is no fault."""
        return lambda: self.chance.random() >= _OUT_OF_TIME

    def _guess(self) -> list[str]:
        # Not in the end, when a trigger that someone forgot would come from this.
        is_early = len(self.process.queues["events"]) > 0
        return super()._guess() if is_early and self.chance.random() < _GUESSES else []

    def is_moving(self) -> bool:
        """Return False: nothing comes due by the clock."""
        return False

    def is_more_left(self) -> bool:
        """Return whether an asset is open, whoever opened it."""
        is_open = Assets.open_shard.exists()
        return any(True for _ in Assets.scan(is_open, consistent_read=True))


def _record(queue: str, message: Message) -> dict[str, Any]:
    """Return a message as it stands in Lambda's envelope."""
    group = {} if message.lane is None else {"MessageGroupId": message.lane}
    return {
        "messageId": message.message_id,
        "receiptHandle": f"{message.message_id} {message.receives}",
        "body": message.body,
        "attributes": {"ApproximateReceiveCount": str(message.receives), **group},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-west-1:123456789012:{queue}",
    }


def _tidy_up(body: str) -> None:
    for message in read_message(body):
        assert isinstance(message, Retire)
        retire(message.push)


def take_part(dags_of: Callable[[str], list[DAG]], thread: type[Thread]) -> None:
    """Be one process of a storm in which versions of a bundle are pushed."""

    def parse(sandbox: Sandbox) -> Iterator[ParsedFile]:
        version = PurePosixPath(sandbox._key).stem
        yield ParsedFile("dags/late.py", dags=[parsed_dag(dag) for dag in dags_of(version)])

    # Author code is run elsewhere; here everything happens in threads of one process.
    with patch.object(Sandbox, "parse", parse):
        turns.take_part(Storm, Process, thread)


if __name__ == "__main__":
    take_part(late_dags, Thread)
