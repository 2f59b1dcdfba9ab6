"""A deployment for all tests of a module, emptied for each; no author code runs in it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG
from lamplighter.bundles.importer import ParsedFile
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.registry.register import RegisterReport, register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.serialization import content_hash, encode_dag
from lamplighter_local.stack import LocalStack


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
