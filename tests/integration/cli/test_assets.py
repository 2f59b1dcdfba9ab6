"""Assets and their events as a user lists them."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask
from lamplighter.store.models import AssetEvents
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags

Command = Callable[..., Any]

ORDERS, FX = Asset("orders", "s3://lake/orders", extra={"team": "sales"}), Asset("fx")


@pytest.fixture
def shop(stack: LocalStack) -> LocalStack:
    """Return a deployment with producers and consumers, and three events."""
    with DAG("load") as load:
        SparkTask("clean", job="jobs.a:b", outlets=[ORDERS, AssetAlias("any")])
        SparkTask("other", job="jobs.a:d", outlets=[FX])
    register_dags(
        load,
        DAG("both", schedule=(ORDERS & FX)),
        DAG("place", schedule=Asset.ref(uri="s3://lake/orders")),
    )
    for asset, event_id in (("orders", "e1"), ("orders", "e2"), ("fx", "e3")):
        stack.emit(asset, event_id=event_id, extra={"rows": 1}, source="billing")
        stack.run_until_idle()
        stack.clock.advance(timedelta(seconds=1))
    stack.emit("orders", event_id="e4")
    stack.run_until_idle()
    return stack


def as_json(lamplighter: Command, *arguments: str) -> Any:
    """Return what a command says to programs."""
    result = lamplighter(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_list_has_assets_aliases_and_waited_for_uris(
    lamplighter: Command, shop: LocalStack
) -> None:
    """With their last updates, and how many wait for them."""
    listed = {each["asset"]: each for each in as_json(lamplighter, "assets", "list")}
    assert listed["orders"] == {
        "asset": "orders",
        "kind": "asset",
        "uri": "s3://lake/orders",
        "group": "asset",
        "seq": 3,
        "last_update": "2026-01-05T12:00:08+00:00",
        "consumers": 1,
    }
    assert {name: each["kind"] for name, each in listed.items()} == {
        "any": "alias",
        "fx": "asset",
        "orders": "asset",
        "s3://lake/orders": "uri",
    }
    (line,) = [line for line in lamplighter("assets", "list").out.splitlines() if "fx" in line]
    assert "2026-01-05 12:00:07 UTC" in line


@pytest.mark.parametrize("name", ["orders", "s3://lake/orders"])
def test_show_names_producers_and_consumers(
    lamplighter: Command, shop: LocalStack, name: str
) -> None:
    """By name or URI; also those who mean the asset by its URI."""
    shown = as_json(lamplighter, "assets", "show", name)
    assert (shown["asset"], shown["seq"], shown["extra"]) == ("orders", 3, {"team": "sales"})
    assert shown["producers"] == [{"dag_id": "load", "task_id": "clean"}]
    assert shown["consumers"] == [
        {"dag_id": "both", "consumed_seq": 2, "seq": 3, "pending": 1},
        {"dag_id": "place", "consumed_seq": 3, "seq": 3, "pending": 0},
    ]
    lines = lamplighter("assets", "show", name).out.splitlines()
    assert any(line.split() == ["both", "2", "of", "3", "1"] for line in lines)
    assert any("load/clean" in line for line in lines)


def test_show_of_an_alias_nobody_waits_for(lamplighter: Command, shop: LocalStack) -> None:
    """Its producers are known all the same."""
    lines = lamplighter("assets", "show", "any").out.splitlines()
    assert lines[-1] == "no consumers"
    assert any("load/clean" in line for line in lines)


def test_events_are_listed_newest_first(lamplighter: Command, shop: LocalStack) -> None:
    """Each once, whatever other names its asset is waited for by."""
    assert [e["event_id"] for e in as_json(lamplighter, "events", "list")] == [
        "e4",
        "e3",
        "e2",
        "e1",
    ]
    newest = as_json(lamplighter, "events", "list", "-n", "2")[1]
    assert newest == {
        "event_id": "e3",
        "asset": "fx",
        "seq": 1,
        "timestamp": "2026-01-05T12:00:07+00:00",
        "recorded_at": "2026-01-05T12:00:07+00:00",
        "extra": {"rows": 1},
        "source": "billing",
        "partition_key": None,
        "sender": newest["sender"],
        "conflict": None,
    }


def test_events_of_one_asset_are_listed(lamplighter: Command, shop: LocalStack) -> None:
    """By name or URI, with numbers and extras."""
    lines = lamplighter("events", "list", "s3://lake/orders").out.splitlines()
    assert [line.split()[1:3] for line in lines[1:]] == [["3", "e4"], ["2", "e2"], ["1", "e1"]]
    assert '{"rows": 1}' in lines[-1]


def test_lists_of_nothing_are_no_errors(lamplighter: Command) -> None:
    """A new deployment has neither."""
    assert lamplighter("events", "list").out == "no events yet\n"
    assert lamplighter("assets", "list").out.startswith("no assets yet")
    assert as_json(lamplighter, "events", "list") == as_json(lamplighter, "assets", "list") == []


def test_event_of_a_step_is_listed_with_its_run(lamplighter: Command, shop: LocalStack) -> None:
    """A step is named as everywhere else, not as the JSON that it sends."""
    source = {"dag_id": "load", "run_id": "manual__x", "task_id": "clean", "try_number": 1}
    shop.emit("fx", event_id="e5")
    shop.run_until_idle()
    AssetEvents("fx", "e5").update([AssetEvents.source.set(source)])
    assert "load/manual__x/clean" in lamplighter("events", "list", "fx").out
