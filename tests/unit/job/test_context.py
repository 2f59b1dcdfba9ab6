"""The context of a job: read from its document, and found by whatever runs in the job."""

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from lamplighter.assets.asset import Asset, AssetAlias
from lamplighter_job import current_context
from lamplighter_job.context import Inlet, context_from, parse_instant, running
from lamplighter_job.errors import ContextError
from tests.spark.documents import context_document

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)


def test_document_is_read_into_plain_values() -> None:
    """Texts stay texts, instants become aware, references become objects."""
    context = context_from(
        context_document(
            data_interval_start="2026-01-05T00:00:00Z",
            params={"depth": 3},
            inlets=[{"kind": "asset", "name": "raw", "uri": "s3://lake/raw"}],
            arguments=["--fast"],
        )
    )
    assert context.dag_id == "orders_hourly"
    assert context.data_interval_start == MIDNIGHT
    assert context.data_interval_end is None
    assert context.params == {"depth": 3}
    assert context.inlets == (Inlet("asset", "raw", "s3://lake/raw"),)
    assert context.arguments == ("--fast",)


def test_triggering_events_are_read_by_asset() -> None:
    """A program finds the events that its run was created for under the asset's name."""
    event = {
        "asset": "orders",
        "event_id": "e-1",
        "timestamp": "2026-01-05T00:00:00.5Z",
        "extra": {"rows": 7},
        "source": "loader",
        "partition_key": "2026-01",
    }
    context = context_from(context_document(triggering_asset_events={"orders": [event]}))
    (found,) = context.triggering_asset_events["orders"]
    assert (found.event_id, found.extra["rows"], found.source) == ("e-1", 7, "loader")
    assert found.timestamp == MIDNIGHT.replace(microsecond=500_000)


@pytest.mark.parametrize(
    ("written", "microsecond"),
    [
        ("2026-01-05T00:00:00+00:00", 0),
        ("2026-01-05T01:00:00+01:00", 0),
        ("2026-01-05T00:00:00.5Z", 500_000),
        ("2026-01-05T00:00:00.123456789Z", 123_456),
    ],
)
def test_instant_of_any_precision_is_read(written: str, microsecond: int) -> None:
    """Forms that Python reads only since 3.11 are read by older ones too."""
    assert parse_instant(written) == MIDNIGHT.replace(microsecond=microsecond)


@pytest.mark.parametrize(
    "change",
    [
        {"run_after": "2026-01-05T00:00:00"},
        {"run_after": "soon"},
        {"outlets": [{"name": "orders"}]},
        {"params": 3},
        {"triggering_asset_events": {"orders": [{}]}},
    ],
)
def test_document_that_makes_no_sense_is_an_error(change: dict[str, Any]) -> None:
    """A context that cannot be used says so instead of surprising the program."""
    with pytest.raises(ContextError, match="context cannot be read"):
        context_from(context_document(**change))


@pytest.mark.parametrize("version", [2, None, "1"])
def test_document_of_another_version_is_refused(version: object) -> None:
    """A runner that is older or newer than the scheduler says what to do."""
    with pytest.raises(ContextError, match="of one release"):
        context_from(context_document(version=version))


@pytest.mark.parametrize(
    "asked",
    ["orders", Asset("orders", "s3://lake/orders"), SimpleNamespace(name="orders")],
)
def test_outlet_is_found_by_name_or_asset(asked: object) -> None:
    """A program may ask with the asset itself or with its name."""
    context = context_from(context_document())
    context.outlet(asked).extra["rows"] = 3
    assert context.outlets[0].extra == {"rows": 3}


@pytest.mark.parametrize("asked", ["ordres", Asset("fx"), 3, None])
def test_outlet_that_is_none_names_those_there_are(asked: object) -> None:
    """A slip in a name is answered with the names that exist."""
    with pytest.raises(ContextError, match=r"its outlets: 'orders'$"):
        context_from(context_document()).outlet(asked)


def test_outlet_of_a_task_without_outlets_says_none() -> None:
    """A task that has no outlets says that."""
    with pytest.raises(ContextError, match=r"its outlets: none$"):
        context_from(context_document(outlets=[])).outlet("orders")


def test_alias_and_asset_of_one_name_are_told_apart() -> None:
    """An alias object means the alias; a name or an asset mean the asset."""
    outlets = [{"kind": "alias", "name": "orders"}, {"kind": "asset", "name": "orders"}]
    context = context_from(context_document(outlets=outlets))
    assert context.outlet(AssetAlias("orders")).kind == "alias"
    assert context.outlet(Asset("orders")).kind == "asset"
    assert context.outlet("orders").kind == "asset"


def test_input_is_a_copy_of_what_a_step_left() -> None:
    """A program may change what it was given; the next call returns it as it was left."""
    context = context_from(context_document(inputs={"load": {"rows": [1, 2]}, "check": {}}))
    context.input("load")["rows"].append(3)
    assert context.input("load") == {"rows": [1, 2]}
    assert context.input("check") == {}


def test_input_of_a_step_that_is_not_named_is_an_error() -> None:
    """The error says which steps are read, and what to write."""
    context = context_from(context_document(inputs={"load": {}}))
    with pytest.raises(ContextError, match=r"only of: 'load'; .*inputs=\['loda'\]"):
        context.input("loda")


def test_context_without_inputs_is_read() -> None:
    """A document that an older release has written has none."""
    with pytest.raises(ContextError, match="only of: none"):
        context_from(context_document()).input("load")


def test_current_context_is_seen_by_threads() -> None:
    """Threads that a program starts find the context of their job."""
    context = context_from(context_document())
    seen = []
    with running(context):
        thread = threading.Thread(target=lambda: seen.append(current_context()))
        thread.start()
        thread.join()
    assert seen == [context]


def test_current_context_outside_a_job_is_an_error() -> None:
    """When its job is over a context is no longer current, and the reason names a usual mistake."""
    with running(context_from(context_document())):
        assert current_context().task_id == "clean"
    with pytest.raises(ContextError, match="not in functions that Spark runs on executors"):
        current_context()
