"""The tables as the service is asked to create them."""

from typing import Any

import pytest

from lamplighter.store.models import TABLES
from lamplighter.store.tables import TableDefinition, table_definitions

DEFINITIONS = {table.name: table for table in table_definitions("test-")}


def keys(schema: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the names of a key, hash before range."""
    assert [part["KeyType"] for part in schema] in (["HASH"], ["HASH", "RANGE"])
    return tuple(part["AttributeName"] for part in schema)


def indexes(table: TableDefinition) -> dict[str, tuple[str, ...]]:
    """Return the keys of a table's indexes."""
    found = table.create.get("GlobalSecondaryIndexes", [])
    return {index["IndexName"]: keys(index["KeySchema"]) for index in found}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Dags", ("dag_id",)),
        ("DagVersions", ("dag_id", "version")),
        ("Runs", ("dag_id", "run_key")),
        ("Steps", ("run_ref", "step_id")),
        ("Jobs", ("job_id",)),
        ("Backfills", ("backfill_id",)),
        ("Assets", ("asset_id", "ref")),
        ("AssetEvents", ("asset_id", "event_id")),
        ("AssetQueue", ("dag_id", "asset_id")),
        ("Catalog", ("kind", "id")),
        ("Variables", ("name",)),
        ("WatcherStates", ("kind", "id")),
    ],
)
def test_table_has_its_key(name: str, expected: tuple[str, ...]) -> None:
    """Each table is found by the key that its rows are told apart by."""
    assert keys(DEFINITIONS[f"test-{name}"].create["KeySchema"]) == expected


def test_tables_are_thirteen() -> None:
    """There is a definition for every model, and no other."""
    assert set(DEFINITIONS) == {f"test-{model.__name__}" for model in TABLES}
    assert len(DEFINITIONS) == 13


def test_due_index_is_sparse_and_small() -> None:
    """A DAG is in the index only while it has a shard, and the index holds keys alone."""
    table = DEFINITIONS["test-Dags"]
    (due,) = [
        index for index in table.create["GlobalSecondaryIndexes"] if index["IndexName"] == "due"
    ]

    assert indexes(table)["due"] == ("due_shard", "next_run_create_after")
    assert due["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_wake_index_holds_unfinished_runs() -> None:
    """Runs are found by when someone must look at them again."""
    assert indexes(DEFINITIONS["test-Runs"])["wake"] == ("wake_shard", "wake_at")


def test_open_index_holds_assets_to_hand_on() -> None:
    """Assets are found by when their newest event was recorded, while it is to be handed on."""
    table = DEFINITIONS["test-Assets"]
    (opened,) = table.create["GlobalSecondaryIndexes"]

    assert indexes(table) == {"open": ("open_shard", "open_since")}
    assert opened["Projection"] == {"ProjectionType": "KEYS_ONLY"}


@pytest.mark.parametrize("model", TABLES, ids=lambda model: model.__name__)
def test_index_keys_beside_the_tables_own_may_be_absent(model: Any) -> None:
    """What makes an index sparse must be allowed to be missing; types are declared once."""
    table = DEFINITIONS[f"test-{model.__name__}"]
    declared = {part["AttributeName"] for part in table.create["AttributeDefinitions"]}
    used = set(keys(table.create["KeySchema"])).union(*indexes(table).values())

    assert declared == used
    for index in indexes(table):
        if index in {"due", "wake", "open", "pending"}:
            shard = model.get_attributes()[indexes(table)[index][0]]
            assert shard.null, f"{index} can never be left"


@pytest.mark.parametrize("name", ["Runs", "Steps", "AssetEvents"])
def test_rows_with_an_end_expire(name: str) -> None:
    """History is removed some time after its end."""
    assert DEFINITIONS[f"test-{name}"].ttl_attribute == "expires_at"


@pytest.mark.parametrize("name", ["Dags", "DagVersions", "Catalog", "AssetQueue", "Assets"])
def test_rows_without_an_end_stay(name: str) -> None:
    """Where a schedule stands, and what was defined, is never removed by time."""
    assert DEFINITIONS[f"test-{name}"].ttl_attribute is None


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_tables_are_billed_by_request_and_protected(name: str) -> None:
    """No table has a capacity to run out of, and none is deleted by accident."""
    create = DEFINITIONS[name].create

    assert create["BillingMode"] == "PAY_PER_REQUEST"
    assert create["DeletionProtectionEnabled"] is True
