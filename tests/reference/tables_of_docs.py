"""Finds a table in the documentation, so that a meaning is written once.

A table is found by its header, on whichever page it stands; links in it are made to fit the
reference.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from tests.reference.markdown import as_sentence

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"

_LINK = re.compile(r"\]\((?!\w+:)([^)#]*)(#[^)]*)?\)")
_LINE = re.compile(r"^\|(.*)\|$", re.MULTILINE)


@dataclass(frozen=True)
class DocsTable:
    """A table, and the page that it is on."""

    page: Path
    rows: tuple[tuple[str, ...], ...]

    def meanings(self) -> dict[str, str]:
        """Return the last cell of each row that is about one name."""
        named = [(re.findall(r"`(\w+)`", row[0]), row[-1]) for row in self.rows]
        return {
            names[0]: self._moved(as_sentence(text)) for names, text in named if len(names) == 1
        }

    def _moved(self, text: str) -> str:
        def move(link: re.Match[str]) -> str:
            target = self.page.parent / link[1] if link[1] else self.page
            moved = Path(os.path.relpath(target, REFERENCE)).as_posix()
            return f"]({moved}{link[2] or ''})"

        return _LINK.sub(move, text)


def table_with(header: str) -> DocsTable:
    """Return the only table whose header is this one."""
    found = []
    for path in sorted(DOCS.rglob("*.md")):
        if REFERENCE not in path.parents:
            _, is_there, rest = path.read_text(encoding="utf-8").partition(f"\n{header}\n")
            if is_there:
                lines = _LINE.findall(rest.partition("\n\n")[0])
                rows = [tuple(cell.strip() for cell in line.split("|")) for line in lines]
                found.append(DocsTable(path, tuple(rows)))
    if len(found) != 1:
        raise LookupError(f"{len(found)} pages of docs/ have a table with the header {header!r}")
    return found[0]
