"""The function `watch` under a fault at every call, and killed at every await: nothing is lost.

Each story runs once to learn how many calls it makes, and how often its tasks are resumed. Then it
runs again with a fault at each of them. After it the platform does what it always does: messages
come again, the timer fires. In the end each event must have been recorded once, what was refused
must be kept, and nothing may be acknowledged that was neither sent nor kept.

Normally a selection of the points; the full form is marked `full` (make faults).
"""

import asyncio
import gc
import json
import math
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.store.models import AssetEvents
from lamplighter.triggers.base import TriggerEvent
from lamplighter.triggers.sources import PollingTrigger, QueueMessage, SourceItem
from lamplighter_local.deliveries import deliver
from lamplighter_local.emulator.moto_memory import queue_at, queues
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.stack import LocalStack, local_stack
from tests.faults.reports import Report, each
from tests.loop_time import JumpingLoop
from tests.tools.faults import Crash, Kind, crash_points
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot, begin_anew
from tests.unit.streams.scripted import Scripted, ScriptedError, name_of

# What dies is not cleaned up by anyone, and Python says so when it finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # A busy machine must not make a watcher look as if it hung.
    pytest.mark.usefixtures("jumping_loops"),
]

MIDNIGHT = datetime(2026, 1, 1)
A_WHILE = timedelta(minutes=5)
SOME = 10  # points of a story in the short form
ROUNDS = 4

# What is there when the source of `Looking` is looked at.
there: list[SourceItem] = []
# Messages at which `Shaky` has failed, which it does once.
failed_at: set[str] = set()


class Shaky(Scripted):
    """Fails once at each message that its script tells it to, and then makes an event of it."""

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[QueueMessage]
    ) -> AsyncIterator[TriggerEvent]:
        async for message in shared_stream:
            name = name_of(message)
            await asyncio.sleep(0)
            if name in self.script and name not in failed_at:
                failed_at.add(name)
                raise ScriptedError(name)
            yield TriggerEvent(f"{name}.0")


class Looking(PollingTrigger):
    """Sees what is there."""

    def __init__(self, *, kind: str = "") -> None:
        super().__init__()
        self.kind = kind

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.Looking", {"kind": self.kind}

    def shared_stream_key(self) -> Hashable | None:
        return "there"

    @classmethod
    async def poll(cls, kwargs: dict[str, Any]) -> Sequence[SourceItem]:  # noqa: ARG003 - all see the same
        await asyncio.sleep(0)
        return list(there)

    def payloads(self, item: SourceItem) -> list[Any]:
        return [] if item.name.startswith(self.kind or " ") else [f"{item.message_id}.0"]


def asset(name: str, trigger: Any) -> Asset:
    """Return an asset with a watcher of the same name."""
    return Asset(name, watchers=[AssetWatcher(name, trigger)])


@dataclass(frozen=True)
class Story:
    """Who watches, what comes, and what must have been recorded and refused in the end."""

    dag: DAG
    expected: dict[str, list[str]]
    queue: str = ""
    messages: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()

    def begin(self, stack: LocalStack) -> None:
        """Let everything be sent, or be there."""
        there.clear()
        if not self.queue:
            stack.clock.advance(timedelta(seconds=1))
            there.extend(SourceItem(name, "1", modified_at=stack.clock.now()) for name in "abc")
        for at, name in enumerate(self.messages):
            group = {"MessageGroupId": name[0], "MessageDeduplicationId": str(at)}
            aws.client("sqs").send_message(
                QueueUrl=stack.watched_queue(self.queue),
                MessageBody=json.dumps({"name": name}),
                **(group if self.queue.endswith(".fifo") else {}),
            )

    def act(self, stack: LocalStack) -> None:
        """Let the function be called: with what is on the queue, or to ask."""
        if self.queue:
            deliver(stack.watched_queue(self.queue), "watch", stack.call)
        else:
            stack.poll_sources()


def of_a_queue(queue: str) -> DAG:
    """Return a DAG whose watchers take, skip, refuse, fail once, leave and take their time."""
    scripts = {
        "takes": {"else": "1", "g-bad": "reject"},
        "slow": {"else": "slow", "h-2": "2"},
        "refuses": {"g-bad": "reject", "h-2": "1"},
        "leaves": {"g-1": "made then return", "h-1": "return", "h-2": "1"},
    }
    assets = [asset(name, Scripted(queue=queue, script=script)) for name, script in scripts.items()]
    assets.append(asset("shaky", Shaky(queue=queue, script={"g-2": "raise", "h-2": "raise"})))
    return DAG("dag", schedule=assets)


MESSAGES = ("g-1", "h-1", "g-bad", "g-2", "h-2", "g-3")
RECORDED = {
    "takes": ["g-1.0", "g-2.0", "g-3.0", "h-1.0", "h-2.0"],
    "slow": ["g-1.0", "g-2.0", "g-3.0", "g-bad.0", "h-1.0", "h-2.0", "h-2.1"],
    "refuses": ["h-2.0"],
    "leaves": ["g-1.0", "h-2.0"],
    "shaky": [f"{name}.0" for name in sorted(MESSAGES)],
}

STORIES = {
    "standard queue": Story(
        of_a_queue("raw"), RECORDED, "raw", MESSAGES, refused=frozenset({"g-bad"})
    ),
    "FIFO queue": Story(
        of_a_queue("raw.fifo"), RECORDED, "raw.fifo", MESSAGES, refused=frozenset({"g-bad"})
    ),
    "source that is polled": Story(
        DAG("dag", schedule=[asset("all", Looking()), asset("some", Looking(kind="a"))]),
        {"all": ["a@1.0", "b@1.0", "c@1.0"], "some": ["b@1.0", "c@1.0"]},
    ),
}


# Looking at it.


def recorded() -> dict[str, list[str]]:
    """Return by asset what has been recorded."""
    found: dict[str, list[str]] = {}
    for event in AssetEvents.scan(consistent_read=True):
        found.setdefault(event.asset_id, []).append(event.extra["payload"])
    return {name: sorted(payloads) for name, payloads in found.items()}


def sent(stack: LocalStack) -> Counter[str]:
    """Return the events that are on their way or recorded, each as asset and payload."""
    urls = (stack.settings.queue_url("events"), stack.settings.queue_url("events.fifo"))
    bodies = [json.loads(one.body) for url in urls for one in queue_at(url)._messages]
    on_their_way = {f"{body['asset']} {body['extra']['payload']}" for body in bodies}
    return Counter(on_their_way)


def kept(stack: LocalStack) -> set[str]:
    """Return the names of the messages that are kept as dead letters."""
    messages = queue_at(stack.settings.queue_url("sources-dlq"))._messages
    return {json.loads(message.body)["name"] for message in messages}


def left_in(stack: LocalStack, story: Story) -> set[str]:
    """Return the names of the messages that the queue still has."""
    if not story.queue:
        return set()
    messages = queue_at(stack.watched_queue(story.queue))._messages
    return {json.loads(message.body)["name"] for message in messages}


def wrong_at_once(story: Story, stack: LocalStack) -> Iterator[str]:
    """Yield what was acknowledged although it was neither sent nor kept."""
    there_now = sent(stack)
    for name in set(story.messages) - left_in(stack, story):
        if name in story.refused and name not in kept(stack):
            yield f"{name} was acknowledged and not kept"
        for asset_name, payloads in story.expected.items():
            for payload in payloads:
                is_its = payload.startswith(f"{name}.")
                if is_its and not there_now[f"{asset_name} {payload}"]:
                    yield f"{name} was acknowledged, and {asset_name} {payload} not sent"


def wrong_in_the_end(story: Story, stack: LocalStack) -> Iterator[str]:
    """Yield what is not as it must be."""
    yield from violations()
    if (found := recorded()) != story.expected:
        yield f"recorded {found} instead of {story.expected}"
    if kept(stack) != story.refused:
        yield f"kept {kept(stack)} instead of {set(story.refused)}"
    if left := left_in(stack, story):
        yield f"{left} are left in the queue"
    if dead := [one.name for one in queues() if one.name.startswith("raw-dlq") and one._messages]:
        yield f"messages have died in {dead}"


# Doing it, under faults and without.


@pytest.fixture(name="deployment", scope="module")
def make_deployment() -> Iterator[LocalStack]:
    """Yield a deployment for all stories: to make one takes as long as some of them."""
    with local_stack(at=MIDNIGHT) as stack:
        made = replace(stack.settings, due_shards=1, run_shards=1)
        with patch.object(stack.runtime, "settings", made):
            yield stack


@contextmanager
def about_to_begin(story: Story, deployment: LocalStack) -> Iterator[Snapshot]:
    """Let the deployment be as if it were new, and the story about to begin."""
    begin_anew(deployment, at=MIDNIGHT.add(seconds=5))
    deployment.push_dags([story.dag], bundle="objects")
    if not story.queue:
        deployment.poll_sources()  # it has been looked at before: what comes now is new
    story.begin(deployment)
    failed_at.clear()
    yield Snapshot(deployment)


def put_back(snapshot: Snapshot) -> LocalStack:
    """Let everything be as it was, what the watchers remember included."""
    failed_at.clear()
    return snapshot.put_back()


def try_with(faults: DeploymentFaults, story: Story, stack: LocalStack) -> None:
    """Do it once under faults."""
    with patch.object(stack, "call", stack.call), faults.injected_into(stack):
        story.act(stack)


def go_on(story: Story, stack: LocalStack) -> None:
    """Let happen what always happens: messages come again, timers fire, events are recorded."""
    for _ in range(ROUNDS):
        stack.clock.advance(A_WHILE)
        story.act(stack)
        stack.run_until_idle()


Points = Callable[[Sequence[Any]], Sequence[Any]]


def every(points: Sequence[Any]) -> Sequence[Any]:
    """Return all points."""
    return points


def some(points: Sequence[Any]) -> Sequence[Any]:
    """Return some of the points, spread over them."""
    return points[:: max(1, math.ceil(len(points) / SOME))]


def strike(story: Story, deployment: LocalStack, choose: Points) -> tuple[int, list[str]]:
    """Put a fault at each point of a story; return how many there are, and what went wrong."""
    wrong: list[str] = []
    with about_to_begin(story, deployment) as begun:
        counted = DeploymentFaults()
        try_with(counted, story, put_back(begun))
        assert list(wrong_at_once(story, deployment)) == []
        go_on(story, deployment)
        assert list(wrong_in_the_end(story, deployment)) == []
        points: Sequence[tuple[Kind, int]] = choose(list(crash_points(counted.calls)))
        for kind, number in each(points):
            faults = DeploymentFaults()
            faults.at(number, kind)
            stack = put_back(begun)
            with dying_after(math.inf):  # a crash leaves tasks behind
                try_with(faults, story, stack)
            wrong += [f"{faults.injected}, at once: {text}" for text in wrong_at_once(story, stack)]
            go_on(story, stack)
            wrong += [f"{faults.injected}: {text}" for text in wrong_in_the_end(story, stack)]
            assert not faults.pending
    return len(points), wrong


class _Countdown(deque[Any]):
    """What a loop is to do next; when so many things are done, the process dies."""

    left: float = math.inf
    done = 0

    def popleft(self) -> Any:
        if self.done >= self.left:
            raise Crash("killed at an await")
        self.done += 1
        return super().popleft()


@contextmanager
def dying_after(resumptions: float) -> Iterator[list[_Countdown]]:
    """Let the next event loop die when its tasks have been resumed so often; yield its counts."""
    counts: list[_Countdown] = []
    loops: list[asyncio.AbstractEventLoop] = []

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = JumpingLoop()
        count = _Countdown(loop._ready)  # type: ignore[attr-defined] # where it keeps what is next
        count.left = math.inf if counts else resumptions
        counts.append(count)
        loops.append(loop)
        loop._ready = count  # type: ignore[attr-defined] # as above
        return loop

    with patch.object(asyncio, "new_event_loop", new_loop):
        yield counts
    for loop in loops:
        _bury(loop)


def _bury(loop: asyncio.AbstractEventLoop) -> None:
    """Let what a dead loop has left end here, and not wherever Python happens to find it."""
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined] # it is known
        coroutine: Any = task.get_coro()
        # It may want to wait for something, or to put something back that was of the dead.
        with suppress(RuntimeError, ValueError):
            coroutine.close()


def kill(story: Story, deployment: LocalStack, choose: Points) -> tuple[int, list[str]]:
    """Kill a story at each await; return how many there are, and what went wrong."""
    wrong: list[str] = []
    with about_to_begin(story, deployment) as begun:
        with dying_after(math.inf) as counts:
            try_with(DeploymentFaults(), story, put_back(begun))
        points = choose(range(counts[0].done))
        for number in each(points):
            stack, faults = put_back(begun), DeploymentFaults()
            with dying_after(number):
                try_with(faults, story, stack)
            assert faults.deaths == ["watch: killed at an await"]
            wrong += [f"await {number}, at once: {text}" for text in wrong_at_once(story, stack)]
            go_on(story, stack)
            wrong += [f"await {number}: {text}" for text in wrong_in_the_end(story, stack)]
    gc.collect()
    return len(points), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_fault_at_some_calls_of_watch_loses_and_doubles_nothing(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whichever call fails, what is acknowledged was sent, and each event is recorded once."""
    report(f"watch, {name}", *strike(STORIES[name], deployment, some))


@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
def test_death_at_some_awaits_of_watch_loses_and_doubles_nothing(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whichever task is about to go on, what was not answered comes again."""
    report(f"watch killed, {name}", *kill(STORIES[name], deployment, some))


@pytest.mark.full
@pytest.mark.parametrize("name", STORIES)
def test_every_fault_at_every_call_of_watch_loses_and_doubles_nothing(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """As above, with every fault at every call."""
    report(f"watch, {name}", *strike(STORIES[name], deployment, every))


@pytest.mark.full
@pytest.mark.parametrize("name", STORIES)
def test_death_at_every_await_of_watch_loses_and_doubles_nothing(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """As above, at every single resumption of a task."""
    report(f"watch killed, {name}", *kill(STORIES[name], deployment, every))
