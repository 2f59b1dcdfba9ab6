"""A batch of a watched queue against a naive model: what comes again, what is refused, what fires.

The model knows nothing of streams: a message comes again if someone fails at it, or at one before
it in its lane; of all others everyone makes what it makes of them, and who refuses is written down.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamplighter.store.models import Catalog
from lamplighter.streams import watch
from lamplighter.streams.delivery_rounds import WatchReport
from lamplighter.streams.watchers import Watcher
from tests.integration.events.batches import Record, message
from tests.unit.streams.scripted import SINCE, Scripted, Sent, sending

# A busy machine must not make a watcher look as if it hung.
pytestmark = pytest.mark.usefixtures("jumping_loops")

ACTS = (
    "skip",
    "1",
    "2",
    "slow",
    "reject",
    "raise",
    "made then raise",
    "return",
    "made then return",
)

Script = dict[str, str]

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=150)


@dataclass(frozen=True)
class Batch:
    """Messages by their names with their lanes, and a script for each watcher."""

    lanes: dict[str, str]
    scripts: tuple[Script, ...]

    @property
    def is_fifo(self) -> bool:
        """Whether its queue has lanes."""
        return any(self.lanes.values())

    def made_by(self, watcher: int, name: str) -> list[str]:
        """Return the events that a watcher makes of a message if it reads it."""
        act = self.scripts[watcher][name]
        times = int(act) if act.isdigit() else int(act == "slow" or act.startswith("made"))
        return [f"w{watcher} {name}.{time}" for time in range(times)]

    def leaves(self, watcher: int) -> bool:
        """Return whether a watcher leaves in the middle of the batch."""
        return any(act.endswith(("raise", "return")) for act in self.scripts[watcher].values())


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Return a batch of a standard or of a FIFO queue."""
    is_fifo = draw(st.booleans())
    count = draw(st.integers(1, 6))
    lanes = {f"m{at}": draw(st.sampled_from("ghi")) if is_fifo else "" for at in range(count)}
    script = st.fixed_dictionaries({name: st.sampled_from(ACTS) for name in lanes})
    return Batch(lanes, tuple(draw(st.lists(script, min_size=1, max_size=5))))


# The model.


def comes_again(batch: Batch) -> set[str]:
    """Return the messages that are to be delivered once more."""
    failed: set[str] = set()
    blocked: set[str] = set()
    for name, lane in batch.lanes.items():
        is_failed = any(script[name].endswith("raise") for script in batch.scripts)
        if is_failed or lane in blocked:
            failed.add(name)
            blocked |= {lane} - {""}
    return failed


def refused(batch: Batch) -> dict[str, set[str]]:
    """Return the messages that are kept as dead letters, with those who refuse them."""
    found = {
        name: {f"w{at}" for at, script in enumerate(batch.scripts) if script[name] == "reject"}
        for name in batch.lanes
    }
    return {name: who for name, who in found.items() if who and name not in comes_again(batch)}


def made(batch: Batch, names: set[str], watchers: Sequence[int]) -> set[str]:
    """Return the events that watchers make of messages."""
    return {
        event for name in names for watcher in watchers for event in batch.made_by(watcher, name)
    }


# The real one.


@contextmanager
def watching(batch: Batch) -> Iterator[Sent]:
    """Let a queue be watched as a batch says, until the block ends."""

    def build(watcher: Watcher) -> Scripted:
        return Scripted(**watcher.trigger["data"])

    rows = [_row(at, script) for at, script in enumerate(batch.scripts)]
    with (
        sending() as sent,
        patch.object(watch, "read_watchers", lambda _: rows),
        patch.object(watch, "read_parked", dict),
        patch.object(WatchReport, "park_busy_watchers", lambda *_: None),
        patch.object(Watcher, "build", build),
    ):
        yield sent


def _row(at: int, script: Script) -> Catalog:
    trigger = {"type": "scripts.Scripted", "data": {"script": script}}
    watcher = {"asset": "a", "name": f"w{at}", "trigger": trigger}
    return Catalog("watchers#raw", f"dag/a/w{at}", watcher=watcher, created_at=SINCE)


def records(batch: Batch, names: Sequence[str]) -> list[Record]:
    """Return messages as Lambda hands them over."""
    found = []
    for name in names:
        record = message(name, json.dumps({"name": name}), lane=batch.lanes[name] or None)
        del record["attributes"]["ApproximateFirstReceiveTimestamp"]  # none is too old
        queue = "raw.fifo" if batch.is_fifo else "raw"
        found.append(record | {"eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue}"})
    return found


def reasons(sent: Sent) -> dict[str, set[str]]:
    """Return by message who refused it, as the dead letters say."""
    return {
        json.loads(body)["name"]: {part.split("'")[1] for part in reason.split("; ")}
        for body, reason in sent.letters.items()
    }


@given(batch=batches())
@calmly
def test_batch_becomes_what_the_model_says(batch: Batch) -> None:
    """Failures and dead letters are exact; what is acknowledged has fired, for everyone."""
    everyone = range(len(batch.scripts))
    with watching(batch) as sent:
        report = watch.watch_batch(records(batch, list(batch.lanes)), seconds=30)
    again = comes_again(batch)
    assert report.failed == again
    assert reasons(sent) == refused(batch)
    fired = set(sent.events)
    assert made(batch, set(batch.lanes) - again, everyone) <= fired
    assert fired <= made(batch, set(batch.lanes), everyone)
    assert len(sent.events) == len(fired)
    if not batch.is_fifo:
        assert fired == made(batch, set(batch.lanes), everyone)
    # In lanes, who does not leave has everything, whoever else fails.
    steady = [watcher for watcher in everyone if not batch.leaves(watcher)]
    assert made(batch, again, steady) <= fired


@given(batch=batches())
@calmly
def test_batch_that_comes_again_when_all_is_mended_fires_each_event_once(batch: Batch) -> None:
    """What was made the first time has the same id the second time, and nothing is missing."""
    mended = Batch(
        batch.lanes,
        tuple(
            {name: "1" if act.endswith("raise") else act for name, act in script.items()}
            for script in batch.scripts
        ),
    )
    ids: dict[str, set[str]] = {}
    names: Sequence[str] = list(batch.lanes)
    # The scripts are part of a watcher's id here, and are not where only its code is mended.
    with patch.object(Watcher, "id", property(lambda watcher: watcher.name)):
        for scripts in (batch, mended):
            with watching(scripts) as sent:
                report = watch.watch_batch(records(batch, names), seconds=30)
            names = [name for name in names if name in report.failed]
            for body, event in zip(sent.bodies, sent.events, strict=True):
                ids.setdefault(event, set()).add(body["event_id"])
    assert names == []
    assert set(ids) >= made(mended, set(batch.lanes), range(len(batch.scripts)))
    assert all(len(known) == 1 for known in ids.values())
    assert is_in_order(sent, batch)


def is_in_order(sent: Sent, batch: Batch) -> bool:
    """Return whether each watcher's events of a lane were sent in the lane's order."""
    by_lane: dict[tuple[str, str], list[str]] = {}
    for event in sent.events:
        watcher, _, payload = event.partition(" ")
        name = payload.partition(".")[0]
        if lane := batch.lanes[name]:
            by_lane.setdefault((watcher, lane), []).append(name)
    return all(order == sorted(order) for order in by_lane.values())
