"""Runs watchers of author code, each bundle's in a process of its own, for the function `watch`.

Owns: those processes, which stay between calls, and what they may ask for. They have no credentials
unless the deployer names a role for their bundle. They hang, die, flood and lie for their own
bundle only: this process sends their events, which it makes itself from what they say, and ends
them and everything below them when their time is over.
"""

import atexit
import hashlib
import json
import logging
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any, Self

from lamplighter import aws, runtime, settings
from lamplighter.bundles import processes
from lamplighter.bundles.answers import MAX_BYTES, AnswerPipe, read_answer, wait_for
from lamplighter.bundles.parsing import environment
from lamplighter.errors import RefusedError, in_short
from lamplighter.events.dead_letters import NOWHERE, FailedMessage
from lamplighter.events.message import event_body
from lamplighter.queues import Delivery
from lamplighter.streams.outbox import WatcherEvent
from lamplighter.streams.outside import Outside
from lamplighter.streams.watchers import Watcher, fetched
from lamplighter.zones import iso

log = logging.getLogger(__name__)

# A bundle, and one of its versions.
Bundle = tuple[str, str]

# After its time a process may still cancel what hangs, and report what is done.
GRACE_SECONDS = 7.0
# Processes that stay; each takes some 70 MB of the function's memory.
_MAX_IDLE = 4
_SECONDS_TO_END = 5.0
_MAX_COUNT = 1_000_000
# What a session in the process must know of the deployment's settings.
_SETTINGS = (
    "shared_stream_ack_timeout",
    "shared_stream_subscriber_queue_size",
    "watcher_retry_sessions",
    "watcher_events_per_minute",
)
_ROLE_MARGIN_SECONDS = 600


def isolated_by_bundle(
    watchers: Sequence[Watcher],
) -> tuple[list[Watcher], dict[str, list[Watcher]]]:
    """Return the watchers that run in this process, and by bundle those that do not."""
    ours: list[Watcher] = []
    isolated: dict[str, list[Watcher]] = {}
    for watcher in watchers:
        is_isolated = watcher.is_authors and runtime.current().isolates_watchers
        (isolated.setdefault(watcher.bundle, []) if is_isolated else ours).append(watcher)
    return ours, isolated


@dataclass
class Work:
    """What the process of a bundle is to do, and what has come of it."""

    bundle: str
    watchers: Sequence[Watcher]
    parked: Container[str]
    sent: int = 0
    parked_events: int = 0
    kept_letters: int = 0
    fired: Counter[str] = field(default_factory=Counter)
    was_refused: bool = False
    # What it says at last; None if it did not live to say anything.
    answer: Any = None

    @property
    def key(self) -> Bundle:
        """The bundle and the version whose process does it."""
        # While a push replaces them one by one, they may be of two: such a mixture fails once.
        return self.bundle, self.watchers[-1].bundle_version

    def end_process(self) -> None:
        """End the process: what it says makes no sense."""
        process = _idle().pop(self.key, None)
        if process is not None:
            process.end()

    def count(self, said: Mapping[str, Any], name: str) -> int:
        """Return a count in what the process says."""
        number = said[name]
        if type(number) is not int or not 0 <= number <= _MAX_COUNT:
            raise ValueError(f"{name} is not a count")
        return number

    # What the process asks for while it works.

    def reply(self, asked: Mapping[str, Any]) -> Any:
        """Do what the process asks for; raise if that makes no sense."""
        act: Callable[[], Any]
        match asked:
            case {"ask": "send", "events": [*some]}:
                act = partial(self._send, [self._event(each) for each in some])
            case {"ask": "keep", "letters": [*some]}:
                act = partial(self._keep, [_letter(each) for each in some])
            case {"ask": "list", "bucket": str(bucket), "prefix": str(prefix)}:
                act = partial(self._list, bucket, prefix)
            case _:
                raise ValueError(f"unknown question {in_short(str(asked))}")
        try:
            return {"value": act()}
        except RefusedError as error:  # logged once: it may ask over and over
            if not self.was_refused:
                about = {"bundle": self.bundle, "error": str(error)}
                log.warning("watchers ask for what they may not have", extra=about)
            self.was_refused = True
            return {"error": str(error)}
        except Exception as error:  # the process sees it as its own call would have failed
            log.exception("cannot do what watchers ask for", extra={"bundle": self.bundle})
            return {"error": in_short(f"{type(error).__name__}: {error}")}

    def _event(self, said: Mapping[str, Any]) -> WatcherEvent:
        """Return an event of one of the watchers: neither its asset nor its id is the process's."""
        (watcher,) = (each for each in self.watchers if each.id == said["watcher"])
        text = json.dumps([str(said["event_id"]), watcher.id])
        event_id = hashlib.sha256(text.encode()).hexdigest()
        body = event_body(
            watcher.asset,
            event_id=event_id,
            extra={"from_trigger": True, "payload": said["payload"]},
            source={"watcher": watcher.name},
        )
        lane = said["lane"]
        if not (lane is None or isinstance(lane, str)):
            raise ValueError("a lane is a text")
        reason = f"{watcher.title} is parked: it fires too often"
        is_parked = watcher.id in self.parked
        return WatcherEvent(
            watcher, event_id, body, _Raw(lane), None, reason if is_parked else None
        )

    def _send(self, events: Sequence[WatcherEvent]) -> None:
        """Send events, unless one of the watchers has sent as many as it may in a whole minute.

        Its messages come again, when it is parked.
        """
        fired = self.fired + Counter(event.watcher.id for event in events)
        if any(fired[event.watcher.id] > _most() for event in events):
            self.fired = fired
            raise RefusedError(f"watchers fire too often: more than {_most():,} events at a time")
        for queue in dict.fromkeys(event.queue for event in events):
            some = [event for event in events if event.queue == queue]
            Outside().send(queue, some)
            for event in some:
                self.fired[event.watcher.id] += 1
                if event.parked_reason is None:
                    self.sent += 1
                else:
                    self.parked_events += 1

    def _keep(self, letters: Sequence[FailedMessage]) -> list[int]:
        self.kept_letters += len(letters)
        if self.kept_letters > _most():
            raise RefusedError(f"watchers reject too much: more than {_most():,} at a time")
        lost = {id(letter) for letter in Outside().send_to_dlq(letters)}
        return [at for at, letter in enumerate(letters) if id(letter) in lost]

    def _list(self, bucket: str, prefix: str) -> list[Any]:
        if bucket not in {watcher.stream_info.feed.bucket for watcher in self.watchers}:
            raise RefusedError(
                f"no watcher of the bundle declares the bucket {bucket!r}: set"
                f" `feed = Feed(bucket={bucket!r})` in the class of its trigger"
            )
        return [
            [item.name, item.version, item.payload, item.modified_at and iso(item.modified_at)]
            for item in Outside().list_objects(bucket, prefix)
        ]


def _most() -> int:
    """Return how many events a watcher may send, and a bundle's watchers reject, during a task."""
    return settings.current().watcher_events_per_minute


@dataclass(frozen=True)
class _Raw:
    group: str | None


def _letter(said: Mapping[str, Any]) -> FailedMessage:
    name, body = str(said["message_id"]), str(said["body"])
    delivery = Delivery(name, body, name, receipt="", receives=1, lane=None, queue_arn=NOWHERE)
    return FailedMessage(delivery, str(said["reason"]))


class BundleProcesses:
    """The bundles' processes at work, side by side; the block ends when all are done or ended."""

    def __init__(self, parked: Container[str], *, seconds: float) -> None:
        self._parked = parked
        self._deadline = time.monotonic() + seconds + GRACE_SECONDS
        self._threads: list[Thread] = []
        self._is_full = False
        self.works: list[Work] = []

    def __enter__(self) -> Self:
        return self

    def start(self, bundle: str, watchers: Sequence[Watcher], task: Mapping[str, Any]) -> None:
        """Let watchers of a bundle work on a task."""
        work = Work(bundle, watchers, self._parked)
        self.works.append(work)
        self._threads.append(Thread(target=self._run, args=(work, task), daemon=True))
        self._threads[-1].start()

    def _run(self, work: Work, task: Mapping[str, Any]) -> None:
        try:
            process = _idle().pop(work.key, None)
            if process is not None and not process.is_alive():
                process.end()
                process = None
            process = process or self._new(work.key)
            try:
                work.answer = process.ask(work, task, self._deadline)
            except BaseException:
                process.end()
                raise
            _idle()[work.key] = process
        except Exception:  # the others go on
            log.exception("process of watchers failed", extra={"bundle": work.bundle})

    def _new(self, bundle: Bundle) -> "_Process":
        try:
            return _Process(bundle)
        except OSError:
            self._is_full = True
            raise

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()
        idle = _idle()
        # The newest come last. Of each bundle one version stays.
        newest = dict(idle)
        for key in list(idle)[:-_MAX_IDLE]:
            newest.pop(key)
        keep = {bundle: (bundle, version) for bundle, version in newest}
        for key in [key for key in idle if keep.get(key[0]) != key]:
            idle.pop(key).end()
        if processes.is_in_lambda():
            # Whoever kills the process above it is adopted by this one.
            try:
                processes.end_descendants(but={each.pid for each in idle.values()})
            except TimeoutError:
                processes.end_environment()
        if self._is_full or processes.lacks_room():
            # Whose files they are cannot be told.
            for key in list(idle):
                idle.pop(key).end()
            processes.empty_disk()


@runtime.cached()
def _idle() -> "dict[Bundle, _Process]":
    return {}


class _Process:
    """The process of one version of a bundle, with a copy of the files that is its own."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle[0]
        self._folder, self._root = fetched(*bundle)
        region = {name: os.environ[name] for name in _REGION if name in os.environ}
        temporary = self._folder / "tmp"
        try:
            temporary.mkdir()
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "lamplighter.streams.bundle_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Arenas of threads would count as memory that they do not use.
                env=environment(MALLOC_ARENA_MAX="2", TMPDIR=str(temporary), **region),
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._requests = self._popen.stdin.fileno()
        os.set_blocking(self._requests, False)
        self._answers = AnswerPipe(
            self._popen.stdout.fileno(), max_bytes=MAX_BYTES, is_alive=self.is_alive
        )
        self.pid = self._popen.pid
        atexit.register(self.end)

    def is_alive(self) -> bool:
        return self._popen.poll() is None

    def ask(self, work: Work, task: Mapping[str, Any], deadline: float) -> Any:
        """Return what comes of a task; raise if the process does not say so in time."""
        request = {
            **task,
            "root": str(self._root),
            "watchers": [watcher.to_json() for watcher in work.watchers],
            "parked": [one.id for one in work.watchers if one.id in work.parked],
            "settings": {name: getattr(settings.current(), name) for name in _SETTINGS},
            "credentials": _credentials_of(self._bundle),
            "seconds": max(0.0, deadline - GRACE_SECONDS - time.monotonic()),
        }
        self._write(request, deadline)
        while True:
            said = read_answer(self._answers.read_line(deadline=deadline))
            if "answer" in said:
                return said["answer"]
            self._write(work.reply(said), deadline)

    def _write(self, value: Any, deadline: float) -> None:
        """Write a line; a process that is dead, or reads nothing, does not hold up this one."""
        if not self.is_alive():  # whoever holds its pipes would go on asking in its place
            raise EOFError
        rest = memoryview(json.dumps(value).encode() + b"\n")
        with selectors.DefaultSelector() as selector:
            selector.register(self._requests, selectors.EVENT_WRITE)
            while rest:
                if not wait_for(selector, deadline, self.is_alive):
                    raise EOFError
                with suppress(BlockingIOError):
                    rest = rest[os.write(self._requests, rest) :]

    def end(self) -> None:
        """End the process and all below it, which it ends itself unless it is dead."""
        atexit.unregister(self.end)
        self._popen.terminate()
        try:
            self._popen.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        # Not until they are at their end: a daemon may hold them open.
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)


_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")


# Roles.


@runtime.cached()
def _assumed() -> dict[str, tuple[float, dict[str, str]]]:
    return {}


def _credentials_of(bundle: str) -> dict[str, str]:
    """Return the temporary credentials of the role of a bundle's watchers; none without a role."""
    role = settings.current().watcher_roles.get(bundle)
    if role is None:
        return {}
    until, credentials = _assumed().get(role, (0.0, {}))
    if until < time.monotonic():
        until = time.monotonic() + aws.ROLE_SECONDS - _ROLE_MARGIN_SECONDS
        credentials = aws.assumed_role(role, f"watchers-{bundle}")
        _assumed()[role] = until, credentials
    return credentials
