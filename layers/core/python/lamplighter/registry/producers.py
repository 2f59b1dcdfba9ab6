"""Who produces an asset: tasks that have it as an outlet, as their DAGs were last pushed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lamplighter.assets.codec import decode_condition
from lamplighter.assets.condition import AssetLeaf
from lamplighter.loading import author_code_as_data
from lamplighter.runs.definitions import newest_documents
from lamplighter.store.assets import leaf_id
from lamplighter.store.models import Dags


class Producer(NamedTuple):
    """A task that says that it changes an asset."""

    dag_id: str
    task_id: str


def producers_of(asset_id: str) -> list[Producer]:
    """Return the tasks that have an asset or alias as an outlet; reads every DAG."""
    rows = Dags.scan(Dags.is_stale != True)  # noqa: E712 - an expression, not a comparison
    with author_code_as_data():
        documents = newest_documents(rows)
        found = [
            Producer(dag_id, task["task_id"])
            for dag_id, document in documents.items()
            for task in document["tasks"]
            if asset_id in _outlets(task)
        ]
    return sorted(found)


def _outlets(task: dict[str, Any]) -> Iterator[str]:
    for written in task["outlets"]:
        outlet = decode_condition(written)
        if isinstance(outlet, AssetLeaf):
            yield leaf_id(outlet)
