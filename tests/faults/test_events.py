"""Asset events under a fault at every single call: none is lost, none comes twice.

Each scenario runs once to learn how many calls it makes. Then it runs again for every call and
every fault, with that fault at that call. After it the platform does what it always does: messages
come again, timers fire, whoever asked for something asks again, runs end. Then the tables must be
sound, and each event must have reached every consumer once.

Normally a selection that strikes every call; the full form is marked `full` (make faults).
"""

import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from pendulum import datetime
from pynamodb.exceptions import PynamoDBException

from lamplighter import DAG, Asset, AssetAlias, aws
from lamplighter.errors import TransientError
from lamplighter.events import fan_out, ingest
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.events.record import event_id_of
from lamplighter.registry import assets
from lamplighter.scheduler.claim import ClaimReport, claim_all
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Dags, Runs
from lamplighter.store.models.assets import REJECTED
from lamplighter.store.rows import connection
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_local.deliveries import deliver as deliver_to_ingest
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from tests.faults.reports import Report, each
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults, Kind, crash_points, overtaken
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot, begin_anew

MIDNIGHT = datetime(2026, 1, 1)
LATER = MIDNIGHT.add(minutes=10)
OF_SERVICES = (PynamoDBException, BotoCoreError, ClientError, TransientError)
SOME = 3  # points of a scenario in the short form
A_WHILE = timedelta(minutes=5)
# More rounds of messages, timers and ends of runs than any of the scenarios needs.
ROUNDS = 8

A, B, C = Asset("a", "s3://lake/a"), Asset("b"), Asset("c")
X = AssetAlias("x")
BY_URI = Asset.ref(uri="s3://lake/a")

Step = Callable[[LocalStack], object]


def nothing(_: LocalStack) -> None:
    """Leave all as it is."""


@dataclass(frozen=True)
class Scenario:
    """What is done under faults, what was there before, and what must be true in the end."""

    dags: tuple[DAG, ...]
    expected: object
    outcome: Callable[[], object]
    arrange: Step = nothing
    act: Step = nothing  # messages are delivered after it, under faults too
    meanwhile: Step = nothing  # what someone else does in the middle
    consumers_at_once: int = fan_out.MAX_AT_ONCE
    choices: dict[str, Any] = field(default_factory=dict)


# What is asked for, and what came of it.


def emit(*events: str, **about: Any) -> Step:
    """Return a step that sends events, each written as asset and id."""

    def send(stack: LocalStack) -> None:
        for event in events:
            asset, event_id = event.split()
            stack.emit(asset, event_id=event_id, **about)

    return send


def send(*bodies: object) -> Step:
    """Return a step that sends messages as they are."""

    def send_each(stack: LocalStack) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            url = stack.settings.queue_url("events")
            aws.client("sqs").send_message(QueueUrl=url, MessageBody=text)

    return send_each


def all_of(*steps: Step) -> Step:
    """Return the steps as one."""

    def do(stack: LocalStack) -> None:
        for step in steps:
            step(stack)

    return do


def deliver(stack: LocalStack) -> None:
    """Let everything arrive."""
    stack.run_until_idle()


def push(*dags: DAG) -> Step:
    """Return a step that registers these DAGs and no others."""
    return lambda _: register_dags(*dags)


def push_and_die(*dags: DAG) -> Step:
    """Return a step that writes the rows of these DAGs, and leaves old references as they are."""

    def push_in_part(_: LocalStack) -> None:
        with patch.object(assets, "drop_consumers", side_effect=Crash), suppress(Crash):
            register_dags(*dags)

    return push_in_part


def lose_fan_out(stack: LocalStack) -> None:
    """Let events be recorded by someone who dies before anyone hears of them."""
    with patch.object(ingest, "fan_out", return_value=ClaimReport()):
        stack.run_until_idle()


def replay_all(stack: LocalStack) -> None:
    """Send the dead letters once more."""
    for letter in dead_letters(limit=10):
        replay(letter)


def finish_all(_: LocalStack) -> bool:
    """Let every run succeed that has a slot; return whether there was one."""
    keys = [(row.dag_id, key) for row in Dags.scan() for key in sorted(row.active or ())]
    for dag_id, key in keys:
        finish_run(dag_id, key, state="success")
    return bool(keys)


def fates() -> dict[str, list[str]]:
    """Return by DAG the events that its runs have, and with a minus those that were dropped."""
    events = [event for event in AssetEvents.scan() if event.asset_id != REJECTED]
    found: dict[str, list[str]] = {row.dag_id: [] for row in Dags.scan()}

    def note(dag_id: str, stream: str, bounds: Sequence[int], sign: str = "") -> None:
        found[dag_id] += [
            f"{sign}{stream.partition(':')[0]} {event_id_of(event)}"
            for event in events
            if event.asset_id == stream and bounds[0] < int(event.seq or 0) <= bounds[1]
        ]

    for run in Runs.scan():
        for stream, bounds in (run.events or {}).items():
            note(run.dag_id, stream, bounds)
    for row in AssetQueue.scan():
        for after, until, _when, _why in row.dropped or ():
            note(row.dag_id, row.asset_id, (after, until), "-")
    return {dag_id: sorted(texts) for dag_id, texts in found.items()}


def order(stream: str) -> list[str]:
    """Return the ids of an asset's events as they were numbered."""
    return [event.event_id for event in sorted(AssetEvents.query(stream), key=lambda e: e.seq)]


def dead() -> set[str]:
    """Return the bodies of all dead letters, among which may be copies."""
    gone = [queue for queue in queues() if "-events-dlq" in queue.name]
    return {message.body for queue in gone for message in queue._messages}


SCENARIOS = {
    "one event, one consumer": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=emit("a e1"),
        outcome=fates,
        expected={"one": ["a e1"]},
    ),
    "both of two in one batch": Scenario(
        dags=(DAG("both", schedule=(A & B)), DAG("also", schedule=(A & B))),
        arrange=emit("a e1", "b e2"),
        outcome=fates,
        expected={"both": ["a e1", "b e2"], "also": ["a e1", "b e2"]},
    ),
    "several assets in one batch": Scenario(
        dags=(
            DAG("any", schedule=(A | B)),
            DAG("nested", schedule=((A & B) | C), max_active_runs=1),
            DAG("rest", schedule=[C]),
        ),
        arrange=emit("a e1", "b e2", "a e3", "c e4"),
        outcome=fates,
        expected={
            "any": ["a e1", "a e3", "b e2"],
            "nested": ["a e1", "a e3", "b e2", "c e4"],
            "rest": ["c e4"],
        },
    ),
    "the same event again and again": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("both", schedule=(A & B))),
        arrange=all_of(
            emit("a e1", "a e1", "b e2"),
            deliver,
            emit("a e1", "b e2", "a e3"),
            emit("a e1", "a e3", lane="lane"),
        ),
        outcome=fates,
        expected={"one": ["a e1", "a e3"], "both": ["a e1", "b e2"]},
    ),
    "lanes": Scenario(
        dags=(DAG("any", schedule=(A | B)),),
        arrange=all_of(
            emit("a e1", "b e2", "a e3", "a e4", lane="one"),
            emit("b f1", "b f2", lane="two"),
        ),
        outcome=lambda: (fates(), order("a"), [id_ for id_ in order("b") if id_ != "e2"]),
        expected=(
            {"any": ["a e1", "a e3", "a e4", "b e2", "b f1", "b f2"]},
            ["e1", "e3", "e4"],
            ["f1", "f2"],
        ),
    ),
    "messages that nobody understands": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=all_of(
            send("no JSON", {"asset": "nobody"}, {"asset": "a", "event_id": "e1"}),
            send({"asset": "a", "uri": "s3://lake/a"}),
        ),
        outcome=lambda: (fates(), dead(), order("a")),
        expected=(
            {"one": ["a e1"]},
            {"no JSON", '{"asset": "nobody"}', '{"asset": "a", "uri": "s3://lake/a"}'},
            ["e1"],
        ),
    ),
    "a lane with a message that nobody understands": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=all_of(
            emit("a e1", lane="lane"), emit("nobody e2", lane="lane"), emit("a e3", lane="lane")
        ),
        outcome=lambda: (fates(), len(dead()), order("a")),
        expected=({"one": ["a e1", "a e3"]}, 1, ["e1", "e3"]),
    ),
    "an alias": Scenario(
        dags=(
            DAG("asset", schedule=[A]),
            DAG("alias", schedule=[X]),
            DAG("either", schedule=(A | X)),
            DAG("other", schedule=[B]),
        ),
        arrange=all_of(emit("a e1"), emit("a e2", "b e3", aliases=["x"]), emit("a e4")),
        outcome=fates,
        expected={
            "asset": ["a e1", "a e2", "a e4"],
            "alias": ["alias e2", "alias e3"],
            "either": ["a e1", "a e2", "a e4", "alias e2", "alias e3"],
            "other": ["b e3"],
        },
    ),
    "a reference by URI": Scenario(
        dags=(
            DAG("asset", schedule=[A]),
            DAG("uri", schedule=[BY_URI]),
            DAG("either", schedule=(A | BY_URI)),
        ),
        arrange=all_of(emit("a e1"), send({"uri": "s3://lake/a", "event_id": "e2"})),
        outcome=fates,
        expected={
            "asset": ["a e1", "a e2"],
            "uri": ["uri e1", "uri e2"],
            "either": ["a e1", "a e2", "uri e1", "uri e2"],
        },
    ),
    "an alias together with its asset": Scenario(
        dags=(DAG("both", schedule=(A & X)),),
        arrange=all_of(emit("a e1"), emit("a e2", aliases=["x"])),
        outcome=fates,
        expected={"both": ["a e1", "a e2", "alias e2"]},
    ),
    "objects of S3 in one message": Scenario(
        dags=(DAG("either", schedule=(A | B)),),
        arrange=send(
            {
                "Records": [
                    {
                        "eventSource": "aws:s3",
                        "eventName": "ObjectCreated:Put",
                        "eventTime": "2026-01-01T00:00:00.000Z",
                        "s3": {
                            "bucket": {"name": "lake"},
                            "object": {"key": f"a/{key}", "size": 1, "sequencer": key},
                        },
                    }
                    for key in ("01", "02", "03")
                ]
            }
        ),
        outcome=lambda: (len(set(fates()["either"])), len(fates()["either"]), len(order("a"))),
        expected=(3, 3, 3),
    ),
    "no slot": Scenario(
        dags=(DAG("one", schedule=[A], max_active_runs=1),),
        arrange=all_of(emit("a e1"), deliver, emit("a e2", "a e3")),
        act=all_of(deliver, finish_all),
        outcome=fates,
        expected={"one": ["a e1", "a e2", "a e3"]},
    ),
    "paused, with catchup": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=all_of(lambda _: pause("one"), emit("a e1", "a e2"), deliver),
        act=lambda _: unpause("one"),
        outcome=fates,
        expected={"one": ["a e1", "a e2"]},
    ),
    "paused, without catchup": Scenario(
        dags=(DAG("one", schedule=(A | B), catchup=False), DAG("other", schedule=[A])),
        arrange=all_of(lambda _: pause("one"), emit("a e1", "b e2", "a e3"), deliver),
        act=lambda _: unpause("one"),
        outcome=fates,
        expected={"one": ["-a e1", "-a e3", "-b e2"], "other": ["a e1", "a e3"]},
    ),
    "a start date that has come": Scenario(
        dags=(
            DAG("kept", schedule=(A & B), start_date=LATER),
            DAG("fresh", schedule=(A & B), start_date=LATER, catchup=False),
        ),
        arrange=all_of(emit("a e1", "b e2"), deliver, lambda stack: stack.clock.move(to=LATER)),
        act=lambda stack: stack.tick(),
        outcome=fates,
        expected={"kept": ["a e1", "b e2"], "fresh": ["-a e1", "-b e2"]},
    ),
    "an end date that is over": Scenario(
        dags=(DAG("one", schedule=(A | X), end_date=LATER),),
        arrange=all_of(
            emit("a e1"),
            deliver,
            lambda stack: stack.clock.move(to=LATER.add(seconds=1)),
            emit("a e2", "a e3", aliases=["x"]),
        ),
        outcome=fates,
        expected={"one": ["-a e2", "-a e3", "-alias e2", "-alias e3", "a e1"]},
    ),
    "events that come while someone un-pauses": Scenario(
        dags=(DAG("kept", schedule=[A]), DAG("either", schedule=(A | X), catchup=False)),
        arrange=all_of(
            lambda _: pause("kept"),
            lambda _: pause("either"),
            emit("a e1", aliases=["x"]),
            deliver,
            emit("a e2"),
        ),
        act=all_of(lambda _: unpause("kept"), lambda _: unpause("either"), deliver),
        # What comes before the second try to un-pause is dropped too.
        outcome=lambda: {dag: {t.lstrip("-") for t in texts} for dag, texts in fates().items()},
        expected={"kept": {"a e1", "a e2"}, "either": {"a e1", "alias e1", "a e2"}},
    ),
    "a condition that becomes easier": Scenario(
        dags=(DAG("one", schedule=(A & B)),),
        arrange=all_of(emit("a e1"), deliver, emit("a e2")),
        act=push(DAG("one", schedule=(A | C))),
        outcome=fates,
        expected={"one": ["a e1", "a e2"]},
    ),
    "a condition to which an alias is added": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("alias", schedule=[X])),
        arrange=all_of(emit("a e1", aliases=["x"]), deliver, emit("a e2", aliases=["x"])),
        act=push(DAG("one", schedule=(A | X)), DAG("alias", schedule=[X])),
        outcome=lambda: (fates()["alias"], {text.split()[1] for text in fates()["one"]}),
        expected=(["alias e1", "alias e2"], {"e1", "e2"}),
    ),
    "a condition that changes from asset to alias": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("alias", schedule=[X])),
        arrange=all_of(emit("a e1", aliases=["x"]), deliver, emit("a e2", aliases=["x"])),
        act=push(DAG("one", schedule=[X]), DAG("alias", schedule=[X])),
        outcome=lambda: (fates()["alias"], {text.split()[1] for text in fates()["one"]}),
        expected=(["alias e1", "alias e2"], {"e1", "e2"}),
    ),
    "a condition that gets back what a dead push left behind": Scenario(
        dags=(DAG("one", schedule=(A | X)),),
        arrange=all_of(
            push_and_die(DAG("one", schedule=[X])), emit("a e1", aliases=["x"]), deliver
        ),
        act=push(DAG("one", schedule=(A | X))),
        outcome=lambda: {text.split()[1] for text in fates()["one"]},
        expected={"e1"},
    ),
    "a URI that begins to be waited for": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=all_of(emit("a e1"), deliver, emit("a e1")),
        act=all_of(push(DAG("one", schedule=(A | BY_URI))), emit("a e2")),
        outcome=lambda: (fates(), order("a")),
        expected=({"one": ["a e1", "a e2", "uri e2"]}, ["e1", "e2"]),
    ),
    "a DAG that went away and comes back": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("stays", schedule=[B])),
        arrange=all_of(push(DAG("stays", schedule=[B])), emit("a e1", "b e2"), deliver),
        act=push(DAG("one", schedule=[A]), DAG("stays", schedule=[B])),
        outcome=fates,
        expected={"one": ["a e1"], "stays": ["b e2"]},
    ),
    "more consumers than are claimed at once": Scenario(
        dags=tuple(DAG(f"dag{n}", schedule=(A if n % 2 else A | B)) for n in range(5)),
        consumers_at_once=2,
        arrange=emit("a e1", "b e2"),
        outcome=fates,
        expected={f"dag{n}": ["a e1"] if n % 2 else ["a e1", "b e2"] for n in range(5)},
    ),
    "events that were recorded and not handed on": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("both", schedule=(A & B))),
        arrange=all_of(emit("a e1", "b e2"), lose_fan_out, lambda s: s.clock.advance(A_WHILE)),
        act=lambda stack: stack.sweep(),
        outcome=fates,
        expected={"one": ["a e1"], "both": ["a e1", "b e2"]},
    ),
    "dead letters that are sent again": Scenario(
        dags=(),
        arrange=all_of(
            emit("a e1"),
            emit("a e2", lane="lane"),
            deliver,
            push(DAG("one", schedule=[A])),
        ),
        act=replay_all,
        outcome=lambda: (fates(), dead(), sorted(order("a"))),
        expected=({"one": ["a e1", "a e2"]}, set(), ["e1", "e2"]),
    ),
    "assets that no DAG has named": Scenario(
        dags=(DAG("one", schedule=[A]),),
        choices={"unknown_assets": "register"},
        arrange=emit("new e1", "a e2", "new e3"),
        outcome=lambda: (fates(), order("new")),
        expected=({"one": ["a e2"]}, ["e1", "e3"]),
    ),
    "events beside a time": Scenario(
        dags=(
            DAG(
                "one",
                start_date=MIDNIGHT,
                schedule=AssetOrTimeSchedule(
                    timetable=CronTriggerTimetable("0 0 1 * *", timezone="UTC"), assets=A
                ),
                max_active_runs=1,
            ),
        ),
        arrange=emit("a e1", "a e2"),
        act=lambda stack: stack.tick(),
        outcome=lambda: (fates(), sorted(run.run_type for run in Runs.scan())),
        expected=({"one": ["a e1", "a e2"]}, ["asset_triggered", "scheduled"]),
    ),
}

OVERTAKINGS = {
    "another event": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("either", schedule=(A | B))),
        arrange=all_of(emit("a e1"), emit("b e2", "a e3", lane="lane")),
        meanwhile=deliver,
        outcome=fates,
        expected={"one": ["a e1", "a e3"], "either": ["a e1", "a e3", "b e2"]},
    ),
    "the other half of a condition": Scenario(
        dags=(DAG("both", schedule=(A & B)),),
        arrange=all_of(emit("a e1"), emit("b e2", lane="lane")),
        meanwhile=deliver,
        outcome=fates,
        expected={"both": ["a e1", "b e2"]},
    ),
    "the same event": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("either", schedule=(A | X))),
        arrange=all_of(emit("a e1", aliases=["x"]), emit("a e1", lane="lane", aliases=["x"])),
        meanwhile=deliver,
        outcome=fates,
        expected={"one": ["a e1"], "either": ["a e1", "alias e1"]},
    ),
    "a claim": Scenario(
        dags=(DAG("one", schedule=[A], max_active_runs=1), DAG("either", schedule=(A | X))),
        arrange=emit("a e1", "a e2", aliases=["x"]),
        meanwhile=lambda _: claim_all(["one", "either"]),
        outcome=fates,
        expected={"one": ["a e1", "a e2"], "either": ["a e1", "a e2", "alias e1", "alias e2"]},
    ),
    "a pause": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=emit("a e1"),
        meanwhile=all_of(lambda _: pause("one"), deliver, lambda _: unpause("one")),
        outcome=fates,
        expected={"one": ["a e1"]},
    ),
    "someone who drops what is pending": Scenario(
        dags=(DAG("one", schedule=(A | X), catchup=False),),
        arrange=all_of(lambda _: pause("one"), emit("a e1", aliases=["x"])),
        meanwhile=lambda _: unpause("one"),
        # It depends on who was faster, but both copies have the same fate.
        outcome=lambda: {text.lstrip("-") for text in fates()["one"]},
        expected={"a e1", "alias e1"},
    ),
    "a push with an alias more": Scenario(
        dags=(DAG("one", schedule=[A]), DAG("alias", schedule=[X])),
        arrange=emit("a e1", "a e2", aliases=["x"]),
        meanwhile=push(DAG("one", schedule=(A | X)), DAG("alias", schedule=[X])),
        outcome=lambda: (fates()["alias"], {text.split()[1] for text in fates()["one"]}),
        expected=(["alias e1", "alias e2"], {"e1", "e2"}),
    ),
    "a push that waits for a URI": Scenario(
        dags=(DAG("one", schedule=[A]),),
        arrange=emit("a e1"),
        meanwhile=push(DAG("one", schedule=[A]), DAG("uri", schedule=(BY_URI | A))),
        outcome=lambda: fates()["one"],
        expected=["a e1"],
    ),
}


# Doing it, under faults and without.


@pytest.fixture(name="deployment", scope="module")
def make_deployment() -> Iterator[LocalStack]:
    """Yield a deployment for all scenarios: to make one takes as long as some of them."""
    with local_stack(at=MIDNIGHT) as stack:
        yield stack


@contextmanager
def emulator(scenario: Scenario, deployment: LocalStack) -> Iterator[Snapshot]:
    """Let the deployment be as if it were new, and the scenario about to begin."""
    made = replace(deployment.settings, due_shards=1, run_shards=1, **scenario.choices)
    with (
        patch.object(deployment.runtime, "settings", made),
        patch.object(fan_out, "MAX_AT_ONCE", scenario.consumers_at_once),
    ):
        begin_anew(deployment, at=MIDNIGHT.add(seconds=5))
        register_dags(*scenario.dags)
        deployment.run_until_idle()
        scenario.arrange(deployment)
        yield Snapshot(deployment)


def try_with(faults: Faults, scenario: Scenario, stack: LocalStack) -> None:
    """Do it once under faults; only errors that a service could have caused may come of it."""
    with (
        faults.on(connection().client, aws.client("sqs")),
        suppress(Crash, *OF_SERVICES),
        warnings.catch_warnings(),
    ):
        # Powertools warns that a handler which died has no metrics, and so hides why it died.
        warnings.filterwarnings("ignore", message="No application metrics")
        scenario.act(stack)
        stack.run_until_idle()


def go_on(scenario: Scenario, stack: LocalStack) -> None:
    """Let happen what always happens: messages come again, timers fire, runs end."""
    # What a dead process had received becomes visible again before anyone else does anything.
    stack.clock.advance(A_WHILE)
    stack.run_until_idle()
    scenario.act(stack)
    for _ in range(ROUNDS):
        stack.run_until_idle()
        stack.tick()
        stack.sweep()
        stack.clock.advance(A_WHILE)
        stack.run_until_idle()
        if not finish_all(stack):
            break


def wrong_after(scenario: Scenario) -> Iterator[str]:
    """Yield what is wrong in the end."""
    yield from violations()
    if (outcome := scenario.outcome()) != scenario.expected:
        yield f"got {outcome} instead of {scenario.expected}"
    if left := [queue.name for queue in queues() if _is_of_events(queue.name) and queue._messages]:
        yield f"messages are left in {left}"
    if still := [row.asset_id for row in Assets.scan() if row.open_shard is not None]:
        yield f"assets are open for ever: {still}"


def _is_of_events(name: str) -> bool:
    return name.removesuffix(".fifo").endswith("-events")


def some_points(calls: Sequence[str]) -> Iterator[tuple[Kind, int]]:
    """Yield some of these faults, spread over the calls."""
    points = list(crash_points(calls))
    return (points[len(points) * (2 * at + 1) // (2 * SOME)] for at in range(SOME))


Points = Callable[[Sequence[str]], Iterator[tuple[Kind, int]]]


def strike(scenario: Scenario, deployment: LocalStack, points: Points) -> tuple[int, list[str]]:
    """Put a fault at each point of a scenario; return how many there are, and what went wrong."""
    wrong: list[str] = []
    with emulator(scenario, deployment) as emulated:
        counted = Faults()
        try_with(counted, scenario, emulated.put_back())
        assert list(violations()) == []
        go_on(scenario, emulated.stack)
        assert list(wrong_after(scenario)) == []
        todo = list(points(counted.calls))
        for kind, number in each(todo):
            faults = Faults()
            faults.at(number, kind)
            stack = emulated.put_back()
            try:
                try_with(faults, scenario, stack)
                wrong += [f"at once, {faults.injected}: {t}" for t in violations(is_idle=False)]
                go_on(scenario, stack)
            except Exception as error:  # noqa: BLE001 - all of them are listed in the end
                wrong.append(f"{faults.injected} became {error!r}")
            else:
                wrong += [f"{faults.injected}: {text}" for text in wrong_after(scenario)]
            assert not faults.pending
    return len(todo), wrong


def strike_twice(scenario: Scenario, deployment: LocalStack) -> tuple[int, list[str]]:
    """Die after each call, and at each call of the second try lose the answer."""
    wrong: list[str] = []
    points = 0
    with emulator(scenario, deployment) as emulated:
        counted = Faults()
        try_with(counted, scenario, emulated.put_back())
        first = [n for kind, n in crash_points(counted.calls) if kind == "crash-after"]
        for number in each(first):
            stack = emulated.put_back()
            dying = Faults()
            dying.at(number, "crash-after")
            try_with(dying, scenario, stack)
            stack.clock.advance(A_WHILE)
            again = Snapshot(stack)
            retry = Faults()
            try_with(retry, scenario, again.put_back())
            for kind, second in each(crash_points(retry.calls)):
                if kind != "lost-answer":
                    continue
                points += 1
                faults = Faults()
                faults.at(second, kind)
                try_with(faults, scenario, again.put_back())
                go_on(scenario, stack)
                both = dying.injected + faults.injected
                wrong += [f"{both}: {text}" for text in wrong_after(scenario)]
    return points, wrong


def overtake(scenario: Scenario, deployment: LocalStack, limit: int) -> tuple[int, list[str]]:
    """Let someone else act before each call of a delivery; return how often, and what broke."""
    wrong: list[str] = []
    with emulator(scenario, deployment) as emulated:

        def story(number: int) -> list[str]:
            stack = emulated.put_back()
            clients = (connection().client, aws.client("sqs"))
            with overtaken(clients, number, lambda: scenario.meanwhile(stack)) as calls:
                deliver_to_ingest(stack.settings.queue_url("events"), "ingest")
            if not number:
                scenario.meanwhile(stack)
            found = [f"at once: {text}" for text in violations(is_idle=False)]
            go_on(scenario, stack)
            wrong.extend(f"before call {number}: {t}" for t in (*found, *wrong_after(scenario)))
            return calls

        calls = story(0)
        points = range(1, len(calls) + 1, max(1, len(calls) // limit))
        for number in each(points):
            story(number)
    return len(points), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SCENARIOS)[::3])
def test_fault_at_some_calls_loses_and_doubles_no_event(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whichever call fails, each event reaches every consumer once; every third of the stories."""
    report(name, *strike(SCENARIOS[name], deployment, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OVERTAKINGS)[::2])
def test_overtaken_delivery_loses_and_doubles_no_event(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whatever someone else does in the middle of a delivery, each event comes once."""
    report(name, *overtake(OVERTAKINGS[name], deployment, SOME))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_loses_and_doubles_no_event(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whatever fails at whichever call, each event reaches every consumer once."""
    report(name, *strike(SCENARIOS[name], deployment, crash_points))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_delivery_overtaken_at_every_call_loses_and_doubles_no_event(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """As above, before every single call."""
    report(name, *overtake(OVERTAKINGS[name], deployment, limit=1_000))


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["both of two in one batch", "an alias together with its asset", "lanes"]
)
def test_two_faults_lose_and_double_no_event(
    name: str, deployment: LocalStack, report: Report
) -> None:
    """Whoever dies, and whichever call then fails in the second try, each event comes once."""
    report(f"{name}, twice", *strike_twice(SCENARIOS[name], deployment))
