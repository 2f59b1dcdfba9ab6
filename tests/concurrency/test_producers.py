"""Many processes ingest the same events at once: each is recorded once, and consumed once by each.

The processes are `producer.py`. What they left is judged from outside: by what was sent, by the
numbers that the runs have taken, and by what all storms are judged by.
"""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, aws
from lamplighter.assets.asset import AssetRef
from lamplighter.assets.condition import AssetAll, AssetAny, AssetCondition
from lamplighter.identifiers import alias_id, uri_id
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Dags, Runs
from lamplighter.store.models.assets import ITSELF, REJECTED
from tests.concurrency import storms
from tests.concurrency.producer import (
    D_BY_URI,
    FRESH,
    LATE,
    LATE_BUNDLE,
    NARROW,
    WIDE,
    A,
    B,
    C,
    D,
    late_dags,
)
from tests.concurrency.sqs_stand_in import Queues
from tests.concurrency.storms import FAULTS, PROCESSES, THREADS, Outcome, rage
from tests.tools.definitions import register_dags

EVENTS, TWO_ASSETS, ONE_ASSET = 130, 10, 10
LANES = 2  # of each process
PUSHES = 2 * PROCESSES

WEIGHTS = {
    "ingest": 5,
    "ingest_lanes": 2,
    "claim": 1,
    "finish": 0.4,  # slowly, so that many find no slot
    "tick": 0.06,
    "hand_on": 0.06,
    "register": 0.6,
    "sweep": 0.2,
    "meddle": 0.6,
}

EARLY = [
    DAG("alone", schedule=A, max_active_runs=1),
    DAG("both", schedule=(A & B), max_active_runs=2),
    DAG("either", schedule=(A | B), max_active_runs=3),
    DAG("mixed", schedule=((A & B) | C), max_active_runs=1),
    DAG("alias", schedule=FRESH, max_active_runs=2),
    # Events of `a` that come through the alias stand in both.
    DAG("twice", schedule=(A | FRESH), max_active_runs=1),
    DAG("uri", schedule=D_BY_URI, max_active_runs=3),
    DAG("uri_and_name", schedule=(D_BY_URI & D), max_active_runs=2),
]
# Short stories of two events each: of two assets that a DAG needs both, or of the same asset. What
# is forgotten in the midst of others is remembered when the next event comes; here none does.
TWINS = [(Asset(f"first_{at}"), Asset(f"second_{at}")) for at in range(TWO_ASSETS)]
TWINS += [(asset, asset) for asset in (Asset(f"only_{at}") for at in range(ONE_ASSET))]
SHORT = [DAG(f"short_{at}", schedule=(one & other)) for at, (one, other) in enumerate(TWINS)]


@dataclass
class Sent:
    """All that is sent in a storm, and what must become of it."""

    # What each process finds on its queues.
    messages: list[list[dict[str, Any]]] = field(
        default_factory=lambda: [[] for _ in range(PROCESSES)]
    )
    # By stream, the events that must be recorded in it; by lane, its events in their order.
    events: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    lanes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    # Messages that no asset can take, and messages and events that one takes if it is there.
    rejected: set[str] = field(default_factory=set)
    perhaps: dict[str, str] = field(default_factory=dict)

    def send(self, process: int, body: str, *, lane: str | None = None) -> str:
        """Put a message on the queues of a process, and return its id."""
        message_id = f"message-{process}-{len(self.messages[process])}"
        self.messages[process].append({"body": body, "lane": lane, "message_id": message_id})
        return message_id


def event(asset: Asset, event_id: str | None, *aliases: str, by_uri: bool = False) -> str:
    """Return the body of an event of an asset."""
    given = {
        **({"uri": asset.uri} if by_uri else {"asset": asset.name}),
        **({"event_id": event_id} if event_id is not None else {}),
        **({"aliases": aliases} if aliases else {}),
        "extra": {"event": event_id},
    }
    return json.dumps(given)


def send_many(count: int, chance: random.Random) -> Sent:
    """Return so many events of all kinds, of which several processes have some at once."""
    sent = Sent()
    for number in range(count):
        event_id, process = f"event-{number}", number % PROCESSES
        (asset,) = chance.choices([A, B, C, D], [4, 3, 2, 2])
        aliases = [FRESH.name] if chance.random() < 0.3 else []
        by_uri = chance.random() < 0.2
        kind = chance.random()
        if kind < 0.04:
            body = chance.choice(["not JSON", '{"asset": "unknown"}'])
            sent.rejected.add(sent.send(process, body))
            continue
        if kind < 0.1:
            sent.perhaps[sent.send(process, event(LATE, event_id))] = event_id
            continue
        body = event(asset, event_id, *aliases, by_uri=by_uri)
        if kind < 0.3:
            lane = f"{process}-{chance.randrange(LANES)}"
            sent.send(process, body, lane=lane)
            sent.lanes[lane].append(event_id)
        elif kind < 0.35:
            event_id = sent.send(process, event(asset, None, *aliases, by_uri=by_uri))
        else:
            sent.send(process, body)
            if kind > 0.7:  # they are about as far with their messages as this one
                sent.send(chance.randrange(PROCESSES), body)
        for stream in (asset.name, *map(alias_id, aliases), *([uri_id(D.uri)] * (asset == D))):
            sent.events[stream].add(event_id)
    return sent


def send_twins(sent: Sent) -> None:
    """Let two processes have the two events of each short story, at about the same time."""
    for story, assets in enumerate(TWINS):
        for number, asset in enumerate(assets):
            event_id = f"short-{story}-{number}"
            sent.send((story + number) % PROCESSES, event(asset, event_id))
            sent.events[asset.name].add(event_id)


def storm_of(seed: int, dags: Iterable[DAG], sent: Sent, **changes: Any) -> dict[str, Any]:
    """Return what one process is asked to do, as `producer.Storm` has it."""
    given = {
        # What stays open is old enough for the sweep very soon.
        "speed": 20,
        "moves_for": 1000,
        "messages": sent.messages[seed],
        "pushes": [],
        # With more of them nearly every transaction would meet another, and little would happen.
        "batches_at_once": 2,
        "weights": WEIGHTS,
        **changes,
    }
    return storms.storm_of(seed, (dag.dag_id for dag in dags), **given)


# The verdict.


@dataclass
class Tables:
    """What the storm has left."""

    assets: dict[str, Assets]
    # By stream, the numbers of its events.
    events: dict[str, dict[str, int]]
    queue: list[AssetQueue]
    dags: dict[str, Dags]
    runs: dict[str, list[Runs]]

    @classmethod
    def read(cls) -> "Tables":
        """Read everything."""
        events: dict[str, dict[str, int]] = defaultdict(dict)
        for row in AssetEvents.scan(consistent_read=True):
            if row.asset_id != REJECTED:
                # Under an alias the asset's name stands before the id.
                events[row.asset_id][row.event_id.rpartition("#")[2]] = int(row.seq or 0)
        runs: dict[str, list[Runs]] = defaultdict(list)
        for run in Runs.scan(consistent_read=True):
            runs[run.dag_id].append(run)
        return cls(
            {row.asset_id: row for row in Assets.scan(Assets.ref == ITSELF, consistent_read=True)},
            events,
            list(AssetQueue.scan(consistent_read=True)),
            {row.dag_id: row for row in Dags.scan(consistent_read=True)},
            runs,
        )


def judge(dags: Sequence[DAG], sent: Sent, outcome: Outcome, revs: Mapping[str, int]) -> list[str]:
    """Return everything that is not as it should be when the storm is over."""
    tables = Tables.read()
    limits = {dag.dag_id: dag.max_active_runs for dag in dags}
    found = storms.judge_all(outcome, limits, revs)
    found += judge_messages(sent, tables, outcome)
    found += judge_events(sent, tables)
    found += judge_order(sent, tables)
    for row in tables.queue:
        texts = judge_consumer(row, tables)
        found += [f"DAG {row.dag_id}, asset {row.asset_id}: {text}" for text in texts]
    for dag in dags:
        found += [f"DAG {dag.dag_id}: {text}" for text in judge_dag(dag, tables)]
    return found


def judge_messages(sent: Sent, tables: Tables, outcome: Outcome) -> Iterator[str]:
    """Tell what is wrong with what is still on the queues, and with what was given up."""
    left: Counter[str] = Counter()
    dead: set[str] = set()
    for answer in outcome.answers:
        left.update(answer["left"])
        dead |= {one["attributes"]["event_id"]["StringValue"] for one in answer["dead"]}
    if any(left.values()):
        yield f"messages are left: {dict(left)}"
    if lost := sent.rejected - dead:
        yield f"neither taken nor kept: {sorted(lost)}"
    if wrong := dead - sent.rejected - sent.perhaps.keys():
        yield f"given up, and nothing was wrong with them: {sorted(wrong)}"
    recorded = tables.events[LATE.name]
    if lost := {one for one, name in sent.perhaps.items() if name not in recorded} - dead:
        yield f"neither recorded nor kept: {sorted(lost)}"
    if strange := recorded.keys() - set(sent.perhaps.values()):
        yield f"events of the late asset that nobody sent: {sorted(strange)}"


def judge_events(sent: Sent, tables: Tables) -> Iterator[str]:
    """Tell what is wrong with the events of each stream."""
    for stream, row in tables.assets.items():
        numbers = tables.events[stream]
        if sorted(numbers.values()) != list(range(1, int(row.seq or 0) + 1)):
            yield f"asset {stream}: the numbers up to {row.seq} are {sorted(numbers.values())}"
        if row.open_shard is not None:
            yield f"asset {stream}: still open"
    for stream, wanted in sent.events.items():
        if wanted ^ tables.events[stream].keys():
            missing, strange = wanted - tables.events[stream].keys(), tables.events[stream].keys()
            yield f"asset {stream}: without {sorted(missing)}, with {sorted(strange - wanted)}"


def judge_order(sent: Sent, tables: Tables) -> Iterator[str]:
    """Tell what was recorded in another order than that of its lane, or of its asset."""
    for lane, events in sent.lanes.items():
        for stream, numbers in tables.events.items():
            order = [numbers[name] for name in events if name in numbers]
            if order != sorted(order):
                yield f"lane {lane}, asset {stream}: recorded in the order {order}"
    for asset in (A, B, C):  # once someone waits for the URI, it has each event of its asset
        copies = _in_order(tables.events[uri_id(asset.uri)])
        own = _in_order(tables.events[asset.name])
        if copies != own[len(own) - len(copies) :]:
            yield f"the URI of {asset.name} has {copies}, and the asset itself {own}"


def _in_order(numbers: Mapping[str, int]) -> list[str]:
    return sorted(numbers, key=lambda name: numbers[name])


def judge_consumer(row: AssetQueue, tables: Tables) -> Iterator[str]:
    """Tell whether an event of one asset came twice to a DAG, or never."""
    ranges = sorted(
        (*run.events[row.asset_id], run.run_key)
        for run in tables.runs[row.dag_id]
        if row.asset_id in (run.events or {})
    )
    for after, until, key in ranges:
        if after >= until:
            yield f"run {key} took nothing: {after} to {until}"
    for before, then in pairwise(ranges):
        if then[0] < before[1]:
            yield f"runs {before} and {then} took the same events"
    # Before `since_seq` it may have waited for the asset already, and have given it up.
    at = int(row.since_seq)
    for after, until, key in ranges:
        if until > row.since_seq:
            if after != at:
                yield f"run {key} took what is after {after}, and all up to {at} were taken"
            at = until
    if at != row.consumed_seq:
        yield f"runs took events up to {at}, and up to {row.consumed_seq} are consumed"
    if row.dropped:
        yield f"dropped {row.dropped}"


def judge_dag(dag: DAG, tables: Tables) -> Iterator[str]:
    """Tell what is left to be done with a DAG when all is over."""
    row, queue = tables.dags[dag.dag_id], {}
    for each in tables.queue:
        if each.dag_id == dag.dag_id:
            queue[each.asset_id] = each
    if unfinished := [run.run_key for run in tables.runs[dag.dag_id] if run.ended_at is None]:
        yield f"unfinished runs: {unfinished}"
    if row.active or row.waiting or row.next_run_create_after is not None or row.is_paused:
        yield f"slots {row.active}, waiting {row.waiting}, due at {row.next_run_create_after}"
    condition = dag.timetable.asset_condition
    wanted = {_stream(leaf) for leaf in condition.leaves()}
    if queue.keys() != wanted:
        yield f"it waits for {sorted(queue)}, and should for {sorted(wanted)}"
    pending = {key for key, each in queue.items() if tables.assets[key].seq > each.consumed_seq}
    if _is_met(condition, pending):
        yield f"events of {sorted(pending)} are pending, and enough for a run"


def _stream(leaf: AssetCondition) -> str:
    match leaf:
        case AssetAlias(name=name):
            return alias_id(name)
        case AssetRef(uri=str(uri)):
            return uri_id(uri)
        case Asset(name=name):
            return name
    raise TypeError(leaf)


def _is_met(condition: AssetCondition, pending: set[str]) -> bool:
    match condition:
        case AssetAll(objects=objects):
            return all(_is_met(one, pending) for one in objects)
        case AssetAny(objects=objects):
            return any(_is_met(one, pending) for one in objects)
    return _stream(condition) in pending


def register(*dags: DAG, bundle: str = "objects") -> dict[str, int]:
    """Register DAGs, and return how often the row of each has been written."""
    client = Queues().client()
    with patch.object(aws, "client", lambda _: client):
        register_dags(*dags, bundle=bundle)
    return {row.dag_id: int(row.rev) for row in Dags.scan(consistent_read=True)}


def test_storm_of_events_with_faults_consumes_each_once(environment: dict[str, str]) -> None:
    """Crashes, conflicts and pushes at every turn cost work, but no event, and none comes twice."""
    before = register(*EARLY, *SHORT)
    sent = send_many(EVENTS, random.Random(7))
    send_twins(sent)
    pushes = [
        (WIDE if number % 2 else NARROW, next_push_number(LATE_BUNDLE)) for number in range(PUSHES)
    ]
    asked = [
        storm_of(seed, EARLY, sent, faults=FAULTS, pause_count=2, pushes=pushes[seed::PROCESSES])
        for seed in range(PROCESSES)
    ]

    outcome = rage("producer", environment, *asked)

    print(outcome)  # noqa: T201 - to be seen when it fails
    found = judge([*EARLY, *SHORT, *late_dags(WIDE)], sent, outcome, before)
    assert not found, "\n".join(found)
    runs = Counter(run.dag_id for run in Runs.scan(consistent_read=True))
    assert {runs[dag.dag_id] for dag in SHORT[:TWO_ASSETS]} == {1}


@pytest.mark.full
def test_storm_of_events_on_one_asset_consumes_each_once(environment: dict[str, str]) -> None:
    """All threads record events of the same asset, for one who takes them and one who waits."""
    dags = [DAG("takes", schedule=A, max_active_runs=2), DAG("waits", schedule=(A & B))]
    before = register(*dags)
    sent = Sent()
    for number in range(120):
        for process in {number % PROCESSES, number // 3 % PROCESSES}:
            sent.send(process, event(A, f"event-{number}"))
        sent.events[A.name].add(f"event-{number}")
    weights = {"ingest": 5, "claim": 1, "finish": 0.6, "tick": 0.05, "hand_on": 0.05, "sweep": 0.2}
    asked = [
        storm_of(seed, dags, sent, weights=weights, batches_at_once=THREADS)
        for seed in range(PROCESSES)
    ]

    outcome = rage("producer", environment, *asked)

    print(outcome)  # noqa: T201 - to be seen when it fails
    found = judge(dags, sent, outcome, before)
    assert not found, "\n".join(found)
    (waiting,) = AssetQueue.query("waits", AssetQueue.asset_id == A.name, consistent_read=True)
    assert waiting.consumed_seq == 0
