"""The process of one bundle's watchers: it has their code and none of the function's rights.

Reads a task as a line of JSON, does it, and asks on the way for whatever needs rights: to send
events, to keep dead letters, to list a bucket. Two processes, in fact: author code runs in a fork,
and the one above it only waits, to end everything that the fork has started.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, Never, TextIO

from lamplighter import runtime
from lamplighter.bundles import processes
from lamplighter.errors import TransientError
from lamplighter.events.dead_letters import FailedMessage
from lamplighter.settings import Settings
from lamplighter.streams.outbox import WatcherEvent
from lamplighter.streams.outside import Outside
from lamplighter.streams.polling import poll_leased
from lamplighter.streams.watch import deliver_to_bundle
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.sources import SourceItem
from lamplighter.zones import parse_instant

# Of the 1,024 MB of the function.
_MEMORY_BYTES = 640 * 1024**2


def main() -> None:
    """Serve tasks until the caller closes the pipe or ends this process."""
    processes.shield()
    caller = _Caller(os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w"))
    # What anything prints is for the log, and nothing of it for the caller.
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    fork = os.fork()
    if fork == 0:
        _serve(caller)
    caller.close()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        os.waitpid(fork, 0)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        processes.end_descendants()


def _serve(caller: "_Caller") -> Never:
    try:
        os.setsid()
        processes.die_with_parent()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
        for task in caller.tasks():
            caller.say({"answer": _do(task, caller)})
    finally:
        os._exit(1)


def _do(task: Mapping[str, Any], caller: "_Caller") -> dict[str, Any]:
    runtime.current().settings = Settings(**task["settings"])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        os.environ.pop(name, None)
    os.environ.update(task["credentials"])
    watchers = [Watcher.from_json(each, Path(task["root"])) for each in task["watchers"]]
    outside = Outside(caller.send, caller.send_to_dlq, caller.list_objects)
    parked, seconds = task["parked"], task["seconds"]
    if "leases" in task:
        leases = task["leases"]
        found = poll_leased(watchers, leases, parked, seconds=seconds, outside=outside)
        return {"streams": found}
    return deliver_to_bundle(
        watchers, task["deliveries"], task["queue"], parked, seconds=seconds, outside=outside
    )


class _Caller:
    """The function, which gives tasks, and does what this process may not do."""

    def __init__(self, given: TextIO, said: TextIO) -> None:
        self._given = given
        self._said = said
        self._one_at_a_time = Lock()

    def close(self) -> None:
        self._given.close()
        self._said.close()

    def tasks(self) -> Any:
        """Yield tasks; between two of them, lines are replies."""
        while line := self._given.readline():
            yield json.loads(line)

    def say(self, value: Any) -> None:
        self._said.write(json.dumps(value) + "\n")
        self._said.flush()

    def _ask(self, **question: Any) -> Any:
        with self._one_at_a_time:
            self.say(question)
            reply = json.loads(self._given.readline())
        if "error" in reply:
            raise TransientError(reply["error"])
        return reply["value"]

    def send(self, _: str, events: Sequence[WatcherEvent]) -> None:
        """Have events sent; the caller knows the queue."""
        said = [
            {
                "watcher": event.watcher.id,
                "event_id": event.event_id,
                "payload": json.loads(event.body)["extra"]["payload"],
                "lane": event.lane,
            }
            for event in events
        ]
        self._ask(ask="send", events=said)

    def send_to_dlq(self, failed: Sequence[FailedMessage]) -> list[FailedMessage]:
        """Have dead letters kept; return those that could not be."""
        said = [
            {"message_id": one.delivery.first_id, "body": one.delivery.body, "reason": one.reason}
            for one in failed
        ]
        lost = self._ask(ask="keep", letters=said)
        return [failed[at] for at in lost]

    def list_objects(self, bucket: str, prefix: str) -> list[SourceItem]:
        """Have a bucket listed."""
        return [
            SourceItem(name, version, payload, None if at is None else parse_instant(at))
            for name, version, payload, at in self._ask(ask="list", bucket=bucket, prefix=prefix)
        ]


if __name__ == "__main__":
    main()
