"""Every command used wrongly: one line, the right exit code, never a traceback."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)
from pynamodb.exceptions import QueryError, VerboseClientError

from lamplighter import DAG, Asset, runtime
from lamplighter.errors import RefusedError, TransientError
from lamplighter_cli.app import app
from lamplighter_cli.errors import explain
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags

Command = Callable[..., Any]

EXAMPLES = str(Path(__file__).parents[3] / "examples")
COMMANDS: list[list[str]] = [
    ["dags", "list"],
    ["dags", "show", "x"],
    ["dags", "pause", "x"],
    ["dags", "unpause", "x"],
    ["dags", "errors"],
    ["runs", "list"],
    ["runs", "show", "x/y"],
    ["runs", "watch", "x/y"],
    ["runs", "trigger", "x"],
    ["runs", "cancel", "x/y"],
    ["runs", "retry", "x/y"],
    ["runs", "clear", "x/y"],
    ["runs", "mark", "x/y", "--success", "--why", "checked by hand"],
    ["runs", "logs", "x/y"],
    ["runs", "open", "x/y"],
    ["backfill", "plan", "x", "--start", "2026-01-01", "--end", "2026-01-02"],
    ["backfill", "create", "x", "--start", "2026-01-01", "--end", "2026-01-02"],
    ["backfill", "list"],
    ["backfill", "show", "x"],
    ["backfill", "pause", "x"],
    ["backfill", "resume", "x"],
    ["backfill", "cancel", "x"],
    ["backfill", "watch", "x"],
    ["assets", "list"],
    ["assets", "show", "x"],
    ["assets", "emit", "x"],
    ["events", "list"],
    ["events", "trace", "x"],
    ["dlq", "list"],
    ["dlq", "replay", "--all"],
    ["pools", "list"],
    ["pools", "set", "x", "1"],
    ["pools", "delete", "x"],
    ["variables", "list"],
    ["variables", "set", "x", "1"],
    ["variables", "delete", "x"],
    ["watchers", "list"],
    ["watchers", "resume", "x"],
    ["push", EXAMPLES],
    ["rollback", "x"],
    ["bundles", "list"],
    ["bundles", "show", "x"],
    ["doctor"],
]
# New clients take long: with them, the others are tried in the long form.
FEW = (["dags", "list"], ["assets", "emit", "x"], ["doctor"])
FAR = [pytest.param(each, marks=() if each in FEW else pytest.mark.full) for each in COMMANDS]
# They need no deployment, or make one, or two.
OTHERS = {
    ("adopt",),
    ("init",),
    ("check",),
    ("deploy",),
    ("diff",),
    ("destroy",),
    ("template",),
    ("promote",),
    ("next",),
    ("demo",),
    ("dev",),
    ("simulate",),
    ("test",),
    ("watchers", "test"),
}


def named(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield all commands there are, by their names."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from named(inner, (*path, name))
    else:
        yield path


def test_every_command_is_used_wrongly_here() -> None:
    """One that is new is missed."""
    there = {path for path in named(typer.main.get_command(app)) if path not in OTHERS}
    tried = {
        tuple(word for word in command if word.isalpha() and word != "x") for command in COMMANDS
    }
    assert tried == there


def require_one_line(result: Any, *, words: str, code: int = 1) -> None:
    """Require the exit code and one line on stderr that says this."""
    (line,) = result.err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert result.code == code


@pytest.fixture
def logged(stack: LocalStack) -> Iterator[LocalStack]:
    """Return a deployment that keeps logs, with its settings read anew."""
    with runtime.using(settings=replace(stack.settings, job_logs_uri="s3://logs")):
        yield stack


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("command", FAR, ids=" ".join)
def test_missing_stack_is_one_line(lamplighter: Command, command: list[str]) -> None:
    """The name and the region are told."""
    result = lamplighter("--stack", "nowhere", *command)
    require_one_line(result, words="there is no stack 'nowhere' in region us-east-1")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_missing_dev_is_one_line(
    alone: Command, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to start is told."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", "/nonexistent")
    result = alone("--local", *command)
    require_one_line(result, words="`lamplighter dev` is not running: start it first")


@pytest.mark.usefixtures("logged")
@pytest.mark.parametrize("command", FAR, ids=" ".join)
def test_wrong_region_is_one_line(lamplighter: Command, command: list[str]) -> None:
    """Neither tables nor queues are there."""
    result = lamplighter("--region", "eu-west-1", *command)
    if command == ["doctor"]:
        assert (result.code, "table local-Dags does not exist" in result.out) == (1, True)
    else:
        require_one_line(result, words="in this account and region: choose a deployment with")


@pytest.fixture
def sales(stack: LocalStack) -> LocalStack:
    """Return a deployment with a DAG, an asset and a run."""
    register_dags(DAG("sales", schedule=[Asset("orders")]))
    create_manual_run("sales", logical_date=None, run_id="mine")
    return stack


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("dags show sale", "there is no DAG 'sale'; did you mean sales?"),
        ("dags pause nothing", "there is no DAG 'nothing'"),
        ("dags unpause salse", "did you mean sales?"),
        ("runs list seles", "did you mean sales?"),
        ("runs list --state done", "'done' is not a state of runs: use queued, running, success"),
        ("runs show sales", "write it as DAG/RUN"),
        ("runs show sale/x", "there is no DAG 'sale'; did you mean sales?"),
        ("runs cancel sales/x", "DAG 'sales' has no run 'x'; its newest is mine"),
        ("runs watch sals", "did you mean sales?"),
        ("runs watch sales/x", "its newest is mine"),
        ("runs trigger sals", "did you mean sales?"),
        ("runs trigger sales --logical-date tomorrow", "--logical-date 'tomorrow' is not a date"),
        ("runs trigger sales --logical-date 2026-13-01", "'2026-13-01' is not a date"),
        ("runs trigger sales --data-interval 2026-01-01", "write it as START/END"),
        ("runs trigger sales --data-interval x/2026-01-01", "--data-interval 'x' is not a date"),
        ("runs trigger sales --data-interval 2026-01-02/2026-01-01", "ends before it starts"),
        ("runs trigger sales --conf {rows", "--conf '{rows' is not JSON"),
        ("runs trigger sales --conf [1]", "write an object"),
        ("runs trigger sales --run-id mine", "already has a run ~mine"),
        ("runs trigger sales --run-id scheduled__x", "no prefix such as 'scheduled__'"),
        ("runs trigger sales --run-id a --logical-date 2026-01-01", "has no logical date"),
        ("assets show order", "there is no asset 'order'; did you mean orders?"),
        ("assets show s3://nowhere", "there is no asset 's3://nowhere'"),
        ("events list order", "did you mean orders?"),
    ],
)
def test_wrong_names_and_values_are_one_line(
    lamplighter: Command, arguments: str, words: str
) -> None:
    """The thing is named, and what was probably meant."""
    require_one_line(lamplighter(*arguments.split()), words=words)


@pytest.mark.parametrize(
    "arguments",
    [
        "runs list -n 0",
        "runs list --days none",
        "runs logs x/y --try 0",
        "runs open x/y --try 0",
        "dags",
        "dags shw",
        "--no",
    ],
)
def test_wrong_use_exits_two(lamplighter: Command, stack: LocalStack, arguments: str) -> None:
    """What Typer can tell is told with how to use it."""
    result = lamplighter(*arguments.split())
    assert result.code == 2
    assert "Traceback" not in result.err


def service_error(
    code: str, message: str = "two\nlines", *, operation: str = "GetItem", **more: str
) -> ClientError:
    """Return an error as a service sends it."""
    response: Any = {"Error": {"Code": code, "Message": message, **more}}
    return ClientError(response, operation)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NoCredentialsError(), "no AWS credentials"),
        (PartialCredentialsError(provider="env", cred_var="x"), "credentials are incomplete"),
        (NoRegionError(), "no AWS region: set --region"),
        (ProfileNotFound(profile="me"), "there is no AWS profile 'me'"),
        (EndpointConnectionError(endpoint_url="http://x"), "http://x cannot be reached"),
        (service_error("ExpiredToken"), "have expired: sign in"),
        (service_error("UnrecognizedClientException"), "credentials are not valid"),
        (service_error("AccessDeniedException"), "these AWS credentials do not allow it: "),
        (
            service_error("ResourceNotFoundException", "Requested resource not found"),
            "a table does not exist in this account",
        ),
        (service_error("ResourceNotFoundException", "no application x"), "AWS: An error"),
        (
            VerboseClientError(
                {"Error": {"Code": "ResourceNotFoundException", "Message": ""}},
                "TransactWriteItems",
                {"table_name": "shop-Dags,shop-Runs,shop-Dags"},
            ),
            "the table shop-Dags or shop-Runs does not exist in this account",
        ),
        (
            service_error(
                "ResourceNotFoundException",
                "Function not found: arn:aws:lambda:us-east-1:1:function:shop-sandbox",
                operation="Invoke",
            ),
            "the function shop-sandbox does not exist in this account",
        ),
        (service_error("NoSuchBucket", BucketName="mine"), "the bucket mine does not exist in"),
        (service_error("QueueDoesNotExist"), "the queue does not exist in this account"),
        (service_error("Unheard"), "AWS: An error occurred (Unheard)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_error_of_aws_says_what_to_do(error: Exception, words: str, is_wrapped: bool) -> None:
    """Also where PynamoDB or the library has put its own words round it; always in one line."""
    found: Exception = error
    if is_wrapped:
        found = TransientError("not now")
        found.__cause__ = QueryError("failed", error)
    said = explain(found)
    assert said is not None
    assert words in said
    assert "\n" not in said


def test_error_for_people_is_left_as_it_is() -> None:
    """What the library refuses says so itself, whatever it was told by AWS."""
    refused = RefusedError("there is no such thing")
    refused.__cause__ = service_error("ValidationError")
    assert explain(refused) is None
    assert explain(TransientError("busy")) is None
