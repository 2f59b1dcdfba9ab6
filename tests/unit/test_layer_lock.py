"""The lock of the Lambda layer: all that functions import, and nothing of the command line."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECLARED = ROOT / "layers/deps/requirements.in"
LOCK = ROOT / "layers/deps/requirements.txt"
SHIPPED = ("layers/core/python", "functions")
# Looked for before they are used: they are on the machines of authors and operators only.
_ELSEWHERE = {"jsonschema", "referencing", "time-machine"}
_ONLY_COMMAND_LINE = {"click", "jsonschema", "matplotlib", "rich", "time-machine", "typer"}
# Of the offline deployment and of the CDK.
_ONLY_EXTRAS = {"aws-cdk-lib", "constructs", "moto", "pyspark", "pytest", "watchfiles"}


def names_in(path: Path) -> set[str]:
    """Return the distributions that a file of requirements names."""
    pattern = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
    lines = path.read_text(encoding="utf-8").splitlines()
    return {_name(found[0]) for line in lines if (found := pattern.match(line))}


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def imported() -> Iterator[str]:
    """Yield the top names of everything that functions import."""
    for folder in SHIPPED:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0]


def test_layer_has_what_functions_import() -> None:
    """Every package that core or a handler imports is in the lock, or is known to be elsewhere."""
    # `_typeshed` is there for mypy alone.
    known = {"lamplighter", "lamplighter_job", "_typeshed", *sys.stdlib_module_names}
    outside = {*imported()} - known
    distributions = packages_distributions()
    needed = {_name(distributions[name][0]) for name in outside}
    assert needed - names_in(LOCK) == _ELSEWHERE


def test_layer_has_nothing_of_the_command_line() -> None:
    """What only people use does not make cold starts longer."""
    assert not names_in(LOCK) & (_ONLY_COMMAND_LINE | _ONLY_EXTRAS)


def test_layer_is_declared_as_the_package_declares_it() -> None:
    """Functions get versions that the package allows, and those that are tested."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {line for line in DECLARED.read_text().splitlines() if not line.startswith("#")}
    assert declared <= set(project["dependencies"])
    tested = set(_pins(ROOT / "requirements/dev.txt"))
    assert names_in(DECLARED) <= names_in(LOCK)
    assert set(_pins(LOCK)) <= tested


def _pins(lock: Path) -> list[str]:
    pattern = re.compile(r"^[a-z0-9][^ ;]*==[^ ;\\]+", re.MULTILINE)
    return pattern.findall(lock.read_text(encoding="utf-8"))
