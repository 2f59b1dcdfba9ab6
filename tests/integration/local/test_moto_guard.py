"""The guarded emulator: transactions of many threads, and what a failed one leaves behind."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from lamplighter_local.emulator.moto_guard import guarded_moto

REGION = "eu-west-1"
# The one that moto uses unless told otherwise.
ACCOUNT = "123456789012"
THREADS, ROUNDS = 8, 60


@pytest.fixture(name="client")
def make_client() -> Iterator[Any]:
    """Return a client of a guarded emulator with the tables `plain` and `ranged`."""
    with guarded_moto(), client_of_two_tables() as client:
        yield client


@contextmanager
def client_of_two_tables() -> Iterator[Any]:
    """Return a client of whatever is emulated, after creating both tables."""
    client = boto3.client("dynamodb", region_name=REGION)
    create_table(client, "plain", ["id"])
    create_table(client, "ranged", ["id", "part"])
    yield client
    client.close()


def create_table(client: Any, name: str, keys: list[str]) -> None:
    """Create a table with a stream and one or two keys."""
    kinds = zip(keys, ["HASH", "RANGE"], strict=False)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in keys],
        KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind in kinds],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def put(table: str, **values: str) -> dict[str, Any]:
    """Return the action that writes an item."""
    return {"Put": {"TableName": table, "Item": {name: {"S": v} for name, v in values.items()}}}


def update(table: str, value: str, **key: str) -> dict[str, Any]:
    """Return the action that sets the attribute `note`."""
    return {
        "Update": {
            "TableName": table,
            "Key": {name: {"S": v} for name, v in key.items()},
            "UpdateExpression": "SET note = :note",
            "ExpressionAttributeValues": {":note": {"S": value}},
        }
    }


def delete(table: str, **key: str) -> dict[str, Any]:
    """Return the action that deletes an item."""
    return {"Delete": {"TableName": table, "Key": {name: {"S": v} for name, v in key.items()}}}


def refused(table: str, **key: str) -> dict[str, Any]:
    """Return an action whose condition never holds."""
    return {
        "ConditionCheck": {
            "TableName": table,
            "Key": {name: {"S": v} for name, v in key.items()},
            "ConditionExpression": "attribute_exists(no_such_attribute)",
        }
    }


def transact(client: Any, *actions: dict[str, Any]) -> bool:
    """Run one transaction and say whether it was committed."""
    try:
        client.transact_write_items(TransactItems=list(actions))
    except client.exceptions.TransactionCanceledException:
        return False
    return True


def ids(client: Any, table: str) -> set[str]:
    """Return the `id` of every item."""
    pages = client.get_paginator("scan").paginate(TableName=table)
    return {item["id"]["S"] for page in pages for item in page["Items"]}


def contents(client: Any) -> list[Any]:
    """Return everything in both tables."""
    return [client.scan(TableName=table)["Items"] for table in ("plain", "ranged")]


@pytest.mark.slow
def test_transactions_of_many_threads_are_all_or_nothing(client: Any) -> None:
    """Every committed item of 480 transactions is there, and nothing of the refused half is."""

    def work(thread: int) -> list[tuple[str, bool]]:
        answers = []
        for turn in range(ROUNDS):
            name = f"{thread}-{turn}"
            actions = [put("plain", id=name), put("ranged", id=str(thread), part=name)]
            if turn % 2:
                actions.append(refused("plain", id="no such item"))
            answers.append((name, transact(client, *actions)))
        return answers

    with ThreadPoolExecutor(THREADS) as threads:
        answers = dict(answer for part in threads.map(work, range(THREADS)) for answer in part)
    committed = {name for name, is_committed in answers.items() if is_committed}
    assert len(committed) == THREADS * ROUNDS // 2
    assert ids(client, "plain") == committed
    assert client.scan(TableName="ranged", Select="COUNT")["Count"] == len(committed)


@pytest.mark.slow
def test_counter_of_many_threads_loses_no_count(client: Any) -> None:
    """Plain updates and transactions of many threads on one item all count."""
    count = {
        "TableName": "plain",
        "Key": {"id": {"S": "counter"}},
        "UpdateExpression": "ADD tally :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }

    def work(_thread: int) -> None:
        for turn in range(20):
            if turn % 2:
                client.update_item(**count)
            else:
                transact(client, {"Update": count})
                transact(client, {"Update": count}, refused("plain", id="no such item"))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(work, range(THREADS)))
    item = client.get_item(TableName="plain", Key=count["Key"], ConsistentRead=True)["Item"]
    assert item["tally"]["N"] == str(THREADS * 20)


def test_cancelled_transaction_puts_everything_back(client: Any) -> None:
    """What a cancelled transaction put, changed or deleted is as before, with range keys too."""
    transact(
        client,
        *(put("plain", id=name, note="before") for name in ("put", "updated", "deleted")),
        *(
            put("ranged", id="a", part=name, note="before")
            for name in ("put", "updated", "deleted")
        ),
    )
    before = contents(client)
    is_committed = transact(
        client,
        put("plain", id="put", note="after"),
        update("plain", "after", id="updated"),
        delete("plain", id="deleted"),
        put("plain", id="new"),
        update("plain", "after", id="new by update"),
        put("ranged", id="a", part="put", note="after"),
        update("ranged", "after", id="a", part="updated"),
        delete("ranged", id="a", part="deleted"),
        put("ranged", id="new", part="new"),
        update("ranged", "after", id="a", part="new by update"),
        refused("plain", id="no such item"),
    )
    assert not is_committed
    assert contents(client) == before


def test_cancelled_transaction_leaves_no_stream_record(client: Any) -> None:
    """A stream tells of committed changes only."""
    transact(client, put("plain", id="kept"))
    transact(client, put("plain", id="undone"), refused("plain", id="no such item"))
    shard = table_behind("plain").stream_shard
    assert shard is not None
    assert [record.record["dynamodb"]["Keys"] for record in shard.items] == [{"id": {"S": "kept"}}]


def test_invalid_transaction_puts_everything_back(client: Any) -> None:
    """A transaction that names one item twice is refused, and its first action is undone."""
    with pytest.raises(ClientError, match="multiple operations on one item"):
        transact(client, put("plain", id="a"), put("plain", id="b"), delete("plain", id="a"))
    assert ids(client, "plain") == set()


def test_transaction_without_a_table_changes_nothing(client: Any) -> None:
    """A transaction that names a missing table is refused as a whole."""
    assert not transact(client, put("plain", id="a"), delete("missing", id="a"))
    assert ids(client, "plain") == set()


def test_cancelled_transaction_does_not_replace_its_table(client: Any) -> None:
    """A table is the same object after a failed transaction: it was not copied and put back."""
    table = table_behind("plain")
    transact(client, put("plain", id="a"), refused("plain", id="no such item"))
    assert table_behind("plain") is table


@pytest.mark.parametrize(
    ("emulate", "survivors"), [(guarded_moto, {"bystander"}), (mock_aws, set())]
)
def test_commit_during_a_failing_transaction_needs_the_guard(
    emulate: Callable[[], AbstractContextManager[Any]],
    survivors: set[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit beside a failing transaction stays; moto alone erases it, hence the guard.

    Should moto alone ever keep it, this test fails and the guard may go.
    """
    read = DynamoDBBackend.get_item

    def read_after_a_commit(backend: DynamoDBBackend, *arguments: Any) -> Any:
        backend.put_item("plain", {"id": {"S": "bystander"}})
        return read(backend, *arguments)

    with emulate(), client_of_two_tables() as client:
        with monkeypatch.context() as patches:
            patches.setattr(DynamoDBBackend, "get_item", read_after_a_commit)
            transact(client, refused("plain", id="no such item"))
        assert ids(client, "plain") == survivors


@pytest.mark.parametrize("emulate", [guarded_moto, mock_aws])
@pytest.mark.parametrize(
    ("kind", "values"), [("N", ["-1", "9", "10"]), ("S", ["-1", "10", "9"]), ("B", [b"\0", b"a"])]
)
def test_query_and_scan_keep_the_order_of_keys(
    emulate: Callable[[], AbstractContextManager[Any]], kind: str, values: list[Any]
) -> None:
    """Items come in the order of their keys, numbers as numbers, with the guard as without."""
    with emulate(), client_of_two_tables() as client:
        client.create_table(
            TableName="numbered",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "part", "AttributeType": kind},
            ],
            KeySchema=[
                {"AttributeName": "id", "KeyType": "HASH"},
                {"AttributeName": "part", "KeyType": "RANGE"},
            ],
        )
        for value in reversed(values):
            client.put_item(TableName="numbered", Item={"id": {"S": "a"}, "part": {kind: value}})
        scanned = client.scan(TableName="numbered")["Items"]
        queried = client.query(
            TableName="numbered",
            KeyConditionExpression="id = :id",
            ExpressionAttributeValues={":id": {"S": "a"}},
        )["Items"]
    assert [item["part"][kind] for item in scanned] == values
    assert [item["part"][kind] for item in queried] == values


@pytest.mark.parametrize(("actions", "is_taken"), [(100, True), (101, False)])
def test_transaction_takes_up_to_100_actions(client: Any, actions: int, is_taken: bool) -> None:
    """A transaction of 100 actions is committed; one more is refused and changes nothing."""
    items = [put("plain", id=str(number)) for number in range(actions)]
    if is_taken:
        assert transact(client, *items)
    else:
        with pytest.raises(ClientError, match="less than or equal to 100"):
            transact(client, *items)
    assert len(ids(client, "plain")) == (actions if is_taken else 0)


def test_guard_ends_with_its_block() -> None:
    """After the block moto is as it was."""
    before = DynamoHandler.call_action
    with guarded_moto():
        assert DynamoHandler.call_action is not before
    assert DynamoHandler.call_action is before


def table_behind(name: str) -> Table:
    """Return moto's own table."""
    return dynamodb_backends[ACCOUNT][REGION].tables[name]
