"""The emulator behind a socket: guarded as it is in process."""

import http.client
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest

from tests.tools.moto_server import moto_server

KEY = {"AttributeName": "id"}


def transact(client: Any, name: str, *, is_refused: bool) -> None:
    """Write one item in a transaction, beside a check that may fail."""
    condition = f"attribute{'' if is_refused else '_not'}_exists(id)"
    put = {"Put": {"TableName": "rows", "Item": {"id": {"S": name}}}}
    check = {
        "ConditionCheck": {
            "TableName": "rows",
            "Key": {"id": {"S": "no such item"}},
            "ConditionExpression": condition,
        }
    }
    try:
        client.transact_write_items(TransactItems=[put, check])
    except client.exceptions.TransactionCanceledException:
        assert is_refused


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_server_refuses_web_pages_and_its_control_paths() -> None:
    """Neither a page that a browser shows nor an unsigned request is served."""
    with moto_server() as endpoint:
        for method, path, headers in (
            ("POST", "/moto-api/reset", {}),
            ("PUT", "/lake", {"Origin": "https://evil.example"}),
            ("PUT", "/lake", {}),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", int(endpoint.rpartition(":")[2]))
            connection.request(method, path, b"", headers)
            assert connection.getresponse().status == 403
            connection.close()


@pytest.mark.slow
@pytest.mark.allow_hosts(["127.0.0.1"])
def test_server_of_many_clients_is_guarded() -> None:
    """Transactions of several threads through a socket are all or nothing."""
    with moto_server() as endpoint:
        client = boto3.client(
            "dynamodb",
            endpoint_url=endpoint,
            region_name="eu-west-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106 - there is nothing to protect
        )
        client.create_table(
            TableName="rows",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{**KEY, "AttributeType": "S"}],
            KeySchema=[{**KEY, "KeyType": "HASH"}],
        )
        with ThreadPoolExecutor(8) as threads:
            list(
                threads.map(
                    lambda number: transact(client, str(number), is_refused=bool(number % 2)),
                    range(160),
                )
            )
        items = client.scan(TableName="rows")["Items"]
        client.close()
    assert {int(item["id"]["S"]) for item in items} == set(range(0, 160, 2))
