"""Collecting what a file defines while it is being imported.

A DAG notes itself here when it is constructed, so that a file need not keep it in a global name.
Outside a `collecting` block nothing is kept: a long-lived process that reads definitions back from
storage does not pile them up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lamplighter.dags.dag import DAG
    from lamplighter.dags.decorator import DagFactory


@dataclass
class Definitions:
    """The DAGs and the `@dag` functions that were defined, in order."""

    dags: list["DAG"] = field(default_factory=list)
    factories: list["DagFactory"] = field(default_factory=list)


_open: list[Definitions] = []


@contextmanager
def collecting() -> Iterator[Definitions]:
    """Collect every definition made until the block ends."""
    definitions = Definitions()
    _open.append(definitions)
    try:
        yield definitions
    finally:
        _open.remove(definitions)


def note_dag(dag: "DAG") -> None:
    """Add `dag` to whoever collects."""
    for definitions in _open:
        definitions.dags.append(dag)


def note_factory(factory: "DagFactory") -> None:
    """Add `factory` to whoever collects."""
    for definitions in _open:
        definitions.factories.append(factory)
