"""Commands in a process of their own, against an emulator that an option names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, runtime
from lamplighter_local import resources
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.state import DevState
from tests.tools.definitions import register_dags
from tests.tools.moto_server import moto_server

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

COMMAND = [sys.executable, "-c", "from lamplighter_cli.app import main; main()"]


@pytest.fixture
def emulator() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the address of an emulator with a deployment, and the environment of its commands."""
    environment = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with moto_server() as address, patch.dict(os.environ, environment, AWS_ENDPOINT_URL=address):
        made = resources.create_all("far")
        with runtime.using(settings=made, new_clients=True):
            register_dags(DAG("dag", schedule=[Asset("orders")]))
        names = {
            "LAMPLIGHTER_TABLE_PREFIX": made.table_prefix,
            "LAMPLIGHTER_EVENTS_QUEUE_URL": made.queue_url("events"),
            "LAMPLIGHTER_EVENTS_DLQ_URL": made.queue_url("events-dlq"),
        }
        others = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
        yield address, {**others, **environment, **names}


def test_commands_find_queues_and_tables_there(emulator: tuple[str, dict[str, str]]) -> None:
    """Both kinds of client take the address: the one for queues, and the one for tables."""
    address, environment = emulator

    def lamplighter(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [*COMMAND, "--endpoint-url", address, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert lamplighter("assets", "emit", "orders", "--event-id", "e1")[0] == 0
    code, said = lamplighter("events", "trace", "e1")
    assert (code, said.startswith("error: there is no event 'e1'")) == (1, True)
    assert lamplighter("dlq", "list") == (0, "no dead letters\n")


def test_local_deployment_is_found_from_another_process(
    emulator: tuple[str, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing but the file that `dev` leaves leads there: no variable, no key, no region."""
    address, names = emulator
    found = {"table_prefix": names["LAMPLIGHTER_TABLE_PREFIX"]}
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path))
    dev_state.write(DevState(address, "us-east-1", os.getpid(), "x", "", "key", "secret", found))
    others = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    done = subprocess.run(
        [*COMMAND, "--local", "runs", "show", "dag/x"],
        env=others,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "error: DAG 'dag' has no run 'x'\n")
