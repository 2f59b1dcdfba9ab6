"""The pages of the reference: which there are, and whether they say what the code says."""

from collections.abc import Callable

from tests.reference import (
    authoring,
    command_line,
    job_context,
    messages,
    metrics,
    settings,
    stack,
    tables,
    testing,
    timetables,
    triggers,
)
from tests.reference.markdown import Page
from tests.reference.tables_of_docs import REFERENCE

PAGES: dict[str, Callable[[], Page]] = {
    "authoring": authoring.page,
    "timetables": timetables.page,
    "triggers": triggers.page,
    "job-context": job_context.page,
    "testing": testing.page,
    "cli": command_line.page,
    "settings": settings.page,
    "messages": messages.page,
    "tables": tables.page,
    "metrics": metrics.page,
    "stack": stack.page,
}
WRITTEN_BY_HAND = {"index.md"}


def written() -> dict[str, str]:
    """Return the text of each page, by the name of its file."""
    return {f"{name}.md": str(make()) for name, make in PAGES.items()}


def write() -> list[str]:
    """Write all pages, and return the names of those that have changed."""
    REFERENCE.mkdir(exist_ok=True)
    changed = []
    for name, text in written().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    for path in REFERENCE.glob("*.md"):
        if path.name not in {*WRITTEN_BY_HAND, *written()}:
            path.unlink()
            changed.append(path.name)
    return changed
