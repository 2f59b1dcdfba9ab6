"""Only the store touches tables: everything else asks it by name, or hands it what to write."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lamplighter.store.models import TABLES

ROOT = Path(__file__).parents[2]
STORE = ROOT / "layers/core/python/lamplighter/store"
ROOMS = ("layers", "functions", "infra")
MODELS = frozenset(model.__name__ for model in TABLES)
CALLS = frozenset(
    {
        "batch_get",
        "batch_write",
        "count",
        "delete",
        "get",
        "query",
        "refresh",
        "save",
        "scan",
        "update",
    }
)
# What only the store needs: the client, and the requests that are built by hand.
_INSIDE = {"lamplighter.store.wire": None, "lamplighter.store.rows": {"connection"}}


def modules() -> list[Path]:
    """Return every module that ships or deploys, except those of the store."""
    found = (path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
    return sorted(path for path in found if not path.is_relative_to(STORE))


def table_calls(source: str) -> Iterator[str]:
    """Yield what a module does that only the store may do, with the number of its line."""
    tree = ast.parse(source)
    models = _imported_models(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                if any(name.name.partition(".")[0] == "pynamodb" for name in names):
                    yield f"{node.lineno}: imports pynamodb"
            case ast.ImportFrom(module=str(module), names=names):
                yield from _imports(node.lineno, module, {name.name for name in names})
            case ast.Attribute(value=owner, attr=method) if method in CALLS:
                if (model := _model_of(owner, models)) is not None:
                    yield f"{node.lineno}: {model}.{method}"


def _imports(line: int, module: str, names: set[str]) -> Iterator[str]:
    if module.partition(".")[0] == "pynamodb":
        yield f"{line}: imports pynamodb"
    for owner, private in _INSIDE.items():
        package, _, name = owner.rpartition(".")
        if (module == owner and (private is None or private & names)) or (
            module == package and private is None and name in names
        ):
            yield f"{line}: imports {owner}"


def _imported_models(tree: ast.Module) -> dict[str, str]:
    """Return the models by the names that they have in a module."""
    return {
        name.asname or name.name: name.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lamplighter.store")
        for name in node.names
        if name.name in MODELS
    }


def _model_of(owner: ast.expr, models: dict[str, str]) -> str | None:
    """Return the model that an expression is about: itself, an index of it, or a row made here."""
    match owner:
        case ast.Name(id=name):
            return models.get(name)
        case ast.Attribute(attr=name) if name in MODELS:  # models.Runs
            return name
        case ast.Attribute(value=inner) | ast.Call(func=inner):
            return _model_of(inner, models)
    return None


def test_module_outside_the_store_touches_no_table() -> None:
    """Queries, gets, scans and writes have names in the store, by what they are about."""
    found = {
        str(path.relative_to(ROOT)): list(table_calls(path.read_text(encoding="utf-8")))
        for path in modules()
    }
    touching = {name: calls for name, calls in found.items() if calls}
    assert touching == {}, f"move this to lamplighter/store: {touching}"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Runs.query('dag')", "Runs.query"),
        ("Runs.by_state.query('queued#1')", "Runs.query"),
        ("list(R.scan())", "Dags.scan"),
        ("models.Steps.get('run', 'step')", "Steps.get"),
        ("Runs('dag', 'key').delete()", "Runs.delete"),
        ("read = Runs.get", "Runs.get"),
        ("with R.batch_write() as batch: pass", "Dags.batch_write"),
        ("import pynamodb.models", "imports pynamodb"),
        ("from pynamodb.exceptions import DoesNotExist", "imports pynamodb"),
        ("from lamplighter.store import wire", "imports lamplighter.store.wire"),
        ("from lamplighter.store.wire import query", "imports lamplighter.store.wire"),
        ("from lamplighter.store.rows import connection", "imports lamplighter.store.rows"),
    ],
)
def test_boundary_crossing_is_found_in_every_form(line: str, expected: str) -> None:
    """A model may be called by another name, through an index, or on a row made in place."""
    imports = "from lamplighter.store.models import Dags as R, Runs"
    assert list(table_calls(f"{imports}\n{line}")) == [f"2: {expected}"]


@pytest.mark.parametrize(
    "line",
    [
        "Runs.rev.set(Runs.rev + 1)",
        "Put(Runs('dag', 'key', state='queued'))",
        "settings.get('Runs')",
        "{}.get(Runs)",
        "from lamplighter.store.rows import Row",
        "except_ = Runs.DoesNotExist",
    ],
)
def test_row_and_description_of_a_write_are_allowed(line: str) -> None:
    """Rows travel as values, and a decision is assembled from writes that the store carries out."""
    assert list(table_calls(f"from lamplighter.store.models import Runs\n{line}")) == []
