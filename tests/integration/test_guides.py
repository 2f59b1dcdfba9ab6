"""The guides and the README: their Python blocks run, and their tests pass."""

import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

import pytest

from lamplighter import DAG, Asset
from lamplighter.dags.dag import collect_definitions
from lamplighter_local import LocalDeployment

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "layers/cli/python/lamplighter_cli/templates/starter"
PAGES = [
    "README.md",
    "docs/assets.md",
    "docs/get-started.md",
    "docs/packages.md",
    "docs/schedules.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/concepts").glob("*.md")),
]
# Their tests are for a bundle that the page describes.
PAGES_WITHOUT_TESTS = ["docs/dags.md", "docs/jobs.md", "docs/step-functions.md"]
ELSEWHERE = {
    "docs/asset-events.md": "below: the queues are those of a deployment",
    "docs/backfill.md": "a bundle of the reader's; tests/scenarios/test_backfills.py has the calls",
    "docs/deploy.md": "parts of a CDK app; tests/infra/test_construct.py builds such apps",
    "docs/testing.md": "in local/test_pytest_plugin.py, but for bundles of the reader's",
    "docs/watchers.md": "in triggers/test_watchers_page.py",
}
# Blocks of these call what the reader's own project has.
_FROM_THE_PROJECT = "from timetables.after_workday import"
_LONGEST_README = 150

Deploy: TypeAlias = Callable[..., LocalDeployment]


def blocks(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def executed(page: str) -> dict[str, Any]:
    """Return the names that the blocks of a page define, one block after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    with collect_definitions():
        for block in blocks(page):
            if _FROM_THE_PROJECT not in block:
                exec(compile(block, page, "exec"), names)  # noqa: S102 - our own page
    return names


def test_blocks_of_every_page_run_somewhere() -> None:
    """A page with Python blocks is executed here, or has a reason."""
    pages = [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
    with_blocks = {page for page in pages if blocks(page) and "/reference/" not in page}
    assert with_blocks <= {*PAGES, *PAGES_WITHOUT_TESTS, *ELSEWHERE}


def test_messages_of_the_page_on_events_are_recorded(lamplighter: Deploy) -> None:
    """The library and plain boto3 send what `ingest` takes."""
    orders = Asset("orders", "s3://lake/orders")
    lamp = lamplighter([DAG("revenue", schedule=orders)])
    for block in blocks("docs/asset-events.md"):
        names = {"url": lamp.queue_url("events")}
        exec(compile(block, "docs/asset-events.md", "exec"), names)  # noqa: S102 - our own page
    lamp.run_until_idle()
    consumed = [event.asset for run in lamp.runs("revenue") for event in run.events]
    assert consumed == ["orders"] * 3
    assert lamp.dead_letters() == []


@pytest.mark.parametrize("page", [*PAGES, *PAGES_WITHOUT_TESTS])
def test_blocks_of_the_page_run(page: str) -> None:
    """What a reader copies into a file of a bundle can be imported."""
    executed(page)


@pytest.mark.parametrize("page", PAGES)
def test_tests_of_the_page_pass(
    page: str, lamplighter: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader copies into a test passes, in the folder of a new project."""
    monkeypatch.chdir(STARTER)
    found = [each for name, each in executed(page).items() if name.startswith("test_")]
    for test in found:
        assert isinstance(test, FunctionType)
        test(*[lamplighter] * test.__code__.co_argcount)


def test_dags_of_get_started_are_those_of_a_new_project() -> None:
    """The page shows the file that `lamplighter init` writes, without its comments."""
    (shown,) = (each for each in blocks("docs/get-started.md") if _FROM_THE_PROJECT in each)
    written = (STARTER / "dags/sales.py").read_text(encoding="utf-8").splitlines()
    assert [line for line in shown.splitlines() if line not in written] == []


def test_readme_stays_short() -> None:
    """What does not fit on a few screens belongs into the pages."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= _LONGEST_README


DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    ROOT / "functions/README.md",
    ROOT / "infra/README.md",
]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_the_document_lead_to_files(path: Path) -> None:
    """Every file that a link names is there; `make docs` checks anchors too."""
    targets = re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [each for each in targets if not (path.parent / each).exists()] == []


def test_navigation_of_the_site_names_every_page() -> None:
    """A page that the navigation leaves out would not be found."""
    docs = ROOT / "docs"
    named = re.findall(r"([\w./*-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert [each for each in named if "*" not in each and not (docs / each).exists()] == []
    assert set(docs.rglob("*.md")) == {path for each in named for path in docs.glob(each)}


def test_list_of_decisions_names_every_decision() -> None:
    """Each page of `docs/adr` has its row, with its title."""
    folder = ROOT / "docs/adr"
    titles = [path.read_text().splitlines()[0] for path in sorted(folder.glob("0*.md"))]
    index = (folder / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\d+)\]\([\w-]+\.md\) \| (.*) \|$", index, re.MULTILINE)
    assert [f"# {number}. {title}" for number, title in rows] == titles
