"""A deployment for all tests of a module, emptied for each; no author code runs in it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.sqs.models import sqs_backends
from pendulum import datetime

from lamplighter import DAG, settings
from lamplighter.bundles.importer import ParsedFile
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.registry.register import RegisterReport, register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.serialization import content_hash, encode_dag
from lamplighter_local.stack import REGION, LocalStack, local_stack

NOON = datetime(2026, 1, 5, 12, 0, 5)


@pytest.fixture(scope="module")
def deployment() -> Iterator[LocalStack]:
    """Yield a deployment on one shard."""
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(local_stack(at=NOON))
        made = replace(stack.settings, due_shards=1)
        stack.settings = until_the_end.enter_context(settings.using(made))
        yield stack


@pytest.fixture
def stack(deployment: LocalStack) -> LocalStack:
    """Return the deployment as if it were new: nothing in its tables and queues, noon."""
    for table in dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.values():
        table.items.clear()
    for queue in sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.values():
        queue._messages.clear()
    deployment.clock._at = NOON
    return deployment


@pytest.fixture
def register_dags(stack: LocalStack) -> Callable[..., RegisterReport]:
    """Return a function that registers DAGs as if the sandbox had found them in one file."""

    def register_dags(*dags: DAG | dict[str, Any], **named: Any) -> RegisterReport:
        found = [_found(dag) if isinstance(dag, DAG) else dag for dag in dags]
        return register_files({"dags/a.py": found}, **named)

    def register_files(
        files: dict[str, Any], *, bundle: str = "bundle", runs: dict[str, Any] | None = None
    ) -> RegisterReport:
        source = Source(bundle, "0" * 64, bundles.number(bundle))
        parsed = [ParsedFile(file, dags=dags) for file, dags in files.items()]
        with (
            patch.object(Sandbox, "parse", lambda _: iter(parsed)),
            patch.object(Sandbox, "coming_runs", lambda *_: runs or {}),
        ):
            return register(source)

    assert stack.settings.bucket
    register_dags.files = register_files  # type: ignore[attr-defined]
    return register_dags


def _found(dag: DAG) -> dict[str, Any]:
    document = encode_dag(dag)
    return {
        "dag_id": dag.dag_id,
        "line": 1,
        "hash": content_hash(document),
        "schedule": dag.timetable.summary,
        "description": "",
        "document": document,
    }
