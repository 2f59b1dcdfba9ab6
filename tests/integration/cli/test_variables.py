"""Variables as an operator changes them, and what the jobs that are started then see."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lamplighter import DAG, SparkTask, aws, executors
from lamplighter.errors import LamplighterError, RefusedError
from lamplighter.store.catalog import read_variables
from lamplighter_local import LocalDeployment
from lamplighter_local.stack import LocalStack
from lamplighter_operations import variables

Command = Callable[..., Any]
NOON = "2026-01-01T12:00:00Z"


def test_variables_are_set_listed_and_deleted(lamplighter: Command, stack: LocalStack) -> None:
    """The latest value counts; a name that is gone cannot be deleted again."""
    assert lamplighter("variables", "list").out.startswith("no variables yet")
    for value in ("s3://old", "s3://lake"):
        done = lamplighter("variables", "set", "root", value)
        assert (done.code, done.out, done.err) == (0, "variable root is set\n", "")
    lamplighter("variables", "set", "db", "secretsmanager:warehouse#password")
    (db, root) = json.loads(lamplighter("variables", "list", "--json").out)
    assert (db["name"], db["value"]) == ("db", "secretsmanager:warehouse#password")
    assert (root["name"], root["value"]) == ("root", "s3://lake")
    assert root["updated_at"] == stack.clock.now().isoformat()
    assert "secretsmanager:warehouse#password" in lamplighter("variables", "list").out
    assert lamplighter("variables", "delete", "root").out == "variable root is deleted\n"
    again = lamplighter("variables", "delete", "root")
    assert (again.code, again.err) == (1, "error: there is no variable 'root'\n")
    assert read_variables() == {"db": "secretsmanager:warehouse#password"}


def test_variable_that_looks_like_a_secret_is_masked_and_warned_of(lamplighter: Command) -> None:
    """It is stored, as it may be none; whoever looks does not see it, and how to do it better."""
    done = lamplighter("variables", "set", "db_password", "hunter2", "--json")
    assert json.loads(done.out)["value"] == "***"
    assert "set the variable to secretsmanager:NAME" in done.err
    assert "hunter2" not in lamplighter("variables", "list").out
    assert read_variables() == {"db_password": "hunter2"}


@pytest.mark.usefixtures("stack")
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("a b", "x", "the id may hold letters, digits and . _ ~ - only"),
        ("", "x", "an id must be a non-empty string"),
        ("a", 1, "variable 'a' must be a text, not int"),
        ("a", "\ud800", "variable 'a' has a lone surrogate"),
        ("a", "ü" * 8_193, "variable 'a' has 16,386 bytes, at most 16,384 are allowed"),
        ("a", "secretsmanager:", "write a reference to a secret as secretsmanager:NAME"),
        ("a", "ssm:a b", "write a reference to a secret as secretsmanager:NAME"),
        ("a", "secretsmanager:x\n", "write a reference to a secret as secretsmanager:NAME"),
    ],
)
def test_variable_that_cannot_be_is_refused(name: str, value: Any, says: str) -> None:
    """The error names what is wrong, and nothing is stored."""
    with pytest.raises(LamplighterError) as refused:
        variables.set_variable(name, value)
    assert says in str(refused.value)
    assert read_variables() == {}


@pytest.mark.usefixtures("stack")
def test_variables_together_have_a_limit() -> None:
    """Every job gets all of them; one that is changed does not count twice."""
    for name in "abcd":
        variables.set_variable(name, "x" * 16_000)
    variables.set_variable("d", "y" * 16_000)
    with pytest.raises(RefusedError, match="would have 80,005 bytes, at most 65,536 are allowed"):
        variables.set_variable("e", "x" * 16_000)


def test_variable_changed_without_a_deployment_is_seen_by_the_next_job() -> None:
    """Jobs that are started read the newest values; those that were started keep theirs."""
    with LocalDeployment(at=NOON, name="changing", variables={"day": "monday"}) as lamp:
        with DAG("sales", schedule=None) as sales:
            SparkTask("load", entry_point="load.py", arguments=["{{ var.value.day }}"])
        lamp.push([sales])
        lamp.trigger("sales", logical_date=None)
        lamp.advance(minutes=1)
        assert lamp.set_variable("day", "tuesday").value == "tuesday"
        lamp.trigger("sales", logical_date=None)
        lamp.advance(minutes=1)
        steps = [step for run in lamp.runs("sales") for step in run.steps]
        jobs = [executors.current().describe(step.job_run_id or "") for step in steps]
        contexts = [read_context(job.context_uri) for job in jobs if job is not None]
    assert [context["arguments"] for context in contexts] == [["monday"], ["tuesday"]]
    assert [context["variables"]["day"] for context in contexts] == ["monday", "tuesday"]


def read_context(uri: str) -> dict[str, Any]:
    """Return the document that a job was started with."""
    bucket, key = aws.bucket_and_key(uri)
    answer = aws.client("s3").get_object(Bucket=bucket, Key=key)
    found: dict[str, Any] = json.loads(answer["Body"].read())
    return found
