"""Events, crashes, people and pushes in any order: each event reaches each consumer once.

A model knows what was sent, and watches which references there were when an event was recorded. In
the end all messages arrive and all runs finish; then every event must have become part of exactly
one run of each DAG that waited for it, unless a rule of ours let it be dropped.
"""

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import ClassVar

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pendulum import datetime
from pynamodb.exceptions import PynamoDBException

from lamplighter import DAG, Asset, AssetAlias, aws
from lamplighter.assets.condition import AssetAll, AssetAny, AssetCondition
from lamplighter.errors import TransientError
from lamplighter.events.record import event_id_of
from lamplighter.scheduler.pending import ids_of
from lamplighter.store.models import AssetEvents, AssetQueue, Assets, Dags, Runs
from lamplighter.store.models.assets import ITSELF, REJECTED
from lamplighter.store.rows import connection
from lamplighter_local import deliveries
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults, Kind
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import begin_anew

BEGIN = datetime(2026, 1, 1, 0, 0, 5)
OF_SERVICES = (PynamoDBException, BotoCoreError, ClientError, TransientError)
PASSING = [timedelta(seconds=1), timedelta(seconds=40), timedelta(minutes=4), timedelta(hours=1)]
# More rounds than any backlog of the few events here can need.
ROUNDS = 40

A, B, C = Asset("a", "s3://lake/a"), Asset("b"), Asset("c")
X, BY_URI = AssetAlias("x"), Asset.ref(uri="s3://lake/a")
IDS = ("one", "two", "three", "four")
# In a bundle of its own: a DAG that always waits for everything, so that all assets are known.
ALWAYS = DAG("always", schedule=(A | B | C | X), max_active_runs=2)
BAD = ["no JSON", '{"asset": "nobody"}', '{"asset": "a", "aliases": ["nobody"]}', "[]"]

dag_ids = st.sampled_from(IDS)
conditions: st.SearchStrategy[AssetCondition] = st.recursive(
    st.sampled_from([A, B, C, X, BY_URI]),
    lambda inner: st.builds(
        lambda kind, members: kind(*members),
        st.sampled_from([AssetAll, AssetAny]),
        st.lists(inner, min_size=2, max_size=3),
    ),
    max_leaves=4,
)
lanes = st.sampled_from([" ", "1", "2"])  # the first is none
news = st.tuples(st.sampled_from("abc"), st.booleans(), lanes)
kinds: st.SearchStrategy[Kind] = st.sampled_from(
    ["crash-before", "crash-after", "lost-answer", "throttle", "conflict"]
)
# One try in two goes well.
faults = st.none() | st.tuples(kinds, st.integers(1, 10))
Fault = tuple[Kind, int] | None


@dataclass(frozen=True)
class Definition:
    """What a push says about a DAG; the rest it keeps for life."""

    condition: AssetCondition
    catchup: bool
    max_active_runs: int

    def dag(self, dag_id: str) -> DAG:
        """Return the DAG."""
        return DAG(
            dag_id,
            schedule=[self.condition],
            catchup=self.catchup,
            max_active_runs=self.max_active_runs,
        )


definitions = st.builds(Definition, conditions, st.booleans(), st.integers(1, 2))


class Events(RuleBasedStateMachine):
    """A deployment that anything may happen to, and what must come of it."""

    stack: ClassVar[LocalStack]
    crash_points: ClassVar[int]

    @initialize(defined=st.lists(definitions, min_size=3, max_size=4))
    def begin(self, defined: list[Definition]) -> None:
        """Empty the deployment and define some DAGs."""
        begin_anew(self.stack, at=BEGIN)
        self.defined = dict(zip(IDS, defined, strict=False))
        self.present = set(self.defined)
        self.sent: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.rejected: set[str] = set()
        self.seen: set[tuple[str, str]] = set()
        self.owed: dict[tuple[str, str], set[str]] = {}
        self.since: dict[tuple[str, str], int] = {}
        self.dropped: set[tuple[str, str, str]] = set()
        register_dags(ALWAYS, bundle="always")
        self._push()
        self.stack.run_until_idle()
        self._watch()

    # Producers.

    @rule(several=st.lists(news, min_size=1, max_size=4))
    def emit(self, several: list[tuple[str, bool, str]]) -> None:
        """Something new has happened."""
        for asset, has_alias, lane in several:
            event_id = f"e{len(self.sent)}"
            self.sent[event_id] = (asset, ("x",) if has_alias else ())
            self._send(event_id, lane)

    @rule(data=st.data(), lane=lanes)
    def emit_again(self, data: st.DataObject, lane: str) -> None:
        """A producer sends something a second time, perhaps by another way."""
        if self.sent:
            self._send(data.draw(st.sampled_from(sorted(self.sent))), lane)

    @rule(body=st.sampled_from(BAD))
    def emit_nonsense(self, body: str) -> None:
        """Something comes that nobody understands, or that is of an asset nobody knows."""
        self.rejected.add(body)
        url = self.stack.settings.queue_url("events")
        aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)

    def _send(self, event_id: str, lane: str) -> None:
        asset, aliases = self.sent[event_id]
        self.stack.emit(asset, event_id=event_id, aliases=aliases, lane=lane.strip() or None)

    # The platform.

    @rule(
        queue=st.sampled_from(["events", "events.fifo", "claims"]),
        count=st.integers(1, 10),
        is_reversed=st.booleans(),
        fault=faults,
    )
    def deliver(self, queue: str, count: int, is_reversed: bool, fault: Fault) -> None:
        """Some messages arrive, of a standard queue in any order."""
        url = self.stack.settings.queue_url(queue)
        if is_reversed and queue != "events.fifo":
            (found,) = [one for one in queues() if one.name == url.rpartition("/")[2]]
            found._messages.reverse()

        def hand_over() -> None:
            sqs = aws.client("sqs")
            deliveries._free_lanes(url)
            answer = sqs.receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=count,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            if messages := answer.get("Messages"):
                function = "claim" if queue == "claims" else "ingest"
                deliveries._hand_over(url, function, messages)

        self._try(fault, hand_over)

    @rule(fault=faults)
    def deliver_all(self, fault: Fault) -> None:
        """All messages arrive that can."""
        self._try(fault, self.stack.run_until_idle)

    @rule(is_sweep=st.booleans(), fault=faults)
    def fire_timer(self, is_sweep: bool, fault: Fault) -> None:
        """A timer fires: of what is due, or of what was left behind."""
        self._try(fault, self.stack.sweep if is_sweep else self.stack.tick)

    @rule(by=st.sampled_from(PASSING))
    def pass_time(self, by: timedelta) -> None:
        """Nothing happens for a while."""
        self.stack.clock.advance(by)

    # People.

    @rule(dag_id=dag_ids, fault=faults)
    def finish(self, dag_id: str, fault: Fault) -> None:
        """A run ends."""
        active = self.stack.dag(dag_id).active if dag_id in self.defined else None
        if active:
            self._try(fault, lambda: finish_run(dag_id, min(active), state="success"))

    @rule(dag_id=dag_ids)
    def pause(self, dag_id: str) -> None:
        """Someone pauses a DAG."""
        if dag_id in self.defined:
            pause(dag_id)

    @rule(dag_id=dag_ids, fault=faults)
    def unpause(self, dag_id: str, fault: Fault) -> None:
        """Someone lets it run again."""
        if dag_id in self.defined:
            with self._dropping(dag_id):
                self._try(fault, lambda: unpause(dag_id))

    @contextmanager
    def _dropping(self, dag_id: str) -> Iterator[None]:
        """Note what is pending as dropped, if the DAG is un-paused and has no catchup."""
        before, had = self.stack.dag(dag_id), attached()
        # What it waits for, or will wait for when a push that died has been repeated.
        streams = {stream for consumer, stream in self.owed if consumer == dag_id}
        certain = set(ids_of(before.asset_condition))
        drops = drops_of(dag_id)
        yield
        if not before.is_paused or before.catchup or self.stack.dag(dag_id).is_paused:
            return
        for stream in streams:
            if stream in certain or drops_of(dag_id)[stream] > drops[stream]:
                owed = {(dag_id, stream, event_id) for event_id in self.owed[dag_id, stream]}
                self.dropped |= owed - had.keys()

    @rule(dag_id=dag_ids, condition=conditions, fault=faults)
    def edit(self, dag_id: str, condition: AssetCondition, fault: Fault) -> None:
        """A push lets a DAG wait for something else; if it dies, the next one makes good."""
        if dag_id in self.defined:
            self.defined[dag_id] = replace(self.defined[dag_id], condition=condition)
            self.present.add(dag_id)
            self._try(fault, self._push)

    @rule(dag_id=dag_ids, fault=faults)
    def leave_out(self, dag_id: str, fault: Fault) -> None:
        """A push does not have a DAG any more."""
        if len(self.present) > 1:
            self.present.discard(dag_id)
            self._try(fault, self._push)

    def _push(self) -> None:
        register_dags(*(self.defined[dag_id].dag(dag_id) for dag_id in sorted(self.present)))

    # Trying, and watching what comes of it.

    def _try(self, fault: Fault, action: Callable[[], object]) -> None:
        """Do something, perhaps with one call that fails; what a service cannot cause is raised."""
        planned = Faults()
        if fault is not None:
            kind, call = fault
            planned.at(call, kind)
        with (
            planned.on(connection().client, aws.client("sqs")),
            suppress(Crash, *OF_SERVICES),
            warnings.catch_warnings(),
        ):
            # Powertools warns that a handler which died has no metrics.
            warnings.filterwarnings("ignore", message="No application metrics")
            action()
        Events.crash_points += len(planned.injected)
        self._watch(is_pushed=action == self._push)

    def _watch(self, *, is_pushed: bool = False) -> None:
        """Let the model know which events are new, and who waits for them."""
        numbers: dict[str, dict[str, int]] = defaultdict(dict)
        for row in AssetEvents.scan():
            if row.asset_id != REJECTED:
                numbers[row.asset_id][event_id_of(row)] = int(row.seq or 0)
        now = {(stream, event_id) for stream, ids in numbers.items() for event_id in ids}
        new = now - self.seen
        since = {(row.dag_id, row.asset_id): int(row.since_seq) for row in AssetQueue.scan()}
        self.owed = {key: self.owed.get(key, set()) for key in since}
        for stream, event_id in new:
            for key, owed in self.owed.items():
                if key[1] == stream:
                    owed.add(event_id)
        for key in since.keys() & self.since.keys():
            if since[key] > self.since[key]:
                # A reference of a push that died counts from the next push on.
                assert is_pushed
                self.owed[key] -= {id_ for id_, seq in numbers[key[1]].items() if seq <= since[key]}
        self.since = since
        also = {
            row.asset_id: row.mirrored_uris or set() for row in Assets.scan() if row.ref == ITSELF
        }
        for event_id in {event_id for stream, event_id in new if ":" not in stream}:
            asset, aliases = self.sent[event_id]
            copies = also[asset] | {f"alias:{name}" for name in aliases}
            assert {stream for stream, id_ in new if id_ == event_id} == {asset, *copies}
        self.seen = now

    @invariant()
    def is_sound(self) -> None:
        """What must always be true is."""
        assert violations(is_idle=False) == []

    def teardown(self) -> None:
        """When all is delivered, un-paused and finished, each event has come everywhere once."""
        if not hasattr(self, "sent"):
            return
        self.present = set(self.defined)
        self._push()
        self._watch(is_pushed=True)
        for dag_id in self.defined:
            with self._dropping(dag_id):
                unpause(dag_id)
        self._settle()
        self._watch()
        # One more of everything at once, so that no condition is left waiting.
        self.emit([(asset, True, " ") for asset in "abc"])
        self._settle()
        self._watch()
        assert violations() == []
        assert {stream_and_id for stream_and_id in self.seen if ":" not in stream_and_id[0]} == {
            (asset, event_id) for event_id, (asset, _) in self.sent.items()
        }
        had = attached()
        waited_for = {row.dag_id: set(ids_of(row.asset_condition)) for row in Dags.scan()}
        assert {(dag_id, key) for dag_id, ids in waited_for.items() for key in ids} == {
            (row.dag_id, row.asset_id) for row in AssetQueue.scan()
        }
        for (dag_id, stream), owed in self.owed.items():
            for event_id in owed if stream in waited_for[dag_id] else ():
                key = (dag_id, stream, event_id)
                assert had[key] == (key not in self.dropped), (key, had[key], key in self.dropped)
        assert dead() == self.rejected

    def _settle(self) -> None:
        """Let messages arrive, timers fire and runs end until nothing moves any more."""
        for _ in range(ROUNDS):
            self.stack.clock.advance(timedelta(minutes=10))
            self.stack.run_until_idle()
            self.stack.tick()
            self.stack.sweep()
            self.stack.run_until_idle()
            active = [(row.dag_id, key) for row in Dags.scan() for key in row.active or ()]
            for dag_id, key in active:
                finish_run(dag_id, key, state="success")
            if not active:
                return
        raise AssertionError("runs came without end")


def attached() -> Counter[tuple[str, str, str]]:
    """Return how often each event is part of a run of a DAG, by DAG, stream and event."""
    numbered = {(row.asset_id, int(row.seq or 0)): event_id_of(row) for row in AssetEvents.scan()}
    return Counter(
        (run.dag_id, stream, numbered[stream, seq])
        for run in Runs.scan()
        for stream, (after, until) in (run.events or {}).items()
        for seq in range(after + 1, until + 1)
    )


def drops_of(dag_id: str) -> Counter[str]:
    """Return by stream how often pending events of a DAG were dropped."""
    return Counter({row.asset_id: len(row.dropped or ()) for row in AssetQueue.query(dag_id)})


def dead() -> set[str]:
    """Return the bodies of all dead letters, among which may be copies."""
    gone = [queue for queue in queues() if "-events-dlq" in queue.name]
    return {message.body for queue in gone for message in queue._messages}


def play(examples: int, steps: int) -> int:
    """Let so many stories happen; return how many calls failed in them."""
    bounded = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        # To shrink a failure takes minutes here; its steps are few enough to read.
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with local_stack(at=BEGIN) as stack:
        made = replace(stack.settings, due_shards=1, run_shards=1)
        stack.settings = made
        Events.stack, Events.crash_points = stack, 0
        run_state_machine_as_test(Events, settings=bounded)
    return Events.crash_points


def test_events_in_any_order_come_once() -> None:
    """No order of events, crashes, pauses and pushes loses an event or attaches it twice."""
    assert play(examples=8, steps=20)


@pytest.mark.full
def test_events_in_many_orders_come_once(
    capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]
) -> None:
    """As above, with many more stories, and longer ones."""
    points = play(examples=80, steps=30)
    record_property("crash points", points)
    with capsys.disabled():
        sys.stdout.write(f"\nrandom stories: crash points: {points}, violations: 0\n")
