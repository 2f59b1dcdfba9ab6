"""Which asset an event is of: by name, by URI, by the place of an object, and under which names."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamplighter import DAG, Asset, AssetAlias, runtime
from lamplighter.assets.asset import normalize_uri
from lamplighter.errors import RejectedError, TransientError
from lamplighter.events.message import AssetEvent
from lamplighter.events.record import Resolver, uris_above
from lamplighter.identifiers import alias_id, uri_id
from lamplighter.store.models import Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.rows import connection
from lamplighter_local.stack import LocalStack
from tests.integration.events.batches import asset_row, known
from tests.tools.definitions import register_dags
from tests.tools.faults import Faults

pytestmark = pytest.mark.usefixtures("stack")


def event(**fields: Any) -> AssetEvent:
    """Return an event."""
    return AssetEvent("e", **fields)


def streams(**fields: Any) -> tuple[str, ...]:
    """Return where an event is recorded, as the tables are now."""
    this = event(**fields)
    return Resolver.reading([this]).streams_of(this)


# Pure.


@pytest.mark.parametrize(
    ("object_uri", "expected"),
    [
        ("s3://lake/a/b/c", ["s3://lake/a/b/c", "s3://lake/a/b", "s3://lake/a", "s3://lake/"]),
        ("s3://lake/a", ["s3://lake/a", "s3://lake/"]),
        # S3's consoles make folders as objects with this name.
        ("s3://lake/a/b/", ["s3://lake/a/b", "s3://lake/a", "s3://lake/"]),
        ("s3://lake/a//b", ["s3://lake/a//b", "s3://lake/a", "s3://lake/"]),
        ("s3://lake//a", ["s3://lake//a", "s3://lake/"]),
        ("s3://lake/day=1 & 2/ü", ["s3://lake/day=1 & 2/ü", "s3://lake/day=1 & 2", "s3://lake/"]),
    ],
)
def test_uris_above_an_object_are_its_folders(object_uri: str, expected: list[str]) -> None:
    """The object itself comes first, then its folders, and the bucket last."""
    assert uris_above(object_uri) == expected


@given(st.text(alphabet="ab/ .=é%+", min_size=1, max_size=30))
def test_uris_above_have_their_normal_form(key: str) -> None:
    """They are compared with the URIs of assets, which have it; none comes twice."""
    found = uris_above(f"s3://lake/{key}")
    assert found == [normalize_uri(uri) for uri in found]
    assert len(set(found)) == len(found)
    assert found[-1] == "s3://lake/"


# From the tables.


def test_name_uri_and_object_lead_to_one_asset() -> None:
    """However a producer names the asset, the event is recorded under its id."""
    known(Asset("Daily orders", "s3://lake/orders"))
    (row,) = [row for row in Assets.scan() if row.kind == "asset"]
    assert streams(asset="Daily orders") == (row.asset_id,)
    assert streams(uri="s3://lake/orders") == (row.asset_id,)
    assert streams(object_uri="s3://lake/orders/2026/01/part-0.parquet") == (row.asset_id,)
    assert streams(object_uri="s3://lake/orders") == (row.asset_id,)


def test_object_belongs_to_the_nearest_asset() -> None:
    """Of assets one below the other the object is of the deepest, and only of that."""
    known(Asset("lake", "s3://lake"), Asset("orders", "s3://lake/orders"))
    known(Asset("today", "s3://lake/orders/today"))
    assert streams(object_uri="s3://lake/orders/today/x") == ("today",)
    assert streams(object_uri="s3://lake/orders/yesterday/x") == ("orders",)
    assert streams(object_uri="s3://lake/ordersx") == ("lake",)


def test_alias_is_a_second_place() -> None:
    """An event is recorded under its asset first and under each alias once."""
    known("orders", AssetAlias("x"), AssetAlias("y"))
    assert streams(asset="orders", aliases=("y", "x")) == ("orders", "alias:y", "alias:x")


def test_uri_that_is_waited_for_is_a_place_too() -> None:
    """Whoever waits for a URI gets the events of the asset that has it."""
    register_dags(DAG("dag", schedule=[Asset.ref(uri="s3://lake/orders")]))
    key = uri_id("s3://lake/orders")
    assert streams(uri="s3://lake/orders") == (key,)
    register_dags(DAG("other", schedule=[Asset("orders", "s3://lake/orders")]), bundle="other")
    assert streams(uri="s3://lake/orders") == ("orders", key)
    assert streams(asset="orders") == ("orders", key)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"asset": "nobody"}, "asset: no DAG has named an asset 'nobody'"),
        ({"uri": "s3://x/y"}, "uri: no DAG has named an asset with the URI 's3://x/y'"),
        ({"object_uri": "s3://x/y"}, "the object 's3://x/y' lies below the URI of no asset"),
        ({"asset": "orders", "aliases": ("x",)}, "aliases: no DAG has named the alias 'x'"),
        # An alias is no asset, and an asset no alias.
        ({"asset": "alias"}, "asset: no DAG has named an asset 'alias'"),
        ({"asset": "orders", "aliases": ("orders",)}, "no DAG has named the alias 'orders'"),
    ],
)
def test_unknown_names_are_rejected(fields: dict[str, Any], reason: str) -> None:
    """The reason says which name nobody knows."""
    known("orders", AssetAlias("alias"))
    with pytest.raises(RejectedError, match=reason):
        streams(**fields)


def test_uri_that_an_asset_once_had_leads_nowhere() -> None:
    """When an asset moves, its old place is unknown again, or part of the asset above it."""
    known(Asset("orders", "s3://lake/orders"))
    uri = uri_id("s3://lake/orders")
    Assets(uri, ITSELF).update([Assets.target.remove()])
    with pytest.raises(RejectedError, match="no DAG has named an asset with the URI"):
        streams(uri="s3://lake/orders")
    known(Asset("lake", "s3://lake"))
    assert streams(object_uri="s3://lake/orders/x") == ("lake",)
    # But if a DAG waits for the place, its events are recorded there.
    Assets(uri, ITSELF).update([Assets.has_consumers.set(True)])
    assert streams(object_uri="s3://lake/orders/x") == (uri,)


def test_uri_of_an_asset_that_is_not_there_yet_has_to_wait() -> None:
    """A registration that is under way is no reason to reject an event."""
    known("orders")
    asset_row("orders").delete()
    with pytest.raises(TransientError, match="'orders' is being registered"):
        streams(uri="s3://lake/orders")


def test_learned_row_may_lead_elsewhere() -> None:
    """A row that was read again is followed again: its new places are read too."""
    known("orders", Asset("fx", "s3://lake/fx"))
    this = event(asset="orders")
    resolver = Resolver.reading([this])
    assert resolver.streams_of(this) == ("orders",)
    row = asset_row("orders")
    row.mirrored_uris = {uri_id("s3://lake/fx")}
    resolver.learn(row)
    assert resolver.streams_of(this) == ("orders", uri_id("s3://lake/fx"))


def test_many_events_of_few_assets_read_each_once() -> None:
    """A thousand events of two assets cost one call, and another where URIs lead on."""
    known("orders", "fx")
    names = [event(asset=("orders", "fx")[at % 2]) for at in range(1_000)]
    places = [event(uri=f"s3://lake/{('orders', 'fx')[at % 2]}") for at in range(1_000)]
    planned = Faults()
    with planned.on(connection().client):
        Resolver.reading(names)
        assert planned.calls == ["BatchGetItem"]
        Resolver.reading(places)
    assert planned.calls == ["BatchGetItem"] * 3


def test_no_events_read_nothing() -> None:
    """A batch of rejects only asks the tables nothing."""
    planned = Faults()
    with planned.on(connection().client):
        Resolver.reading([])
    assert planned.calls == []


# Assets that register themselves.


@pytest.fixture
def lenient(stack: LocalStack) -> Any:
    """Let unknown assets be registered by their first event."""
    with runtime.using(settings=replace(stack.settings, unknown_assets="register")) as made:
        yield made


def test_first_event_registers_its_asset(lenient: Any) -> None:
    """By name or by URI the asset has its rows from then on; nobody waits for it yet."""
    assert streams(asset="new") == ("new",)
    (by_uri,) = streams(uri="s3://lake/new")
    assert asset_row(by_uri).uri == "s3://lake/new"
    assert asset_row(uri_id("s3://lake/new")).target == by_uri
    assert (asset_row("new").seq, asset_row("new").refs_rev) == (0, 0)


def test_registering_twice_changes_nothing(lenient: Any) -> None:
    """Whoever comes second finds the row, with what has happened to it since."""
    streams(asset="new")
    Assets("new", ITSELF).update([Assets.seq.set(7)])
    stale = Resolver()
    stale._register([event(asset="new")])
    assert (stale.rows["new"].seq, asset_row("new").seq) == (7, 7)


def test_object_and_alias_are_not_registered(lenient: Any) -> None:
    """An object does not say where its asset begins, and an alias is for DAGs to name."""
    with pytest.raises(RejectedError):
        streams(object_uri="s3://lake/new/x")
    with pytest.raises(RejectedError, match="alias"):
        streams(asset="new", aliases=("x",))
    assert list(Assets.query(alias_id("x"))) == []


def test_name_that_no_asset_can_have_is_rejected_alone(lenient: Any) -> None:
    """A reserved word cannot be registered, and the others of the batch can."""
    bad, good = event(uri="self"), event(asset="good")
    resolver = Resolver.reading([bad, good])
    with pytest.raises(RejectedError):
        resolver.streams_of(bad)
    assert resolver.streams_of(good) == ("good",)
