"""The page on requirements names files and tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "layers/core/python/lamplighter"
_ROW = re.compile(r"^\| (?P<what>.+) \| (?P<where>.+) \| (?P<shown_by>.+) \|$")


def rows() -> list[tuple[str, str, str]]:
    """Return the rows of the page: the capability, where it works, and its tests."""
    text = (ROOT / "docs/requirements.md").read_text(encoding="utf-8")
    found = [match.groups() for line in text.splitlines() if (match := _ROW.match(line))]
    return [(what, where, by) for what, where, by in found if what != "Capability"]


@cache
def functions_in(path: Path) -> set[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("what", "where", "shown_by"), rows())
def test_capability_is_where_the_page_says(what: str, where: str, shown_by: str) -> None:
    """Each capability has a file that exists, and a test that exists."""
    files, tests = re.findall("`([^`]+)`", where), re.findall("`([^`]+)`", shown_by)

    assert files, what
    assert tests, what
    for name in files:
        assert (CORE / name).exists() or (ROOT / name).exists(), name
    for name in tests:
        file, _, test = name.partition("::")
        assert test in functions_in(ROOT / "tests" / file), name


def test_page_is_found() -> None:
    """A page that changed its form is not taken for an empty one."""
    assert len(rows()) > 50
