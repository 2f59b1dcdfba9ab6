"""Rows of assets, aliases and URIs: which there are, where URIs lead, and who hears of an event.

Registrations come in every order, crash at every call, and run at the same moment as others and as
events that are being recorded.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask, aws
from lamplighter.assets.asset import AssetRef
from lamplighter.events import record as record_module
from lamplighter.identifiers import uri_id
from lamplighter.registry import pushes
from lamplighter.registry.assets import register_assets
from lamplighter.registry.pushes import Push
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetEvents, AssetQueue, Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.rows import connection
from lamplighter.store.transactions import (
    CancellationReason,
    Cause,
    TransactionCanceled,
    Write,
    transact,
)
from lamplighter_local.deliveries import deliver
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults
from tests.tools.snapshot import Snapshot

MINUTE = timedelta(minutes=1)
A, B = Asset("a", "s3://lake/a"), Asset("b", "s3://lake/b")
BY_URI = Asset.ref(uri="s3://lake/a")
URI = uri_id("s3://lake/a")


def producer(*assets: Asset | AssetAlias, dag_id: str = "producer") -> DAG:
    """Return a DAG that produces assets."""
    dag = DAG(dag_id)
    SparkTask("task", entry_point="jobs/job.py", outlets=assets, dag=dag)
    return dag


def waiting(*assets: Asset | AssetAlias | AssetRef, dag_id: str = "dag") -> DAG:
    """Return a DAG that waits for assets."""
    return DAG(dag_id, schedule=list(assets))


def rows() -> dict[str, Assets]:
    """Return the rows of assets, aliases and URIs."""
    return {row.asset_id: row for row in Assets.scan() if row.ref == ITSELF}


def leads(*uris: str) -> list[str | None]:
    """Return the assets that URIs lead to."""
    found = rows()
    return [found[uri_id(uri)].target for uri in uris]


def columns(row: Any, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def lasting() -> dict[str, tuple[Any, ...]]:
    """Return what all rows say, apart from how often and when they were written."""
    names = ("kind", "name", "uri", "group", "extra", "target", "has_consumers", "mirrored_uris")
    return {key: columns(row, *names) for key, row in rows().items()}


def require_tied() -> None:
    """Fail if a URI leads to an asset that has another, or an asset does not know who waits."""
    found = rows()
    uris = {key: row for key, row in found.items() if row.kind == "uri"}
    for key, row in uris.items():
        if row.target is not None:
            assert uri_id(found[row.target].uri) == key, f"{row.uri} leads to {row.target}"
    for key, row in found.items():
        waited_for = {uri for uri in uris if uris[uri].target == key and uris[uri].has_consumers}
        assert (row.mirrored_uris or set()) == waited_for, (
            f"{key} is also recorded under {row.mirrored_uris}"
        )


def require_all_consumed(stack: LocalStack) -> None:
    """Fail unless every event has a number, and is in exactly one run of each who waits for it."""
    found = rows()
    for key, row in found.items():
        numbers = sorted(int(event.seq) for event in AssetEvents.query(key))
        assert numbers == list(range(1, int(row.seq) + 1)), f"{key} has the events {numbers}"
        assert row.open_shard is None
    for queue in AssetQueue.scan():
        runs = stack.runs(queue.dag_id)
        taken = sorted(run.events[queue.asset_id] for run in runs if queue.asset_id in run.events)
        bounds = [[queue.since_seq], *taken, [found[queue.asset_id].seq]]
        breaks = [(before, after) for before, after in pairwise(bounds) if before[-1] != after[0]]
        assert not breaks, f"{queue.dag_id} has {taken} of {bounds[0]} to {bounds[-1]}"


def number_of_runs(stack: LocalStack, *dag_ids: str) -> tuple[int, ...]:
    """Return how many runs each DAG has."""
    return tuple(len(stack.runs(dag_id)) for dag_id in dag_ids)


# Sending events.


def by_name(stack: LocalStack) -> None:
    """Send an event of the asset `a`."""
    stack.emit("a")


def by_uri(stack: LocalStack) -> None:
    """Send an event of whatever asset has the URI of `a`."""
    stack.emit(uri="s3://lake/a/")


def by_object(stack: LocalStack) -> None:
    """Let S3 tell of a new object below the URI of `a`."""
    created = {
        "eventSource": "aws:s3",
        "eventName": "ObjectCreated:Put",
        "eventTime": "2026-01-05T12:00:00Z",
        "s3": {
            "bucket": {"name": "lake"},
            "object": {"key": "a/day%3D1/part.parquet", "size": 1, "sequencer": "01"},
        },
    }
    aws.client("sqs").send_message(
        QueueUrl=stack.settings.queue_url("events"), MessageBody=json.dumps({"Records": [created]})
    )


WAYS = (by_name, by_uri, by_object)


# Which rows there are.


def test_asset_and_its_uri_have_rows(stack: LocalStack) -> None:
    """A definition's row says all that it says, and its URI leads to it."""
    register_dags(producer(Asset("a", "S3://lake/a/", group="g", extra={"k": 1})))
    assert set(rows()) == {"a", URI}
    row, uri = rows()["a"], rows()[URI]
    assert columns(row, "kind", "name", "uri") == ("asset", "a", "s3://lake/a")
    assert columns(row, "group", "extra", "mirrored_uris") == ("g", {"k": 1}, None)
    assert columns(row, "seq", "refs_rev", "created_at") == (0, 0, stack.clock.now())
    assert columns(uri, "kind", "uri", "target", "seq") == ("uri", "s3://lake/a", "a", 0)
    assert uri.has_consumers is None


def test_alias_has_a_row_of_its_own(stack: LocalStack) -> None:
    """An alias has a name and events, and neither URI nor description."""
    register_dags(producer(AssetAlias("a", group="g")), waiting(A))
    assert set(rows()) == {"a", URI, "alias:a"}
    assert columns(rows()["alias:a"], "kind", "name", "uri", "seq") == ("alias", "a", None, 0)
    assert stack.dag("producer").asset_condition is None


@pytest.mark.usefixtures("stack")
def test_reference_by_name_is_described_when_the_asset_comes() -> None:
    """Until then its row has a name alone; the reference pushed again takes nothing away."""
    reference = waiting(Asset.ref(name="a"))
    register_dags(reference, bundle="consumers")
    assert columns(rows()["a"], "kind", "name", "uri", "group") == ("asset", "a", None, None)
    register_dags(producer(A))
    described = lasting()
    assert described["a"][:4] == ("asset", "a", "s3://lake/a", "asset")
    register_dags(reference, bundle="consumers")
    assert lasting() == described


@pytest.mark.usefixtures("stack")
def test_asset_is_what_its_newest_definition_says() -> None:
    """Group and extra follow the definition, also when it says less than before."""
    register_dags(producer(Asset("a", "s3://lake/a", group="g", extra={"k": 1})))
    register_dags(producer(Asset("a", "s3://lake/a", group="", extra={"k": [2]})))
    assert columns(rows()["a"], "group", "extra") == ("", {"k": [2]})
    register_dags(producer(A))
    assert columns(rows()["a"], "group", "extra") == ("asset", None)


@pytest.mark.usefixtures("stack")
def test_definition_counts_more_than_a_reference() -> None:
    """In one push it does not matter whether the definition or the reference is read first."""
    for dags in ([producer(A), waiting(Asset.ref(name="a"))], [waiting(BY_URI), producer(A)]):
        register_dags(*dags)
        assert columns(rows()["a"], "uri", "group") == ("s3://lake/a", "asset")
        assert leads("s3://lake/a") == ["a"]


@pytest.mark.usefixtures("stack")
def test_same_push_again_writes_no_row() -> None:
    """What is registered already is read, and nothing else."""
    dags = [producer(A, AssetAlias("x")), waiting(BY_URI, B, Asset.ref(name="n"))]
    register_dags(*dags)
    before = [row.attribute_values for row in rows().values()]
    source = begun("objects")
    faults = Faults()
    with faults.on(connection().client):
        register_assets(dags, source)
    assert faults.calls == ["BatchGetItem"]
    assert [row.attribute_values for row in rows().values()] == before


@pytest.mark.usefixtures("stack")
def test_80_assets_and_who_waits_for_them_come_in_one_push() -> None:
    """More rows than a transaction takes are all there, also where references are read first."""
    uris = [f"s3://lake/{number}" for number in range(80)]
    assets = [Asset(f"a{number}", uri) for number, uri in enumerate(uris)]
    register_dags(waiting(*(Asset.ref(uri=uri) for uri in uris[::10])), producer(*assets))
    require_tied()
    assert leads(*uris) == [asset.name for asset in assets]
    assert sum(row.mirrored_uris is not None for row in rows().values()) == 8


# Where a URI leads.


@pytest.mark.usefixtures("stack")
def test_uri_leads_to_the_asset_pushed_last() -> None:
    """Of two assets with one URI that of the newest push has it, whichever came first."""
    twin = Asset("twin", "s3://lake/a")
    register_dags(producer(A), waiting(BY_URI))
    for dag, bundle in ((twin, "other"), (A, "objects"), (twin, "other")):
        register_dags(
            producer(dag, dag_id=bundle), waiting(BY_URI, dag_id=f"w_{bundle}"), bundle=bundle
        )
        assert leads("s3://lake/a") == [dag.name]
        require_tied()


@pytest.mark.usefixtures("stack")
def test_two_assets_with_one_uri_in_a_push_are_settled_once() -> None:
    """The last of them has it, and the same push again changes nothing."""
    dags = [producer(A, Asset("twin", "s3://lake/a"), Asset("a", "s3://lake/a")), waiting(BY_URI)]
    register_dags(*dags)
    require_tied()
    before = [row.attribute_values for row in rows().values()]
    register_dags(*dags)
    assert leads("s3://lake/a") == ["twin"]
    assert [row.attribute_values for row in rows().values()] == before


@pytest.mark.usefixtures("stack")
def test_asset_with_two_uris_in_a_push_has_one() -> None:
    """The last definition counts, and the same push again changes nothing."""
    moved = Asset("a", "s3://new/a")
    register_dags(producer(A), waiting(BY_URI, Asset.ref(uri="s3://new/a")))
    for _ in range(2):
        register_dags(producer(A, moved), waiting(BY_URI, Asset.ref(uri="s3://new/a")))
        assert (rows()["a"].uri, leads("s3://lake/a", "s3://new/a")) == ("s3://new/a", [None, "a"])
        require_tied()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ["reference first", "asset first", "same push"])
def test_event_reaches_who_waits_for_the_uri_once(
    stack: LocalStack, order: str, way: Callable[[LocalStack], None]
) -> None:
    """Name, URI or an object below it: who waits by URI has it once, and so has who waits by name.

    It does not matter which bundle was pushed first, nor that the message is delivered twice.
    """
    named = [producer(A), waiting(A, dag_id="named")]
    if order == "same push":
        register_dags(waiting(BY_URI), *named)
    else:
        pushes = [("consumers", [waiting(BY_URI)]), ("producers", named)]
        for bundle, dags in pushes if order == "reference first" else reversed(pushes):
            register_dags(*dags, bundle=bundle)
            stack.run_until_idle()
    require_tied()
    way(stack)
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{URI: [0, 1]}]
    assert [run.events for run in stack.runs("named")] == [{"a": [0, 1]}]
    (copy,) = AssetEvents.query(URI)
    (event,) = AssetEvents.query("a")
    assert columns(copy, "event_id", "origin") == (event.event_id, "a")
    assert event.origin is None
    if way is by_object:
        way(stack)
        stack.run_until_idle()
    else:
        stack.emit("a", event_id=event.event_id)
        stack.run_until_idle()
    assert number_of_runs(stack, "dag", "named") == (1, 1)
    require_all_consumed(stack)


@pytest.mark.parametrize("way", [by_uri, by_object])
def test_event_of_a_uri_without_asset_reaches_who_waits(
    stack: LocalStack, way: Callable[[LocalStack], None]
) -> None:
    """Nobody has said yet which asset that is; once someone has, it goes on from there."""
    register_dags(waiting(BY_URI), bundle="consumers")
    way(stack)
    stack.run_until_idle()
    register_dags(producer(A))
    stack.clock.advance(MINUTE)
    stack.emit("a")
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{URI: [0, 1]}, {URI: [1, 2]}]
    assert rows()["a"].seq == 1
    require_all_consumed(stack)


def test_who_waits_for_name_and_uri_has_one_run(stack: LocalStack) -> None:
    """One event fulfils both, and becomes one run that takes it in both."""
    register_dags(DAG("both", schedule=(A & BY_URI)), DAG("either", schedule=(A | BY_URI)))
    stack.emit("a")
    stack.run_until_idle()
    for dag_id in ("both", "either"):
        assert [run.events for run in stack.runs(dag_id)] == [{"a": [0, 1], URI: [0, 1]}]


# Assets that move.


MOVED = Asset("a", "s3://new/a")
OLD_AND_NEW = [
    waiting(BY_URI, dag_id="old"),
    waiting(Asset.ref(uri="s3://new/a"), dag_id="new"),
    waiting(Asset.ref(name="a"), dag_id="named"),
]


def test_asset_with_a_new_uri_leaves_the_old_one(stack: LocalStack) -> None:
    """Its events go to who waits for the new URI, and no longer to who waits for the old one."""
    register_dags(*OLD_AND_NEW, bundle="consumers")
    register_dags(producer(A))
    stack.emit("a")
    stack.run_until_idle()
    assert number_of_runs(stack, "old", "new", "named") == (1, 0, 1)
    register_dags(producer(MOVED))
    require_tied()
    assert leads("s3://lake/a", "s3://new/a") == [None, "a"]
    stack.clock.advance(MINUTE)
    stack.emit("a")
    stack.emit(uri="s3://new/a")
    stack.run_until_idle()
    assert number_of_runs(stack, "old", "new", "named") == (1, 1, 2)
    assert (rows()[URI].seq, rows()["a"].seq) == (1, 3)
    require_all_consumed(stack)


def test_uri_that_was_left_names_the_asset_no_more(stack: LocalStack) -> None:
    """An event by the old URI is rejected, and an object below it belongs to the asset above."""
    register_dags(producer(A, Asset("lake", "s3://lake")))
    register_dags(producer(MOVED, Asset("lake", "s3://lake")))
    by_uri(stack)
    by_object(stack)
    stack.run_until_idle()
    assert columns(rows()["a"], "uri", "seq") == ("s3://new/a", 0)
    assert (rows()["lake"].seq, rows()[URI].seq) == (1, 0)


def test_asset_with_a_new_name_keeps_who_waits_for_its_uri(stack: LocalStack) -> None:
    """By URI nothing changes; events under the old name reach only who waits for that name."""
    register_dags(waiting(BY_URI), waiting(Asset.ref(name="a"), dag_id="named"), bundle="consumers")
    register_dags(producer(A))
    register_dags(producer(Asset("renamed", "s3://lake/a")))
    require_tied()
    assert leads("s3://lake/a") == ["renamed"]
    for way in ({"asset": "renamed"}, {"asset": "a"}, {"uri": "s3://lake/a"}):
        stack.emit(**way)
        stack.run_until_idle()
        stack.clock.advance(MINUTE)
    assert [run.events for run in stack.runs("dag")] == [{URI: [0, 1]}, {URI: [1, 2]}]
    assert [run.events for run in stack.runs("named")] == [{"a": [0, 1]}]
    assert [event.origin for event in AssetEvents.query(URI)] == ["renamed", "renamed"]
    register_dags(producer(Asset("a", "s3://new/a"), Asset("renamed", "s3://lake/a")))
    assert leads("s3://lake/a", "s3://new/a") == ["renamed", "a"]
    require_tied()


def test_two_assets_change_places_in_one_push(stack: LocalStack) -> None:
    """Each has the other's URI after it, and is known to who waits for that."""
    waiters = [waiting(Asset.ref(uri=f"s3://lake/{x}"), dag_id=f"of_{x}") for x in "ab"]
    register_dags(*waiters, bundle="consumers")
    register_dags(producer(A, B))
    register_dags(producer(Asset("a", "s3://lake/b"), Asset("b", "s3://lake/a")))
    require_tied()
    assert leads("s3://lake/a", "s3://lake/b") == ["b", "a"]
    stack.emit("a")
    stack.run_until_idle()
    assert number_of_runs(stack, "of_a", "of_b") == (0, 1)


# Crashes.


def begun(bundle: str = "objects") -> Push:
    """Return a new push of a bundle, of which only assets will be registered."""
    source = Push(bundle, "0" * 64, next_push_number(bundle))
    pushes.begin(source)
    return source


def before_the_change() -> None:
    """Register what the pushes of this part find there: assets, and who waits for their URIs."""
    register_dags(*OLD_AND_NEW, waiting(Asset.ref(uri="s3://lake/b")), bundle="consumers")
    register_dags(producer(A, B, Asset("left", "s3://lake/left")))


# Moves, changes of place, a description, new assets and a URI that begins to be waited for.
CHANGE = [
    producer(
        MOVED,
        Asset("b", "s3://lake/a", extra={"k": 1}),
        Asset("left", "s3://lake/b"),
        Asset("fresh", "s3://lake/fresh"),
        Asset("other", "s3://lake/left"),
        AssetAlias("x"),
    ),
    waiting(Asset.ref(uri="s3://lake/left"), Asset.ref(uri="s3://lake/none"), dag_id="more"),
]


@pytest.mark.slow
def test_crash_between_any_two_writes_leaves_the_rows_tied(stack: LocalStack) -> None:
    """Wherever it dies, what rows say of each other is true, and a repetition does the rest."""
    before_the_change()
    snapshot = Snapshot(stack)
    counted = Faults()
    source = begun()
    with counted.on(connection().client):
        register_assets(CHANGE, source)
    expected = lasting()
    require_tied()
    uris = [f"s3://lake/{name}" for name in ("a", "b", "left", "none", "fresh")]
    assert leads(*uris, "s3://new/a") == ["b", "left", "other", None, "fresh", "a"]
    writes = counted.calls.count("TransactWriteItems")
    assert writes >= 6
    for number in range(1, writes + 1):
        snapshot.put_back()
        source, faults = begun(), Faults()
        faults.at(number, "crash-after", "TransactWriteItems")
        with faults.on(connection().client), suppress(Crash):
            register_assets(CHANGE, source)
        assert not faults.pending
        require_tied()
        register_assets(CHANGE, source)
        assert lasting() == expected, faults.injected


# At the same moment.


@contextmanager
def before_call(number: int, act: Callable[[], object], *operations: str) -> Iterator[list[str]]:
    """Do something just before one of the calls to DynamoDB; yield those that came until then."""
    client: Any = connection().client
    real = client._make_api_call
    calls: list[str] = []

    def call(operation: str, request: Mapping[str, Any]) -> Any:
        if len(calls) < number and operation in (operations or {operation}):
            calls.append(operation)
            if len(calls) == number:
                act()
        return real(operation, request)

    client._make_api_call = call
    try:
        yield calls
    finally:
        del client._make_api_call


def at_every_call(
    stack: LocalStack, do: Callable[[], object], act: Callable[[], object], *operations: str
) -> Iterator[int]:
    """Do something over and over from the same state, with `act` before one call after another."""
    snapshot = Snapshot(stack)
    for number in range(1, 100):
        snapshot.put_back()
        with before_call(number, act, *operations) as calls:
            do()
        if len(calls) < number:
            assert number > 1
            return
        yield number


ASSETS_AT_ONCE: dict[str, tuple[Asset, DAG]] = {
    "who waits for its URI": (MOVED, waiting(Asset.ref(uri="s3://new/a"), dag_id="other")),
    "who waits for its name": (MOVED, waiting(Asset.ref(name="a"), dag_id="other")),
    "its other URI": (MOVED, producer(Asset("a", "s3://newer/a"))),
    "its twin": (MOVED, producer(Asset("twin", "s3://new/a"))),
    "who takes its place": (MOVED, producer(Asset("b", "s3://lake/a"))),
    "itself": (MOVED, producer(MOVED)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_new", "is_inside"),
    [(True, True), (False, True), (False, False)],
    ids=["new", "known", "known, the other way round"],
)
@pytest.mark.parametrize("name", ASSETS_AT_ONCE)
def test_two_registrations_at_once_are_as_one_after_the_other(
    stack: LocalStack, name: str, is_new: bool, is_inside: bool
) -> None:
    """An asset comes, or moves, while another bundle says something about it or its URI."""
    if not is_new:
        register_dags(*OLD_AND_NEW[:2], bundle="consumers")
        register_dags(producer(A, B))
    asset, other = ASSETS_AT_ONCE[name]
    acts = [
        partial(register_assets, [producer(asset)], begun("one")),
        partial(register_assets, [other], begun("two")),
    ]
    do, act = acts if is_inside else reversed(acts)
    snapshot = Snapshot(stack)
    orders = []
    for first, second in ((do, act), (act, do)):
        snapshot.put_back()
        first()
        second()
        orders.append(lasting())
    snapshot.put_back()
    for number in at_every_call(stack, do, act):
        require_tied()
        assert lasting() in orders, f"before call {number}"
        do()
        assert lasting() == orders[1], f"before call {number}, and then again"


@pytest.mark.slow
def test_many_assets_registered_twice_at_once_are_tied(stack: LocalStack) -> None:
    """Two bundles that say the same at the same moment end in what one of them would."""
    before_the_change()
    one, other = (partial(register_assets, CHANGE, begun(bundle)) for bundle in ("one", "two"))
    snapshot = Snapshot(stack)
    one()
    expected = lasting()
    snapshot.put_back()
    for number in at_every_call(stack, one, other, "TransactWriteItems"):
        require_tied()
        assert lasting() == expected, f"before call {number}"


# While an event is being recorded.


def registration(*dags: DAG, bundle: str = "other") -> Callable[[], object]:
    """Return what registers DAGs of another bundle."""
    return partial(register_dags, *dags, bundle=bundle)


CHANGES: dict[str, Callable[[], object]] = {
    "one more waits by name": registration(waiting(Asset.ref(name="a"), dag_id="more")),
    "one more waits by URI": registration(waiting(BY_URI, dag_id="more")),
    "one more waits for both": registration(DAG("more", schedule=(BY_URI | Asset.ref(name="a")))),
    "one waits for something else": registration(waiting(B), bundle="consumers"),
    "URI leads elsewhere": registration(producer(Asset("twin", "s3://lake/a"), dag_id="more")),
    "asset moves": registration(producer(MOVED, dag_id="more")),
}


def recorded() -> list[str]:
    """Return where events stand first of all: under their asset, or among the rejected."""
    return [event.asset_id for event in AssetEvents.scan() if event.origin is None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "way", "has_consumers"),
    [
        ("URI leads elsewhere", by_uri, True),
        pytest.param("one more waits by name", by_uri, True, marks=pytest.mark.full),
        pytest.param("one more waits by URI", by_uri, False, marks=pytest.mark.full),
        pytest.param("one more waits for both", by_object, True, marks=pytest.mark.full),
        pytest.param("one waits for something else", by_name, True, marks=pytest.mark.full),
        pytest.param("asset moves", by_object, True, marks=pytest.mark.full),
    ],
)
def test_push_at_any_moment_of_an_event_loses_nothing(
    stack: LocalStack, change: str, way: Callable[[LocalStack], None], has_consumers: bool
) -> None:
    """Before whichever call of the recording it comes, every event is in one run of each consumer.

    Those who waited before have it; who comes meanwhile has it if it was recorded after that.
    """
    register_dags(producer(A, B), waiting(Asset.ref(name="a"), dag_id="named"))
    register_dags(waiting(BY_URI if has_consumers else Asset.ref(name="a")), bundle="consumers")
    stack.run_until_idle()
    way(stack)
    ingest = partial(deliver, stack.settings.queue_url("events"), "ingest")
    for number in at_every_call(stack, ingest, CHANGES[change]):
        stack.run_until_idle()
        require_tied()
        require_all_consumed(stack)
        assert len(recorded()) == 1, f"before call {number}"
        if change.startswith("one more"):
            assert number_of_runs(stack, "dag", "named") == (1, 1), f"before call {number}"


@contextmanager
def overtaken(act: Callable[[], object], *busy: str) -> Iterator[None]:
    """Do something just before events are committed; rows in `busy` are being written just then."""
    is_first = True

    def transact_after_that(writes: Sequence[Write]) -> None:
        nonlocal is_first
        if not is_first:
            transact(writes)
            return
        is_first = False
        act()
        try:
            transact(writes)
        except TransactionCanceled as cancelled:
            keys = [write.row.key_values()[0] for write in writes]
            pairs = zip(keys, cancelled.reasons, strict=True)
            raise TransactionCanceled(
                [CancellationReason(Cause.BUSY) if key in busy else reason for key, reason in pairs]
            ) from None

    with patch.object(record_module, "transact", transact_after_that):
        yield
    assert not is_first


@pytest.mark.parametrize("way", WAYS)
def test_event_in_flight_reaches_who_comes_before_it_is_recorded(
    stack: LocalStack, way: Callable[[LocalStack], None]
) -> None:
    """Who has the reference when the event is committed has the event, by name and by URI."""
    register_dags(producer(A))
    way(stack)
    with overtaken(registration(waiting(BY_URI), waiting(A, dag_id="named"))):
        stack.run_until_idle()
    assert number_of_runs(stack, "dag", "named") == (1, 1)
    assert recorded() == ["a"]
    require_all_consumed(stack)


@pytest.mark.parametrize("way", [by_uri, by_object])
def test_event_in_flight_is_of_the_asset_that_gets_its_uri(
    stack: LocalStack, way: Callable[[LocalStack], None]
) -> None:
    """An event by URI is of the asset that has it when it is recorded, and so for all who wait."""
    twin = Asset.ref(name="twin")
    waiters = [waiting(A, dag_id="of_a"), waiting(twin, dag_id="of_twin")]
    register_dags(waiting(BY_URI), *waiters, bundle="consumers")
    way(stack)
    with overtaken(CHANGES["URI leads elsewhere"]):
        stack.run_until_idle()
    assert recorded() == ["twin"]
    assert number_of_runs(stack, "dag", "of_a", "of_twin") == (1, 0, 1)
    require_all_consumed(stack)


def test_event_in_flight_of_a_uri_is_of_the_asset_that_comes(stack: LocalStack) -> None:
    """A URI without asset gets one just then: the event is the asset's, and still the URI's."""
    register_dags(waiting(BY_URI), waiting(Asset.ref(name="a"), dag_id="named"), bundle="consumers")
    by_uri(stack)
    with overtaken(registration(producer(A))):
        stack.run_until_idle()
    assert recorded() == ["a"]
    assert number_of_runs(stack, "dag", "named") == (1, 1)
    require_all_consumed(stack)


def test_event_in_flight_of_an_asset_that_moves(stack: LocalStack) -> None:
    """It is recorded under the new URI and not under the old one."""
    register_dags(*OLD_AND_NEW, bundle="consumers")
    register_dags(producer(A))
    by_name(stack)
    with overtaken(CHANGES["asset moves"]):
        stack.run_until_idle()
    assert number_of_runs(stack, "old", "new", "named") == (0, 1, 1)
    require_all_consumed(stack)


@pytest.mark.parametrize(
    "busy",
    [
        "a",
        URI,
    ],
)
def test_event_in_flight_follows_its_uri_when_rows_are_busy(stack: LocalStack, busy: str) -> None:
    """DynamoDB tells of one row that it has changed, and of the other only that it is busy."""
    register_dags(waiting(BY_URI), waiting(A, dag_id="named"), bundle="consumers")
    by_uri(stack)
    with overtaken(CHANGES["URI leads elsewhere"], busy):
        stack.run_until_idle()
    assert number_of_runs(stack, "dag") == (1,)
    require_all_consumed(stack)


def test_removed_consumer_stands_in_nobodys_way(stack: LocalStack) -> None:
    """A consumer that leaves while an event is recorded has no run of it; the others do."""
    register_dags(producer(A), waiting(BY_URI, dag_id="stays"))
    register_dags(waiting(BY_URI), bundle="consumers")
    stack.run_until_idle()
    by_object(stack)
    with overtaken(CHANGES["one waits for something else"]):
        stack.run_until_idle()
    assert number_of_runs(stack, "dag", "stays") == (0, 1)
    assert [row.asset_id for row in AssetQueue.query("dag")] == ["b"]
    require_all_consumed(stack)
