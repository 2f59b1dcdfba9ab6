"""DAG objects in the tables without a bundle: for tests and measurements of what follows."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

from lamplighter import clock
from lamplighter.bundles.importer import ParsedFile
from lamplighter.dags.dag import DAG
from lamplighter.registry.definition import Definition, define
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import RegisterReport, register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler.cursor import ask_schedule
from lamplighter.serialization import content_hash, encode_dag, to_json
from lamplighter.store.bundles import next_push_number
from lamplighter.store.dags import dag_write
from lamplighter.store.models import Dags
from lamplighter_local.dag_objects import FILE, parsed_dag

_PUSH = Push("objects", "0" * 64, 1)


def row_of(dag: DAG, row: Dags | None = None) -> Dags:
    """Return the row that a push of this DAG would write over `row`, or as a new one."""
    document = encode_dag(dag)
    definition = Definition(
        dag, content_hash(document), FILE, to_json(document), dag.timetable.summary
    )
    row = row or definition.new_row()
    if define(row, definition, None, _PUSH, now=clock.now()):
        ask_schedule(row, now=clock.now())
    dag_write(row)
    return row


def store_dags(dags: Iterable[DAG]) -> None:
    """Store the rows of new DAGs."""
    with Dags.batch_write() as batch:
        for dag in dags:
            batch.save(row_of(dag))


def register_dags(*dags: DAG, bundle: str = "objects") -> RegisterReport:
    """Register DAG objects as a push of a bundle that has these and no others."""
    return register_found({FILE: [parsed_dag(dag) for dag in dags]}, bundle)


def register_found(
    files: Mapping[str, list[dict[str, Any]]],
    bundle: str,
    *,
    upcoming_runs: Mapping[str, Any] = MappingProxyType({}),
) -> RegisterReport:
    """Register what a sandbox would have found in files, with its answers about timetables."""
    push = Push(bundle, _PUSH.version, next_push_number(bundle))
    parsed = [ParsedFile(file, dags=dags) for file, dags in files.items()]
    with (
        patch.object(Sandbox, "parse", lambda _: iter(parsed)),
        patch.object(Sandbox, "upcoming_runs", lambda *_: dict(upcoming_runs)),
    ):
        return register(push)
