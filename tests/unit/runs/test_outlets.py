"""Events of outlets: which there are, what they say, and what becomes of too much."""

import json
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import Asset, AssetAlias
from lamplighter.identifiers import asset_id
from lamplighter.runs.job_request import JobName, JobReport
from lamplighter.runs.outlets import outlet_events
from lamplighter.store.models import AssetEvents
from tests.unit.runs.rows import make_dag, make_run, make_step, make_view

pytestmark = pytest.mark.usefixtures("in_name_only")

NOW = datetime(2026, 2, 1, 13)
ORDERS, FX, FOUND = Asset("orders", "s3://lake/orders"), Asset("fx rates"), AssetAlias("found")


def told(
    *outlets: Asset | AssetAlias,
    extras: dict[str, Any] | None = None,
    aliases: dict[str, Any] | None = None,
    partition_key: str | None = None,
    **columns: Any,
) -> tuple[list[AssetEvents], str | None]:
    """Return the events of a step with these outlets, given what its job reported."""
    run = make_run(partition_key=partition_key)
    step = make_step(run, **columns)
    view = make_view(make_dag(load={"outlets": list(outlets)}), run, step)
    report = JobReport(extras=extras or {}, aliases=aliases or {})
    return outlet_events(view, step, report, now=NOW)


def messages(rows: list[AssetEvents]) -> list[dict[str, Any]]:
    """Return what is sent of events."""
    return [json.loads(row.message) for row in rows]


def extras(rows: list[AssetEvents]) -> list[Any]:
    """Return what events say about their assets."""
    return [message.get("extra") or None for message in messages(rows)]


def test_step_without_outlets_tells_nothing() -> None:
    """A step that produces nothing has no events, whatever its job says."""
    assert told(extras={"orders": {"rows": 5}}, aliases={"found": [{"name": "x"}]}) == ([], None)


def test_event_of_an_outlet_says_where_it_comes_from() -> None:
    """The row and its message name the asset, the instant, and the try that made it."""
    run = make_run()

    [row], problem = told(ORDERS, extras={"orders": {"rows": 5}}, try_number=2, submission=3)

    source = {"dag_id": "orders", "run_id": run.run_id, "task_id": "load", "try_number": 2}
    assert problem is None
    assert row.asset_id == "orders"
    assert row.seq is None
    assert row.source == source
    assert row.event_id == JobName.of(run, make_step(run, submission=3)).event_id("orders")
    assert (row.timestamp, row.recorded_at) == (NOW, NOW)
    assert row.pending_shard is not None
    assert row.expires_at > NOW
    assert messages([row]) == [
        {
            "asset": "orders",
            "event_id": row.event_id,
            "timestamp": "2026-02-01T13:00:00+00:00",
            "source": source,
            "extra": {"rows": 5},
        }
    ]


def test_outlet_without_an_extra_has_none() -> None:
    """A job that says nothing about an outlet still tells that it is there."""
    rows, problem = told(ORDERS)
    assert (extras(rows), problem) == ([None], None)


def test_outlets_of_a_step_have_an_event_each() -> None:
    """Every outlet is told of once, in rows of their own, whatever its name is."""
    rows, problem = told(ORDERS, FX, Asset("zürich"), Asset("x" * 1_000))

    assert problem is None
    assert [row.asset_id for row in rows] == [
        asset_id(name) for name in ("orders", "fx rates", "zürich", "x" * 1_000)
    ]
    assert len({row.event_id for row in rows}) == 4


def test_events_of_the_same_submission_are_the_same() -> None:
    """Told twice, it is the same event; after another try it is another one."""
    assert told(ORDERS)[0][0].event_id == told(ORDERS)[0][0].event_id
    assert told(ORDERS)[0][0].event_id != told(ORDERS, submission=2)[0][0].event_id


def test_extra_of_something_that_is_no_outlet_is_ignored() -> None:
    """A job cannot tell of assets that its task does not produce."""
    rows, problem = told(ORDERS, extras={"fx rates": {"rows": 5}})
    assert [row.asset_id for row in rows] == ["orders"]
    assert extras(rows) == [None]
    assert problem is None


@pytest.mark.parametrize("extra", [5, "x", [1], None, True])
def test_extra_that_is_no_mapping_is_left_out(extra: Any) -> None:
    """What is not an object is no extra; the event comes all the same."""
    rows, _ = told(ORDERS, extras={"orders": extra})
    assert extras(rows) == [None]


@pytest.mark.parametrize(
    ("extra", "problem"),
    [({"rows": 5}, None), ({"x": "y" * 40_000}, "outlet 'orders': extra")],
    ids=["valid extra", "extra too large"],
)
def test_events_of_a_partitioned_run_have_its_key(
    extra: dict[str, Any], problem: str | None
) -> None:
    """Each event has the key of the run, also one of an alias, or one that loses its extra."""
    added = {"found": [{"name": "fx rates"}]}

    rows, said = told(
        ORDERS, FOUND, extras={"orders": extra}, aliases=added, partition_key="2026-01-31"
    )

    keys = [message["partition_key"] for message in messages(rows)]
    assert keys == ["2026-01-31", "2026-01-31"]
    assert said is None if problem is None else str(said).startswith(problem)


@pytest.mark.parametrize("key", ["", " ", "a\nb"])
def test_key_that_no_event_can_have_is_left_out(key: str) -> None:
    """A custom timetable may have odd keys; the step still tells of its outlets, and says so."""
    [row], problem = told(ORDERS, extras={"orders": {"rows": 5}}, partition_key=key)

    [message] = messages([row])
    assert ("partition_key" in message, message["extra"]) == (False, {"rows": 5})
    assert str(problem).startswith("partition_key must not")


def _deep(levels: int) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    for _ in range(levels):
        extra = {"x": extra}
    return extra


@pytest.mark.parametrize(
    "extra",
    [
        {"text": "x" * 40_000},
        _deep(50),
        {"rows": float("nan")},
        {"rows": float("inf")},
        {"text": "\ud800"},
    ],
    ids=["large", "deep", "nan", "infinite", "surrogate"],
)
def test_extra_that_cannot_be_taken_leaves_an_event_without(extra: dict[str, Any]) -> None:
    """The step did its work: the event comes without the extra, and a note says why."""
    rows, problem = told(ORDERS, FX, extras={"orders": extra, "fx rates": {"rows": 1}})

    assert extras(rows) == [None, {"rows": 1}]
    assert problem is not None
    assert problem.startswith("outlet 'orders': ")
    assert "fx rates" not in problem


def test_extra_of_the_largest_size_is_taken() -> None:
    """Just below the limit nothing is lost."""
    rows, problem = told(ORDERS, extras={"orders": {"text": "x" * 31_000}})
    assert problem is None
    assert extras(rows) == [{"text": "x" * 31_000}]


def test_all_outlets_that_cannot_be_taken_are_named() -> None:
    """The note names each outlet with its own reason."""
    large = {"text": "x" * 40_000}
    _, problem = told(ORDERS, FX, extras={"orders": large, "fx rates": large})
    assert problem is not None
    assert problem.count("; ") == 1
    assert "outlet 'fx rates': " in problem


# Aliases.


def test_alias_tells_of_what_the_job_produced() -> None:
    """Under an alias a job names assets as it goes; each is an event that knows the alias."""
    added = [{"name": "eu", "extra": {"rows": 1}}, {"uri": "s3://lake/us", "extra": {}}]

    rows, problem = told(FOUND, aliases={"found": added})

    assert problem is None
    assert [(m.get("asset"), m.get("uri"), m["aliases"]) for m in messages(rows)] == [
        ("eu", None, ["found"]),
        (None, "s3://lake/us", ["found"]),
    ]
    assert extras(rows) == [{"rows": 1}, None]


def test_alias_without_a_report_tells_nothing() -> None:
    """Nobody knows what a job produced under an alias if it does not say so."""
    assert told(FOUND) == ([], None)


def test_asset_under_two_aliases_is_two_events() -> None:
    """What reaches a consumer through one alias does not hide what comes through another."""
    added = [{"name": "eu"}]
    rows, _ = told(FOUND, AssetAlias("other"), aliases={"found": added, "other": added})
    assert len({row.event_id for row in rows}) == 2


def test_asset_named_twice_under_an_alias_is_one_event() -> None:
    """The same asset under the same alias is one event, however often it is named."""
    rows, _ = told(FOUND, aliases={"found": [{"name": "eu"}, {"name": "eu", "extra": {"x": 1}}]})
    assert len(rows) == 1


@pytest.mark.parametrize("added", [None, 5, "eu", {"name": "eu"}, [None], ["eu"], [5], [[]]])
def test_alias_with_something_else_than_assets_tells_nothing(added: Any) -> None:
    """What is not a list of objects names no assets."""
    rows, problem = told(FOUND, aliases={"found": added})

    assert rows == []
    assert (problem is not None) == isinstance(added, list)


def test_alias_with_too_many_assets_tells_of_the_first() -> None:
    """More assets than a transaction holds do not stop the step; a note says what was left out."""
    added = [{"name": f"asset{number}"} for number in range(200)]

    rows, problem = told(FOUND, aliases={"found": added})

    assert [row.asset_id for row in rows] == [f"asset{number}" for number in range(90)]
    assert problem == "only the first 90 assets were told of"


@pytest.mark.parametrize(
    "added",
    [{}, {"name": ""}, {"name": None, "uri": None}, {"name": " "}, {"name": "x" * 2_000}],
    ids=repr,
)
def test_asset_without_a_name_under_an_alias_is_noted(added: dict[str, Any]) -> None:
    """What cannot be told of is left out with a note; the others come."""
    rows, problem = told(ORDERS, FOUND, aliases={"found": [added, {"name": "eu"}]})

    assert [row.asset_id for row in rows] == ["orders", "eu"]
    assert problem is not None


@pytest.mark.parametrize("name", [5, ["a"], {"a": 1}, True, "\ud800"], ids=repr)
@pytest.mark.parametrize("field", ["name", "uri"])
def test_name_of_a_wrong_kind_under_an_alias_does_no_harm(field: str, name: Any) -> None:
    """Whatever author code gives as a name, the step's other events come, and a note says so."""
    rows, problem = told(ORDERS, FOUND, aliases={"found": [{field: name}]})

    assert [row.asset_id for row in rows] == ["orders"]
    assert problem is not None


def test_ninety_large_extras_fit_into_one_transaction() -> None:
    """All that the outlets of one step may say is below the four megabytes of a transaction."""
    outlets = [Asset(f"asset{number}") for number in range(90)]
    rows, problem = told(*outlets, extras={a.name: {"text": "x" * 31_900} for a in outlets})

    assert problem is None
    assert sum(len(str(row.attribute_values)) for row in rows) < 4_000_000


def test_alias_with_too_large_an_extra_is_noted() -> None:
    """An event through an alias is not told without its extra, since that is part of what it is."""
    rows, problem = told(FOUND, aliases={"found": [{"name": "eu", "extra": {"x": "y" * 40_000}}]})
    assert rows == []
    assert problem is not None
    assert "outlet 'eu'" in problem
