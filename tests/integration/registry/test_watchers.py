"""The rows of watchers: written by a push, heard at every moment, and gone with their DAGs."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, AssetWatcher, runtime, settings
from lamplighter.registry import watchers as registry
from lamplighter.registry.register import RegisterReport
from lamplighter.registry.watchers import unwired
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.rows import connection
from lamplighter.store.watchers import WatcherKey, read_watchers
from lamplighter.streams.watchers import watchers_in
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter.triggers.feeds import Feed
from lamplighter_local.dag_objects import parsed_dag
from lamplighter_local.stack import LocalStack
from tests.tools.faults import Crash, Faults, crash_points
from tests.tools.snapshot import Snapshot

Register = Callable[..., RegisterReport]


class Reading(BaseEventTrigger):
    """Reads what it is told to."""

    def __init__(self, *, n: int = 1, **feed: Any) -> None:
        super().__init__()
        self.n = n
        self.given = feed

    @property
    def feed(self) -> Feed:
        """What must be wired for it."""
        return Feed(**self.given)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "my.Reading", {"n": self.n, **self.given}


def dag(dag_id: str = "dag", *triggers: BaseEventTrigger, name: str = "w") -> DAG:
    """Return a DAG that waits for the asset `a`, which has watchers of one name."""
    watchers = [AssetWatcher(name, trigger) for trigger in triggers]
    return DAG(dag_id, schedule=[Asset("a", watchers=watchers)])


def rows() -> dict[str, Catalog]:
    """Return the rows of all watchers, by queue and DAG."""
    found = [row for row in Catalog.scan(consistent_read=True) if row.kind.startswith("watchers#")]
    return {
        f"{row.kind.removeprefix('watchers#')} {row.id.partition('/')[0]}": row for row in found
    }


def places(dag_id: str = "dag") -> set[str]:
    """Return what the row of a DAG says of its watchers, by queue and name."""
    noted = Dags.get(dag_id, consistent_read=True).watchers or set()
    return {f"{place.queue} {place.name}" for place in map(WatcherKey.parse, noted)}


# What a push writes.


def test_watcher_has_a_row_under_what_it_reads(register_dags: Register) -> None:
    """The row says all that is needed to run it, and the DAG's row that it is there."""
    register_dags(dag("dag", Reading(queue="raw")), dag("other", Reading()))
    assert set(rows()) == {"raw dag", " other"}
    row = rows()["raw dag"]
    assert (row.bundle, row.bundle_version, row.created_at) == ("bundle", "0" * 64, row.updated_at)
    assert row.watcher == {
        "asset": "a",
        "name": "w",
        "trigger": {
            "type": "my.Reading",
            "data": {"n": 1, "queue": "raw"},
            "feed": {"queue": "raw"},
        },
    }
    assert (places("dag"), places("other")) == ({"raw w"}, {"None w"})


def test_push_of_the_same_keeps_since(register_dags: Register, stack: LocalStack) -> None:
    """Who watched before has watched all along, whatever else was pushed."""
    register_dags(dag("dag", Reading(queue="raw")))
    before = rows()["raw dag"]
    stack.advance(minutes=1)
    register_dags(dag("dag", Reading(queue="raw")), DAG("new"))
    assert rows()["raw dag"].created_at == before.created_at


def test_watcher_that_changes_begins_anew(register_dags: Register, stack: LocalStack) -> None:
    """What happened before it was there is no news to it, and the old one is gone."""
    register_dags(dag("dag", Reading(queue="raw")))
    before = rows()["raw dag"]
    stack.advance(minutes=1)
    register_dags(dag("dag", Reading(queue="raw", n=2)))
    (after,) = read_watchers("raw")
    assert after.watcher["trigger"]["data"]["n"] == 2
    assert after.created_at > before.created_at


def test_two_watchers_of_one_name_are_two(register_dags: Register) -> None:
    """As in Airflow: an asset may have them, if their triggers differ; both are heard."""
    register_dags(dag("dag", Reading(queue="raw"), Reading(queue="raw", n=2)))
    found = watchers_in(read_watchers("raw"))
    assert sorted(one.trigger["data"]["n"] for one in found) == [1, 2]
    assert len({one.id for one in found}) == 2


def test_name_with_slashes_is_kept(register_dags: Register) -> None:
    """A watcher may be called whatever its author likes."""
    register_dags(dag("dag", Reading(queue="raw"), name="in/out/ü"))
    (row,) = read_watchers("raw")
    (one,) = watchers_in([row])
    assert (one.name, one.dag_ids, places()) == ("in/out/ü", ("dag",), {"raw in/out/ü"})
    register_dags(DAG("dag"))
    assert rows() == {}


def test_watchers_of_anything_but_assets_do_not_exist(register_dags: Register) -> None:
    """Aliases and references have none; a DAG without any says nothing."""
    register_dags(DAG("dag", schedule=(AssetAlias("x") | Asset.ref(name="a"))))
    assert (rows(), places()) == ({}, set())


# What goes.


def test_watcher_that_leaves_its_dag_has_no_row(register_dags: Register) -> None:
    """The DAG stays, without it."""
    register_dags(dag("dag", Reading(queue="raw")), dag("other", Reading(queue="raw")))
    register_dags(dag("dag"), dag("other", Reading(queue="raw")))
    assert (set(rows()), places("dag")) == ({"raw other"}, set())


def test_dag_that_leaves_takes_its_watchers_along(register_dags: Register) -> None:
    """Nobody watches for a DAG that is not there."""
    register_dags(dag("dag", Reading(queue="raw")), DAG("stays"))
    register_dags(DAG("stays"))
    assert (rows(), places()) == ({}, set())
    assert Dags.get("dag").is_stale


def test_dag_whose_file_is_broken_keeps_its_watchers(register_dags: Register) -> None:
    """It waits for its author, and nothing that comes meanwhile is lost."""
    register_dags(dag("dag", Reading(queue="raw")))
    broken = {**parsed_dag(dag("dag", Reading(queue="raw"))), "document": {"version": 0}}
    report = register_dags(broken)
    assert report.broken == ["dag"]
    assert set(rows()) == {"raw dag"}


def test_watcher_that_moves_to_another_queue_is_heard_at_every_moment(
    register_dags: Register,
) -> None:
    """Its new row is there before the old one goes."""
    register_dags(dag("dag", Reading(queue="raw")))
    seen: list[set[str]] = []
    write = registry._write

    def note(*arguments: Any) -> None:
        write(*arguments)
        seen.append(set(rows()))

    with patch.object(registry, "_write", note):
        register_dags(dag("dag", Reading(queue="fresh")))
    assert seen == [{"raw dag", "fresh dag"}, {"fresh dag"}]
    assert places() == {"fresh w"}


# What goes wrong.


@pytest.mark.slow
def test_crash_at_any_write_leaves_no_orphan_after_the_next_push(
    register_dags: Register, stack: LocalStack
) -> None:
    """Whoever dies in the middle of a push, the next one leaves the rows that it declares."""
    old = (dag("dag", Reading(queue="raw")), dag("gone", Reading(queue="raw")))
    new = (dag("dag", Reading(queue="fresh"), Reading(n=2)),)
    newest = (dag("dag", Reading(queue="newest")), DAG("gone"))
    register_dags(*old)
    begun, counted = Snapshot(stack), Faults()
    with counted.on(connection().client):
        register_dags(*new)
    assert set(rows()) == {"fresh dag", " dag"}
    points = [number for kind, number in crash_points(counted.calls) if kind == "crash-after"]
    assert len(points) > 5
    for number in points:
        for later, expected, noted in (
            (new, {"fresh dag", " dag"}, {"fresh w", "None w"}),
            (newest, {"newest dag"}, {"newest w"}),
        ):
            begun.put_back()
            faults = Faults()
            faults.at(number, "crash-after")
            with faults.on(connection().client), suppress(Crash):
                register_dags(*new)
            # At no moment does nobody listen for the DAG.
            assert any(name.endswith(" dag") for name in rows())
            register_dags(*later)
            assert set(rows()) == expected
            assert places() == noted


# What must be wired.


@pytest.mark.parametrize(
    ("trigger", "missing"),
    [
        (Reading(queue="raw"), "queue 'raw' is not wired to this deployment (there are: other)"),
        (Reading(bucket="lake"), "bucket 'lake' is not wired"),
        (Reading(event_sources=["shop", "shop.new"]), "event source 'shop.new' is not wired"),
        (Reading(queue="other"), None),
        (Reading(queue="(sources)"), None),
        (Reading(), None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_watcher_that_would_hear_nothing_is_told_so(trigger: Reading, missing: str | None) -> None:
    """The sentence names the DAG, the watcher and what to add where."""
    deployment = settings.Settings(watch_queues=("other",), watch_event_sources=("shop",))
    trigger.given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in trigger.given.items()
    }
    found = list(unwired(dag("dag", trigger), deployment))
    assert len(found) == (missing is not None)
    for sentence in found:
        assert sentence.startswith("DAG 'dag': watcher 'w' of asset 'a': ")
        assert str(missing) in sentence
        assert sentence.endswith("of the stage and deploy")


def test_register_warns_of_what_is_not_wired(register_dags: Register, stack: LocalStack) -> None:
    """The DAG is registered all the same: its wiring may follow."""
    with runtime.using(settings=replace(stack.settings, watch_queues=("other",))):
        report = register_dags(dag("dag", Reading(queue="raw")))
    (warning,) = report.warnings
    assert "queue 'raw' is not wired" in warning.message
    assert set(rows()) == {"raw dag"}
