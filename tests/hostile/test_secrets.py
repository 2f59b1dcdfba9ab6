"""Secrets are read where the job runs, and are nowhere else: not in rows, documents or logs."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws
from pendulum import datetime

from lamplighter import DAG, SparkTask, aws
from lamplighter.store.models import TABLES
from lamplighter_job import runner, secrets
from lamplighter_job.errors import SecretError
from lamplighter_job.report import Outcome
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import local_stack
from lamplighter_operations.trigger import create_manual_run
from tests.spark.documents import context_document
from tests.tools.definitions import register_dags

CANARY, INNER = "canary-of-the-warehouse", "canary-in-a-document"
# What is written differently in an error, in JSON and in a URL.
ODD = "canary\\with'\"@é\nodd"
DOCUMENT = json.dumps({"user": "me", "password": INNER, "port": 5432})
NOON = datetime(2026, 1, 5, 12)


class DiskFiles:
    """Files by their path, instead of Hadoop's."""

    def __init__(self, spark: object) -> None:
        pass

    def read(self, uri: str) -> bytes:
        """Return the content of a file."""
        return Path(uri).read_bytes()

    def write(self, uri: str, content: bytes) -> None:
        """Write a file."""
        Path(uri).write_bytes(content)


@pytest.fixture(scope="module", autouse=True)
def _services_are_imported() -> None:
    """Import moto's services once: each test forgets what it imports, and they take a second."""
    with mock_aws():
        boto3.client("secretsmanager", "us-east-1").create_secret(Name="any", SecretString="any")
        parameters = boto3.client("ssm", "us-east-1")
        parameters.put_parameter(Name="/any", Value="any", Type="SecureString")


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """Let each test begin in a process that has read no secrets."""
    with (
        patch.object(secrets, "_known", {}),
        patch.object(secrets, "_hidden", set()),
        patch.object(runner, "Files", DiskFiles),
        patch.object(sys, "path", [*sys.path]),
        patch.dict(sys.modules),
    ):
        yield


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Secrets Manager and SSM have secrets, and their clients lead there."""
    monkeypatch.delenv(secrets.GIVEN, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    with mock_aws():
        manager, parameters = boto3.client("secretsmanager"), boto3.client("ssm")
        manager.create_secret(Name="warehouse", SecretString=CANARY)
        manager.create_secret(Name="shop/db", SecretString=DOCUMENT)
        manager.create_secret(Name="odd", SecretString=ODD)
        manager.create_secret(Name="binary", SecretBinary=b"canary")
        parameters.put_parameter(Name="/lake/key", Value=CANARY, Type="SecureString")
        yield


def run(folder: Path, code: str, **context: Any) -> Outcome:
    """Run a job with a program of this code and return how it ended."""
    (folder / "jobs").mkdir()
    body = "\n".join(f"    {line}" for line in code.splitlines())
    (folder / "jobs" / "hostile_secrets.py").write_text(f"def run(spark, context):\n{body}\n")
    uri = folder / "context.json"
    document = context_document(job="jobs.hostile_secrets:run", **context)
    uri.write_text(json.dumps(document))
    session: Any = SimpleNamespace()
    return runner.run_step(session, str(uri), bundle=folder)


VARIABLES = {"db": "secretsmanager:warehouse", "doc": "secretsmanager:shop/db"}


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    "code",
    [
        "raise ValueError(f'cannot connect with {context.secret(\"db\")}')",
        "import sys; sys.exit(context.secret('db'))",
        "import logging; logging.getLogger('x').warning('used %s', context.secret('db'))",
        "import logging; logging.getLogger('x').error(context.secret('doc'))",
        "raise KeyError(context.secret('doc'))",
        "import json; raise ValueError(json.loads(context.secret('doc'))['password'])",
        "context.outlet('orders').extra.update(a=[{'b': context.secret('db')}])",
        "context.outlet('orders').extra[context.secret('db')] = 1",
        "from lamplighter_job import SkipStep\nraise SkipStep(context.secret('db'))",
        "from lamplighter_job import secret\nraise ValueError(secret('ssm:/lake/key'))",
        "raise ValueError(context.secret('secretsmanager:shop/db#password'))",
    ],
)  # fmt: skip
def test_job_that_tells_a_secret_tells_stars(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    """Neither the report, nor what becomes the error of the step, nor any log line has it."""
    outcome = run(tmp_path, code, variables=VARIABLES)
    told = (tmp_path / "report.json").read_text()
    logged = "".join(capsys.readouterr())
    shown = "\n".join((told, logged, outcome.summary, (tmp_path / "context.json").read_text()))
    assert (CANARY in shown, INNER in shown, "***" in shown) == (False, False, True)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    "code",
    [
        "raise KeyError(context.secret('odd'))",
        "raise ValueError(f'cannot use {context.secret(\"odd\")!r}')",
        "import json; raise ValueError(json.dumps({'password': context.secret('odd')}))",
        "import urllib.parse as u; raise ValueError(u.quote(context.secret('odd'), safe=''))",
        "import logging; logging.getLogger('x').error('%r', [context.secret('odd')])",
    ],
)
def test_secret_that_is_written_otherwise_is_masked_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    """Quotes, backslashes and line ends of a password are escaped in errors and URLs."""
    run(tmp_path, code, variables={"odd": "secretsmanager:odd"})
    shown = (tmp_path / "report.json").read_text() + "".join(capsys.readouterr())
    assert ("canary" in shown, "***" in shown) == (False, True)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("db", CANARY),
        ("secretsmanager:warehouse", CANARY),
        ("ssm:/lake/key", CANARY),
        ("doc", DOCUMENT),
        ("secretsmanager:shop/db#password", INNER),
        ("secretsmanager:shop/db#port", "5432"),
    ],
)
def test_secret_is_read_by_variable_or_reference(name: str, value: str) -> None:
    """A job asks for a variable that refers to a secret, or says itself where it is."""
    assert secrets.resolve(VARIABLES.get(name, name)) == value


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("secretsmanager:nowhere", "secretsmanager: An error occurred (ResourceNotFoundException)"),
        ("ssm:/nowhere", "ssm: An error occurred (ParameterNotFound)"),
        ("secretsmanager:binary", "secretsmanager:binary: the secret is binary"),
        ("secretsmanager:warehouse#key", "secretsmanager:warehouse#key: the secret is no JSON"),
        ("secretsmanager:shop/db#nothing", "secretsmanager:shop/db#nothing: the secret is no JSON"),
        (CANARY, "neither a variable of the deployment nor a reference"),
        ("secretsmanager:a b", "neither a variable of the deployment nor a reference"),
    ],
)
def test_secret_that_cannot_be_read_is_one_line_without_it(reference: str, says: str) -> None:
    """The error names what was asked for, and never what was found; nor does its cause."""
    with pytest.raises(SecretError) as refused:
        secrets.resolve(reference)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)
    assert CANARY not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_secret_without_boto3_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that lacks it says so; jobs without secrets never notice."""
    monkeypatch.delenv(secrets.GIVEN, raising=False)
    with patch.dict(sys.modules, {"boto3": None}), pytest.raises(SecretError, match="need boto3"):
        secrets.resolve("secretsmanager:warehouse")


def test_secret_on_this_machine_comes_from_what_was_given_alone() -> None:
    """Where secrets were given, nothing is asked on the network, also for others."""
    given = json.dumps({"secretsmanager:warehouse#key": CANARY})
    with patch.dict(os.environ, {secrets.GIVEN: given}), patch.dict(sys.modules, {"boto3": None}):
        assert secrets.resolve("secretsmanager:warehouse#key") == CANARY
        with pytest.raises(SecretError, match=r"^ssm:/x: no such secret was given"):
            secrets.resolve("ssm:/x")


def test_deployment_knows_references_and_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Templates, contexts, rows and logs have the reference, whatever the service would answer."""
    caplog.set_level(logging.DEBUG)
    emr, variables = FakeEmr(), {"db": "secretsmanager:warehouse#password", "root": "s3://lake"}
    with local_stack(at=NOON, on=emr, variables=variables) as stack:
        boto3.client("secretsmanager").create_secret(
            Name="warehouse", SecretString=json.dumps({"password": CANARY})
        )
        with DAG("sales", schedule=None) as sales:
            SparkTask("load", entry_point="jobs/load.py", arguments=["{{ var.value.db }}"])
        register_dags(sales)
        create_manual_run("sales", logical_date=None, conf={"also": "{{ var.value.db }}"})
        stack.advance(minutes=5)
        (manual,) = stack.runs("sales")
        assert manual.state == "success"
        names = [each["Key"] for each in objects(stack.settings.bucket)]
        bodies = {name: body(stack.settings.bucket, name) for name in names}
        (context,) = [json.loads(text) for name, text in bodies.items() if "context" in name]
        assert (context["arguments"], context["variables"]) == ([variables["db"]], variables)
        rows = [row.attribute_values for model in TABLES for row in model.scan()]
        assert rows
        assert CANARY not in repr((bodies, rows, caplog.records))


def objects(bucket: str) -> list[dict[str, Any]]:
    """Return what is in the bucket."""
    found: list[dict[str, Any]] = aws.client("s3").list_objects_v2(Bucket=bucket)["Contents"]
    return found


def body(bucket: str, key: str) -> str:
    """Return an object of the bucket as text."""
    text: str = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    return text
