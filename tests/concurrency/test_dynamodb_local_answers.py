"""DynamoDB Local itself: it answers, on this machine only, and keeps the promises that we test."""

import socket
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from pytest_socket import SocketConnectBlockedError

THREADS, ROUNDS = 8, 20


@pytest.fixture(name="client")
def make_client(dynamodb_endpoint: str) -> Iterator[Any]:
    """Return a client of an empty database with the table `rows`."""
    client = boto3.client(
        "dynamodb",
        endpoint_url=dynamodb_endpoint,
        region_name="eu-west-1",
        # Each access key sees tables of its own.
        aws_access_key_id=uuid.uuid4().hex,
        aws_secret_access_key="none",  # noqa: S106 - there is nothing to protect
    )
    client.create_table(
        TableName="rows",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    yield client
    client.close()


def put_new(name: str) -> dict[str, Any]:
    """Return the action that writes an item unless there is one."""
    return {
        "Put": {
            "TableName": "rows",
            "Item": {"id": {"S": name}},
            "ConditionExpression": "attribute_not_exists(id)",
        }
    }


def transact(client: Any, *actions: dict[str, Any]) -> list[str]:
    """Run one transaction and return why it was cancelled, action by action, if it was."""
    try:
        client.transact_write_items(TransactItems=list(actions))
    except client.exceptions.TransactionCanceledException as error:
        return [reason["Code"] for reason in error.response["CancellationReasons"]]
    return []


def stored(client: Any) -> set[str]:
    """Return what is in the table."""
    items = client.scan(TableName="rows", ConsistentRead=True)["Items"]
    return {item["id"]["S"] for item in items}


def test_transaction_with_a_failed_condition_writes_nothing(client: Any) -> None:
    """A transaction with one failed condition is cancelled as a whole and names the culprit."""
    assert transact(client, put_new("a")) == []
    assert transact(client, put_new("b"), put_new("a")) == ["None", "ConditionalCheckFailed"]
    assert stored(client) == {"a"}


def test_transactions_racing_for_an_item_have_one_winner(client: Any) -> None:
    """Of many threads that want the same item at once, exactly one gets it, every time."""

    def work(thread: int) -> list[int]:
        names = [(f"prize {turn}", f"{thread} {turn}") for turn in range(ROUNDS)]
        return [
            turn
            for turn, (prize, own) in enumerate(names)
            if not transact(client, put_new(prize), put_new(own))
        ]

    with ThreadPoolExecutor(THREADS) as threads:
        won = [turn for turns in threads.map(work, range(THREADS)) for turn in turns]
    assert sorted(won) == list(range(ROUNDS))
    assert len(stored(client)) == 2 * ROUNDS


def test_server_listens_on_loopback_only(dynamodb_endpoint: str) -> None:
    """No socket of the server's port is open on any address but 127.0.0.1."""
    port = urlsplit(dynamodb_endpoint).port
    tables = [path for name in ("tcp", "tcp6") if (path := Path("/proc/net", name)).exists()]
    if not tables:
        pytest.skip("the system does not list its open ports in /proc/net")
    rows = [row.split() for path in tables for row in path.read_text().splitlines()[1:]]
    # Columns: number, local address, remote address, state; 0A is "listening".
    opened = [row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    addresses = {address.partition(":")[0] for address in opened}
    # 127.0.0.1 in the byte order of the kernel, plain or as an IPv6 address.
    assert addresses
    assert addresses <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_tests_of_the_server_reach_nothing_else(dynamodb_endpoint: str) -> None:
    """The leave to use sockets ends at 127.0.0.1."""
    # An address set aside for documentation: nobody is there.
    with pytest.raises(SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
