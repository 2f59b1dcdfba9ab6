"""Commands on a machine that is not set up: no moto here, and nothing that could be reached."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lamplighter import runtime
from lamplighter.settings import Settings

Command = Callable[..., Any]

QUEUE = "https://sqs.us-east-1.amazonaws.com/123456789012/events"


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let there be a region and nothing else."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    with runtime.using(settings=Settings(queue_urls={"events": QUEUE}), new_clients=True):
        yield


@pytest.mark.parametrize("command", ["dags list", "assets emit x", "--stack x runs list"])
def test_missing_credentials_are_one_line(alone: Command, command: str) -> None:
    """Tables, queues and stacks: whoever has set up nothing learns where to begin."""
    result = alone(*command.split())
    words = "error: no AWS credentials: sign in, choose a --profile, or use --local\n"
    assert (result.code, result.out, result.err) == (1, "", words)


def test_missing_region_is_one_line(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the option that names it."""
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    result = alone("dags", "list")
    assert (result.code, result.err.startswith("error: no AWS region: ")) == (1, True)


@pytest.mark.parametrize("command", ["dags list", "assets emit x"])
def test_unknown_profile_is_one_line(alone: Command, command: str) -> None:
    """With its name."""
    result = alone("--profile", "me", *command.split())
    assert (result.code, len(result.err.splitlines())) == (1, 1)
    assert result.err.startswith("error: there is no AWS profile 'me'")


def test_profile_wins_over_keys_in_the_environment(
    alone: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As with the AWS command: what was typed counts more than what was exported."""
    (tmp_path / "config").write_text("[profile own]\nregion = eu-central-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "exported")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "exported")
    result = alone("--profile", "own", "dags", "list")
    assert result.err.startswith("error: no AWS credentials")
    assert os.environ["AWS_ACCESS_KEY_ID"] == "exported"


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_unreachable_endpoint_is_one_line(alone: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is told, and what to look at."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    result = alone("--endpoint-url", "http://127.0.0.1:9", "assets", "emit", "x")
    assert (result.code, len(result.err.splitlines())) == (1, 1)
    assert "127.0.0.1:9" in result.err
    assert "cannot be reached: check the network, --region and --endpoint-url" in result.err
