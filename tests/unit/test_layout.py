"""What the documents say about the layout of the repository is what is there."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "layers/core/python/lamplighter"
OPERATIONS = ROOT / "layers/operations/python"


def code_block(document: str, first_line: str) -> list[str]:
    """Return the lines of the code block of a document that begins with a line like this."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first_line)]
    return found.splitlines()


def packages_of_core() -> set[str]:
    """Return the names of the packages and modules right below the core."""
    names = {path.parent.name for path in CORE.glob("*/__init__.py")}
    return names | {path.stem for path in CORE.glob("*.py") if path.stem != "__init__"}


def test_floors_in_contributing_are_those_of_the_contract() -> None:
    """The list that contributors read is the list that import-linter executes."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (floors,) = [contract["layers"] for contract in contracts if contract["id"] == "floors"]

    assert code_block("CONTRIBUTING.md", "entry") == floors


def tree_of_the_page() -> Iterator[tuple[str, str]]:
    """Yield the paths that the tree on the page names: the folder, and what stands below it."""
    folder = ""
    for line in code_block("docs/architecture.md", "layers/core/python/lamplighter/"):
        # A description begins after two spaces; a line that is only one goes on with the last.
        indent = len(line) - len(line.lstrip())
        names = re.split(r" {2,}", line.strip())[0].split() if indent in {0, 2} else []
        for name in names:
            if indent == 0:
                folder = name
                yield "", name
            else:
                yield folder, name


@pytest.mark.parametrize(("folder", "name"), list(tree_of_the_page()))
def test_path_in_the_tree_of_the_page_exists(folder: str, name: str) -> None:
    """Every folder and file that the tree names is there."""
    assert (ROOT / folder / name).exists()


def test_tree_of_the_page_names_all_of_the_core() -> None:
    """No package or module of the core is left out of the tree."""
    named = {
        Path(name).stem for folder, name in tree_of_the_page() if folder.startswith("layers/core")
    }

    assert named == packages_of_core()


def files_of_architecture() -> list[str]:
    """Return the files and functions that the page on architecture names."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    return sorted(
        set(re.findall(r"`((?:functions|tests|[a-z]+)/[a-z_/]+(?:\.py)?|[a-z]+\.py)`", text))
    )


@pytest.mark.parametrize("name", files_of_architecture())
def test_file_on_the_page_about_architecture_exists(name: str) -> None:
    """Every station of the run that the page follows is where the page says."""
    roots = (ROOT, CORE, CORE.parent, OPERATIONS)

    assert any((root / name).exists() for root in roots)
