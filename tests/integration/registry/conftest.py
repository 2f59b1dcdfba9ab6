"""A deployment for all tests of a module, emptied for each; no author code runs in it."""

from collections.abc import Callable
from typing import Any

import pytest

from lamplighter import DAG
from lamplighter.registry.register import RegisterReport
from lamplighter_local.dag_objects import parsed_dag
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_found


@pytest.fixture
def register_dags(stack: LocalStack) -> Callable[..., RegisterReport]:
    """Return a function that registers DAGs as if the sandbox had found them in one file."""

    def register_dags(*dags: DAG | dict[str, Any], **named: Any) -> RegisterReport:
        found = [parsed_dag(dag) if isinstance(dag, DAG) else dag for dag in dags]
        return register_files({"dags/a.py": found}, **named)

    def register_files(
        files: dict[str, Any], *, bundle: str = "bundle", runs: dict[str, Any] | None = None
    ) -> RegisterReport:
        return register_found(files, bundle, upcoming_runs=runs or {})

    assert stack.settings.bucket
    register_dags.files = register_files  # type: ignore[attr-defined]
    return register_dags
