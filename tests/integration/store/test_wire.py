"""The wire form of transactions: what PynamoDB would read back, and no more than has changed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter.store import wire
from lamplighter.store.dags import due_keys
from lamplighter.store.models import AssetQueue, Catalog, Dags, DagVersions, Runs
from lamplighter.store.rows import Row, connection
from lamplighter.store.runs import new_run
from lamplighter.store.transactions import Change, Delete, Put, transact
from lamplighter.timetables.base import DagRunInfo
from lamplighter_local.stack import local_stack

NOW = datetime(2026, 1, 1, 12, 30, 15, 123_456)


@pytest.fixture(autouse=True)
def _stack() -> Iterator[None]:
    with local_stack(at=NOW, over_http=True):
        yield


def a_dag(**columns: Any) -> Dags:
    """Return a row with a value of every kind that the table has."""
    return Dags(
        "dag",
        rev=1,
        bundle="sales",
        bundle_version="0" * 64,
        source_key="dags/a.py#dag",
        push=7,
        version="000001",
        hash="f" * 64,
        schedule="0 * * * *",
        timetable="{}",
        catchup=True,
        max_active_runs=16,
        active={"one", "two"},
        next_run_after=NOW,
        asset_condition={"all": ["orders", {"any": ["fx", "Zürich"]}]},
        **columns,
    )


@pytest.mark.parametrize(
    "row",
    [
        a_dag(),
        DagVersions(
            "dag",
            "000001",
            hash="f",
            bundle="sales",
            bundle_version="0",
            created_at=NOW,
            document_gzip=b"\x00\xff\x1f\x8b",
        ),
        Catalog("runs", "dag", runs=[{"run_after": None}], is_last=False),
        AssetQueue("dag", "orders", since_seq=0, consumed_seq=2**53),
    ],
    ids=lambda row: type(row).__name__,
)
def test_row_that_was_put_is_read_back_the_same(row: Row) -> None:
    """Texts, numbers, flags, instants, sets, documents and bytes arrive as they were."""
    transact([Put(row)])

    (found,) = type(row).scan()
    given = {name: value for name, value in row.attribute_values.items() if value is not None}
    assert found.attribute_values == given


def test_change_carries_the_differences_only() -> None:
    """What was not assigned is not sent: another's new column survives."""
    transact([Put(a_dag())])
    row = Dags.get("dag", consistent_read=True)
    Dags("dag").update([Dags.pause_reason.set("someone wrote this meanwhile")])
    row.active, row.next_run_after, row.rev = {"two"}, None, 2

    request = wire.change(row, ("rev",))["Update"]
    transact([Change(row, ("rev",))])

    assert sorted(request["ExpressionAttributeNames"].values()) == [
        "active",
        "next_run_after",
        "rev",
        "rev",
    ]
    found = Dags.get("dag", consistent_read=True)
    assert found.active == {"two"}
    assert found.next_run_after is None
    assert found.rev == 2
    assert found.pause_reason == "someone wrote this meanwhile"


def test_deleted_row_is_gone() -> None:
    """A delete removes the row that has the key."""
    transact([Put(a_dag())])
    transact([Delete(Dags("dag"))])

    assert list(Dags.scan()) == []


def test_transaction_has_a_token_so_that_a_repetition_is_harmless() -> None:
    """Each transaction carries a client token of its own in the body that is signed."""
    bodies: list[dict[str, Any]] = []
    client: Any = connection().client
    client.meta.events.register_first(
        "before-send.dynamodb.TransactWriteItems",
        lambda request, **_: bodies.append(json.loads(request.body)),
    )

    transact([Put(a_dag())])
    transact([Delete(Dags("dag"))])

    first, second = bodies
    assert first["ClientRequestToken"] != second["ClientRequestToken"]
    assert [list(action) for action in first["TransactItems"]] == [["Put"]]


def test_due_index_is_read_page_after_page() -> None:
    """A shard whose entries come one to a page is read to its end."""
    for number in range(5):
        row = a_dag(due_shard=3, next_run_create_after=NOW.add(seconds=number))
        row.dag_id = f"dag_{number}"
        row.save()
    client: Any = connection().client
    client.meta.events.register(
        "before-parameter-build.dynamodb.Query", lambda params, **_: params.update(Limit=1)
    )

    found = list(due_keys(3, NOW.add(seconds=3)))

    assert [dag_id for _, dag_id in found] == ["dag_0", "dag_1", "dag_2", "dag_3"]


def test_run_with_a_free_text_survives_unicode() -> None:
    """What people write comes back letter by letter."""
    run = new_run(
        a_dag(),
        DagRunInfo.exact(NOW),
        run_id="größe",
        now=NOW,
        claim_id="claim",
        run_type="manual",
        triggered_by="cli",
        conf={"note": "naïve ☃"},
    )

    transact([Put(run)])

    assert Runs.get("dag", "~größe").conf == {"note": "naïve ☃"}
