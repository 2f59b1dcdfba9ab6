"""What is being defined at this moment: the DAG whose block is open, and what a file has so far.

A DAG notes itself here when it is constructed, so that a file need not keep it in a global name.
Outside a `collecting` block nothing is kept: a long-lived process that reads definitions back from
storage does not pile them up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamplighter.dags.dag import DAG
    from lamplighter.dags.decorator import DagFactory


class Definitions:
    """The DAGs and the `@dag` functions that were defined, in order."""

    def __init__(self) -> None:
        self.dags: list[DAG] = []
        self.factories: list[DagFactory] = []


open_dag: ContextVar["DAG | None"] = ContextVar("open_dag", default=None)
"""The DAG whose `with` block is open: tasks join it."""

_collections: list[Definitions] = []


@contextmanager
def collecting() -> Iterator[Definitions]:
    """Collect every definition made until the block ends."""
    definitions = Definitions()
    _collections.append(definitions)
    try:
        yield definitions
    finally:
        _collections.remove(definitions)


def note_dag(dag: "DAG") -> None:
    """Add `dag` to whoever collects."""
    for definitions in _collections:
        definitions.dags.append(dag)


def note_factory(factory: "DagFactory") -> None:
    """Add `factory` to whoever collects."""
    for definitions in _collections:
        definitions.factories.append(factory)
