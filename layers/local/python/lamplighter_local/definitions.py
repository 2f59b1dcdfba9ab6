"""Writes the rows of DAG objects without a bundle: for tests and measurements of what follows."""

from collections.abc import Iterable

from lamplighter import clock
from lamplighter.dags.dag import DAG
from lamplighter.registry.definition import Definition, Source, ask_schedule, define, new_row
from lamplighter.serialization import content_hash, encode_dag, to_json
from lamplighter.store.models import Dags
from lamplighter.store.transactions import dag_write

_SOURCE = Source("objects", "0" * 64, 1)


def row_of(dag: DAG, row: Dags | None = None) -> Dags:
    """Return the row that a push of this DAG would write over `row`, or as a new one."""
    document = encode_dag(dag)
    definition = Definition(dag, content_hash(document), "dags/objects.py", to_json(document))
    row = row or new_row(definition)
    if define(row, definition, None, _SOURCE, now=clock.now()):
        ask_schedule(row, now=clock.now())
    dag_write(row)
    return row


def store_dags(dags: Iterable[DAG]) -> None:
    """Store the rows of new DAGs."""
    with Dags.batch_write() as batch:
        for dag in dags:
            batch.save(row_of(dag))
