"""The queues of one process of a storm: at least once, in no order but that of a lane.

The client is botocore's own, so that `Faults` can strike it and the library meets real errors; only
what would go over the network is answered here.

Owns: who has received a message and must answer for it. Refuses: delays, so that some come early.
"""

import random
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import boto3

Answer = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """A message, and how often it has been received."""

    body: str
    lane: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    message_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    receives: int = 0


class Queue:
    """Messages that wait, and those that someone has received and not answered for."""

    def __init__(self) -> None:
        self.most_receives = 0
        self._waiting: list[Message] = []
        self._busy_lanes: set[str] = set()
        self._received = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many there are, received ones included."""
        with self._lock:
            return len(self._waiting) + self._received

    def put(self, message: Message) -> None:
        """Let a message wait behind the others."""
        with self._lock:
            self._waiting.append(message)

    def all(self) -> list[Message]:
        """Return what waits."""
        with self._lock:
            return list(self._waiting)

    @contextmanager
    def receive(self, limit: int) -> Iterator[tuple[list[Message], set[str]]]:
        """Yield messages, and a set for the ids of those that are to come again.

        If the block raises, all of them come again: whoever received them has died. Until it ends,
        nothing else of their lanes is received.
        """
        received, again = self._take(limit), set[str]()
        try:
            yield received, again
        except BaseException:
            again |= {message.message_id for message in received}
            raise
        finally:
            self._put_back(received, [one for one in received if one.message_id in again])

    def _take(self, limit: int) -> list[Message]:
        with self._lock:
            free = [one for one in self._waiting if one.lane not in self._busy_lanes]
            taken = free[:limit]
            self._busy_lanes |= {one.lane for one in taken if one.lane is not None}
            gone = {id(one) for one in taken}
            self._waiting = [one for one in self._waiting if id(one) not in gone]
            self._received += len(taken)
            received = [replace(one, receives=one.receives + 1) for one in taken]
            self.most_receives = max([self.most_receives, *(one.receives for one in received)])
        return received

    def _put_back(self, received: Sequence[Message], again: Iterable[Message]) -> None:
        with self._lock:
            self._received -= len(received)
            self._busy_lanes -= {one.lane for one in received}
            # In a lane they are the first again; of the others nobody knows when they come.
            self._waiting[:0] = [one for one in again if one.lane is not None]
            for one in again:
                if one.lane is None:
                    self._waiting.insert(random.randint(0, len(self._waiting)), one)


@dataclass
class Queues:
    """All queues of a process, by the last part of their URLs."""

    # The chances that a message is lost, and that it comes once more.
    lost: float = 0
    repeated: float = 0
    _queues: dict[str, Queue] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __getitem__(self, name: str) -> Queue:
        with self._lock:
            return self._queues.setdefault(name, Queue())

    def client(self) -> Any:
        """Return a client of SQS that knows these queues and no others."""
        client = boto3.client("sqs", endpoint_url="http://nowhere.invalid")
        # Each client has a class of its own. On that, because `Faults` wants the client's own
        # attribute for itself.
        type(client)._make_api_call = lambda _, operation, request: self._answer(operation, request)
        return client

    def _answer(self, operation: str, request: Mapping[str, Any]) -> Answer:
        answers: dict[str, Callable[[Queue, Sequence[Answer]], Answer]] = {
            "SendMessageBatch": self._send,
            # Delays are not kept here, neither of new messages nor of those that come again.
            "ChangeMessageVisibilityBatch": lambda *_: {},
        }
        queue = self[request["QueueUrl"].rpartition("/")[2]]
        return answers[operation](queue, request["Entries"])

    def _send(self, queue: Queue, entries: Sequence[Answer]) -> Answer:
        for entry in entries:
            message = Message(
                entry["MessageBody"],
                entry.get("MessageGroupId"),
                entry.get("MessageAttributes", {}),
            )
            if random.random() >= self.lost:
                queue.put(message)
            if random.random() < self.repeated:
                queue.put(message)
        return {"Successful": [{"Id": entry["Id"]} for entry in entries]}
