"""The reference in docs/: every public name has an entry and a meaning; no page is old."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache

import pytest

import lamplighter
import lamplighter_infra
import lamplighter_job
import lamplighter_local
from lamplighter import triggers
from lamplighter.entry import BatchReport
from lamplighter.settings import ChosenSettings
from lamplighter.store.models import TABLES
from lamplighter.timetables.base import _BUILT_IN
from lamplighter.topology import FUNCTIONS
from lamplighter_infra.config import Config
from tests.reference import examples, metrics, pages
from tests.reference.command_line import commands
from tests.reference.tables_of_docs import REFERENCE, ROOT

FIX = "run `make reference` and commit what it writes"
ROW = re.compile(r"^\| (`.*) \|$", re.MULTILINE)


@cache
def written() -> dict[str, str]:
    """Return what the pages are to say."""
    return pages.written()


def headings(name: str) -> set[str]:
    """Return the headings of a page."""
    return set(re.findall(r"^##+ (.+)$", written()[name], re.MULTILINE))


def first_cells(name: str) -> set[str]:
    """Return what the rows of a page are about."""
    return {row.partition(" ")[0].strip("`") for row in ROW.findall(written()[name])}


@pytest.mark.parametrize("name", [f"{name}.md" for name in pages.PAGES])
def test_page_says_what_the_code_says(name: str) -> None:
    """A page that was not written again after a change of the code is found here."""
    path = REFERENCE / name
    assert path.exists(), f"docs/reference/{name} is not there: {FIX}"
    assert path.read_text(encoding="utf-8") == written()[name], f"docs/reference/{name}: {FIX}"


def test_folder_has_no_page_that_nothing_writes() -> None:
    """A page of something that was removed does not stay behind."""
    there = {path.name for path in REFERENCE.glob("*.md")}
    assert there <= {*written(), *pages.WRITTEN_BY_HAND}, FIX


def rows_without_a_meaning(name: str) -> Iterator[str]:
    """Yield the rows of tables with meanings that have none."""
    for table in re.findall(r"^\|.*meaning \|\n(?:\|.*\n?)+", written()[name], re.MULTILINE):
        _, _, *rows = table.strip().splitlines()
        yield from (row for row in rows if row.removesuffix("|").rstrip().endswith("|"))


def rows_of_tables_without_meanings(name: str) -> Iterator[str]:
    """Yield the rows of tables of arguments or fields in which nothing has a meaning."""
    for table in re.findall(
        r"^\| (?:argument|name) \|.*\n(?:\|.*\n?)+", written()[name], re.MULTILINE
    ):
        header, _, *rows = table.strip().splitlines()
        if not header.endswith("meaning |"):
            yield from rows


@pytest.mark.parametrize("name", [f"{name}.md" for name in pages.PAGES])
def test_every_row_has_a_meaning(name: str) -> None:
    """An argument without a meaning gets one under `Args:`, or in a comment at its line."""
    assert [*rows_without_a_meaning(name), *rows_of_tables_without_meanings(name)] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("authoring.md", set(lamplighter.__all__) - {"dag"}),
        ("timetables.md", set(_BUILT_IN)),
        ("triggers.md", set(triggers.__all__)),
        ("job-context.md", set(lamplighter_job.__all__)),
        ("testing.md", set(lamplighter_local.__all__)),
        ("stack.md", set(lamplighter_infra.__all__)),
        ("tables.md", {model.__name__ for model in TABLES}),
    ],
)
def test_every_public_name_has_a_section(page: str, names: set[str]) -> None:
    """What can be imported, and every table, has a heading of its own, which links may name."""
    assert names - headings(page) == set()


def test_every_command_has_a_section() -> None:
    """Groups of commands are no commands; all others are there."""
    from typer.main import get_command  # noqa: PLC0415 - only here

    from lamplighter_cli.app import app  # noqa: PLC0415 - as above

    names = {name for name, _ in commands(get_command(app))}
    assert "lamplighter runs list" in names
    assert names - headings("cli.md") == set()


def test_every_setting_and_flag_has_a_row() -> None:
    """Settings of functions and flags of the stack are all there."""
    names = {each.name for kind in (ChosenSettings, Config) for each in fields(kind)}
    assert names - {"settings"} - first_cells("settings.md") == set()


def test_every_function_that_publishes_metrics_is_there() -> None:
    """The reports of the page are those that the handlers publish."""
    publishing = {
        name: (ROOT / "functions" / name / "handler.py").read_text(encoding="utf-8")
        for name in FUNCTIONS
    }
    assert set(metrics.PUBLISHED) == {
        name for name, text in publishing.items() if "metrics_of(" in text
    }
    for name, reports in metrics.PUBLISHED.items():
        has_batch = "process_messages(" in publishing[name]
        assert (BatchReport in reports) == has_batch, name


@pytest.mark.parametrize(
    ("page", "name", "made"),
    [
        ("timetables.md", "schedule", [each() for each in examples.TIMETABLES]),
        ("triggers.md", "watcher", [each() for each in examples.TRIGGERS]),
    ],
)
def test_examples_of_a_page_run_as_they_are_printed(
    page: str, name: str, made: list[object]
) -> None:
    """A block imports what it uses, and makes what the page speaks of."""
    found = []
    for block in re.findall(r"```python\n(.*?)```", written()[page], re.DOTALL):
        names: dict[str, object] = {}
        exec(compile(block, page, "exec"), names)  # noqa: S102 - our own page
        found.append(names[name])
    assert found == made
