"""The examples of producers under a crash at every call: each event once per watcher, none lost.

A scan without acknowledgements, a queue whose messages are deleted, and a log in partitions whose
offsets are committed: three ways in which a source learns that it may forget.
"""

import asyncio
import gc
import json
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.events.dead_letters import dead_letters, make_visible
from lamplighter.store.models import AssetEvents
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter_local.emulator.moto_memory import queue_at
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.stack import LocalStack, local_stack
from tests.faults.reports import Report, each
from tests.faults.test_watch import dying_after
from tests.tools.faults import Kind
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot, begin_anew
from triggers.flag_files import FlagFileTrigger
from triggers.own_queue import OwnQueueTrigger
from triggers.partition_log import PartitionLogTrigger, Record

# What dies is not cleaned up by anyone, and Python says so when it finds it.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # A busy machine must not make a watcher look as if it hung.
    pytest.mark.usefixtures("jumping_loops"),
]

MIDNIGHT = datetime(2026, 1, 1)
A_WHILE = timedelta(minutes=5)
ROUNDS = 1
KINDS: tuple[Kind, ...] = ("crash-before", "crash-after")
SESSION_SECONDS = 2
QUEUE = "parcels"


@dataclass(frozen=True)
class Example:
    """Two watchers, what their source has, and what is left of it when all is done."""

    triggers: Callable[[Path], dict[str, BaseEventTrigger]]
    fill: Callable[[Path], None]
    left: Callable[[Path], list[str]]
    expected: dict[str, list[Any]]


def raise_flags(folder: Path) -> None:
    """Raise the flags of both watchers, and one of nobody."""
    for name in ("north", "south", "nobody"):
        (folder / f"{name}.flag").touch()


def send_parcels(_: Path) -> None:
    """Send parcels for both watchers, in turn."""
    for number in range(4):
        parcel = {"region": "south" if number % 2 else "north", "number": number}
        aws.client("sqs").send_message(QueueUrl=queue_url(), MessageBody=json.dumps(parcel))


def queue_url() -> str:
    """Return the URL of the queue, made when it is first asked for."""
    return str(aws.client("sqs").create_queue(QueueName=QUEUE)["QueueUrl"])


def append_records(folder: Path) -> None:
    """Append records of both kinds to two partitions."""
    for partition in "ab":
        lines = [json.dumps({"kind": kind}) for kind in ("north", "south", "other")]
        (folder / f"{partition}.log").write_text("\n".join(lines) + "\n")


def uncommitted(folder: Path) -> list[str]:
    """Return the partitions that are not committed to their end, and what has failed."""
    ends = {path.stem: path.read_text() for path in folder.glob("*.committed")}
    return [name for name in "ab" if ends.get(name) != "3"] + [
        path.name for path in folder.glob("*.failed")
    ]


REGIONS = ("north", "south")
EXAMPLES = {
    "flags": Example(
        lambda folder: {
            name: FlagFileTrigger(folder=str(folder), name=f"{name}.flag", interval=1)
            for name in REGIONS
        },
        raise_flags,
        lambda folder: [path.name for path in folder.iterdir() if path.name != "nobody.flag"],
        {name: [f"{name}.flag"] for name in REGIONS},
    ),
    "queue": Example(
        lambda _: {name: OwnQueueTrigger(queue_url=queue_url(), region=name) for name in REGIONS},
        send_parcels,
        lambda _: [message.body for message in queue_at(queue_url())._messages],
        {"north": [0, 2], "south": [1, 3]},
    ),
    "log": Example(
        lambda folder: {
            name: PartitionLogTrigger(folder=str(folder), kind=name) for name in REGIONS
        },
        append_records,
        uncommitted,
        {"north": ["a:0", "b:0"], "south": ["a:1", "b:1"]},
    ),
}


def told(payload: dict[str, Any]) -> Any:
    """Return what tells an event from others of its asset."""
    if "partition" in payload:
        return f"{payload['partition']}:{payload['offset']}"
    return payload.get("number", payload.get("flag"))


def recorded() -> dict[str, list[Any]]:
    """Return by asset what has been recorded."""
    found: dict[str, list[Any]] = {}
    for event in AssetEvents.scan(consistent_read=True):
        found.setdefault(event.asset_id, []).append(told(event.extra["payload"]))
    return {name: sorted(events) for name, events in found.items()}


def wrong(example: Example, folder: Path) -> Iterator[str]:
    """Yield what is not as it must be in the end."""
    yield from violations()
    if (found := recorded()) != example.expected:
        yield f"recorded {found} instead of {example.expected}"
    if left := example.left(folder):
        yield f"{left} is left at the source"


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls follow each other in the same order every time."""

    async def call(function: Callable[..., Any], *given: Any) -> Any:
        await asyncio.sleep(0)
        return function(*given)

    monkeypatch.setattr(asyncio, "to_thread", call)


@pytest.fixture(name="deployment", scope="module")
def make_deployment() -> Iterator[LocalStack]:
    """Yield a deployment with short sessions for all examples."""
    with local_stack(at=MIDNIGHT) as stack:
        short = replace(
            stack.settings, due_shards=1, run_shards=1, watch_session_seconds=SESSION_SECONDS
        )
        with patch.object(stack.runtime, "settings", short):
            yield stack


def begin(example: Example, begun: Snapshot, folder: Path) -> LocalStack:
    """Let everything be as it was, and the source be full."""
    stack = begun.put_back()
    for path in folder.iterdir():
        path.unlink()
    example.fill(folder)
    return stack


def poll(stack: LocalStack, faults: DeploymentFaults) -> None:
    """Let the function poll once, under faults."""
    with (
        dying_after(math.inf),  # a crash leaves tasks behind
        patch.object(stack, "call", stack.call),
        faults.injected_into(stack),
    ):
        stack.poll_sources()


def go_on(stack: LocalStack) -> None:
    """Let happen what always happens: the timer fires, and events are recorded."""
    for _ in range(ROUNDS):
        stack.clock.advance(A_WHILE)
        stack.poll_sources()
        stack.run_until_idle()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_crash_at_every_call_loses_and_doubles_nothing(
    name: str, deployment: LocalStack, tmp_path: Path, report: Report
) -> None:
    """Whichever call is the last one, each watcher has each of its events once in the end."""
    example, found = EXAMPLES[name], list[str]()
    begin_anew(deployment, at=MIDNIGHT)
    queue_url()
    assets = [
        Asset(each_name, watchers=[AssetWatcher("w", trigger)])
        for each_name, trigger in example.triggers(tmp_path).items()
    ]
    deployment.push_dags([DAG("dag", schedule=assets)], bundle="objects")
    begun, counted = Snapshot(deployment), DeploymentFaults()
    poll(begin(example, begun, tmp_path), counted)
    go_on(deployment)
    assert list(wrong(example, tmp_path)) == []
    points = [(kind, number) for number in range(1, len(counted.calls) + 1) for kind in KINDS]
    for kind, number in each(points):
        stack, faults = begin(example, begun, tmp_path), DeploymentFaults()
        faults.at(number, kind)
        poll(stack, faults)
        assert faults.deaths
        go_on(stack)
        found += [f"{faults.injected}: {text}" for text in wrong(example, tmp_path)]
    gc.collect()  # so that what the dead have left is complained about here
    report(f"example of a producer, {name}", len(points), found)


# A watcher that always fails is given up: its events are dead letters, and the log goes on.


class FailingTrigger(PartitionLogTrigger):
    """Fails at the records of its kind."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "scripts.FailingTrigger", super().serialize()[1]

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[Record]
    ) -> AsyncIterator[TriggerEvent]:
        async for event in super().filter_shared_stream(shared_stream):
            raise ConnectionError(f"no {event.payload}")
            yield event


def given_up() -> set[str]:
    """Return which events are dead letters; a crash may leave a copy too many."""
    letters = dead_letters(limit=100)
    make_visible(letters)
    records = [json.loads(letter.body) for letter in letters]
    return {f"{record['partition']}:{record['offset']}" for record in records}


@pytest.mark.slow
def test_crash_at_every_call_of_giving_up_loses_nothing(
    deployment: LocalStack, tmp_path: Path, report: Report, caplog: pytest.LogCaptureFixture
) -> None:
    """Whichever call is the last one, what the watcher missed is kept before it is committed."""
    # What is logged holds on to what has died.
    caplog.set_level(logging.CRITICAL, logger="lamplighter.streams.session")
    begin_anew(deployment, at=MIDNIGHT)
    north = PartitionLogTrigger(folder=str(tmp_path), kind="north")
    south = FailingTrigger(folder=str(tmp_path), kind="south")
    assets = [
        Asset(name, watchers=[AssetWatcher("w", trigger)])
        for name, trigger in {"north": north, "south": south}.items()
    ]
    found = list[str]()
    example = replace(
        EXAMPLES["log"],
        left=lambda folder: [name for name in uncommitted(folder) if name in ("a", "b")],
        expected={"north": ["a:0", "b:0"]},
    )
    once = replace(deployment.settings, watcher_retry_sessions=1)
    with patch.object(deployment.runtime, "settings", once):
        deployment.push_dags([DAG("dag", schedule=assets)], bundle="objects")
        append_records(tmp_path)
        deployment.poll_sources()
        begun, counted = Snapshot(deployment), DeploymentFaults()
        poll(begin(example, begun, tmp_path), counted)
        points = [(kind, number) for number in range(1, len(counted.calls) + 1) for kind in KINDS]
        for kind, number in each(points):
            stack, faults = begin(example, begun, tmp_path), DeploymentFaults()
            faults.at(number, kind)
            poll(stack, faults)
            assert faults.deaths
            go_on(stack)
            go_on(stack)
            found += [f"{faults.injected}: {text}" for text in wrong(example, tmp_path)]
            if (kept := given_up()) != {"a:1", "b:1"}:
                found.append(f"{faults.injected}: kept {kept}")
    gc.collect()
    report("example of a producer, giving up", len(points), found)
