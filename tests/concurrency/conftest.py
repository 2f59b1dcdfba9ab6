"""One DynamoDB Local for all tests that ask for it, in however many processes they run."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_SH, LOCK_UN, flock
from pathlib import Path

import boto3
import pytest

from lamplighter import clock, runtime
from lamplighter.settings import Settings
from lamplighter_local.resources import create_tables
from tests.concurrency.storms import DEPLOYMENT, NOW
from tests.tools.dynamodb_local import dynamodb_local, why_not

ENDPOINT = "dynamodb_endpoint"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that use the server reach it, and nothing else.

    The mark comes with the fixture: on the tests themselves it would be forgotten on one.
    """
    for item in items:
        if isinstance(item, pytest.Function) and ENDPOINT in item.fixturenames:
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1"]))


@pytest.fixture(scope="session", name=ENDPOINT)
def share_dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a DynamoDB Local; skip the test on a machine that cannot have one."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.getbasetemp()
    # Beside the folders of the run's other processes, if there are any.
    with shared_server(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as address:
        yield address


@contextmanager
def shared_server(folder: Path) -> Iterator[str]:
    """Return the address of the one server of a folder, started by whoever comes first.

    Not a group of xdist's: with the present pytest its groups have no effect.
    """
    address = folder / "dynamodb-local"
    with (
        address.with_suffix(".start").open("a") as start,
        address.with_suffix(".users").open("a") as users,
    ):
        flock(start, LOCK_EX)
        flock(users, LOCK_SH)
        if address.exists():
            flock(start, LOCK_UN)
            yield address.read_text()
            return
        with dynamodb_local() as endpoint:
            address.write_text(endpoint)
            flock(start, LOCK_UN)
            yield endpoint
            # The server ends with the process that started it, so that one leaves last.
            flock(users, LOCK_EX)
            address.unlink()


@pytest.fixture(name="environment")
def make_database(
    dynamodb_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """Make empty tables; return the environment of a process that works on them."""
    environment = {
        "AWS_ENDPOINT_URL": dynamodb_endpoint,
        "AWS_ACCESS_KEY_ID": uuid.uuid4().hex,  # each sees tables of its own
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    environment |= DEPLOYMENT.as_environment()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.Session().client("dynamodb")  # the default one keeps the first key it saw
    create_tables(client, DEPLOYMENT.table_prefix, leave_out=["DeletionProtectionEnabled"])
    client.close()
    made, fixed = Settings.from_environment(), clock.FixedClock(NOW)
    with runtime.using(settings=made, clock=fixed, new_clients=True):
        yield environment
