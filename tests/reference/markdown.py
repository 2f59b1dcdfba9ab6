"""Writes a page of the reference: headings, tables, and texts that are safe in both.

Owns: what a cell may hold. GitHub and MkDocs disagree about pipes in code, so none is written.
"""

import re
from collections.abc import Iterable, Sequence

WRITTEN_BY = "<!-- Written by `make reference` from the code. Change the code, not this page. -->"

_CODE = re.compile(r"(`[^`]+`)")


def code(text: str) -> str:
    """Return a text as code in a line or a cell; nothing for an empty one."""
    if not text:
        return ""
    if "|" in text or "`" in text:
        return f"<code>{_escaped(text).replace('|', '&#124;').replace('`', '&#96;')}</code>"
    return f"`{text}`"


def prose(text: str) -> str:
    """Return a text whose parts in backticks are code, as Markdown shows it."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(
        code(part.strip("`")) if _CODE.fullmatch(part) else _escaped(part).replace("|", "&#124;")
        for part in parts
    )


def sentence(text: str) -> str:
    """Return a meaning as a sentence, safe in a cell."""
    return prose(as_sentence(text))


def as_sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    text = " ".join(text.split())
    if not text:
        return ""
    ending = "" if text[-1] in ".!?:…" else "."
    # A path or a name of code keeps its first letter.
    is_word = re.match(r"[a-z]+(?=[,;:.']?(\s|$)|'s\s)", text) is not None
    return (text[0].upper() + text[1:] if is_word else text) + ending


def paragraphs(text: str) -> str:
    """Return the text of a docstring as Markdown; lines that are indented are code."""
    blocks = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(block if block.startswith("    ") else prose(block) for block in blocks)


class Page:
    """The lines of one page."""

    def __init__(self, title: str, *texts: str) -> None:
        self._blocks = [WRITTEN_BY, f"# {title}", *texts]

    def heading(self, text: str, level: int = 2) -> None:
        """Begin a section; its anchor is its text."""
        self._blocks.append(f"{'#' * level} {text}")

    def text(self, text: str) -> None:
        """Add a paragraph that is Markdown already."""
        if text:
            self._blocks.append(text)

    def block(self, language: str, text: str) -> None:
        """Add a block of code."""
        self._blocks.append(f"```{language}\n{text.strip()}\n```")

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table, without columns that are empty in all rows; none without rows."""
        found = [tuple(row) for row in rows]
        kept = [at for at in range(len(header)) if any(row[at] for row in found)]
        if not found:
            return
        lines = [[header[at] for at in kept], ["---"] * len(kept)]
        lines += [[row[at] for at in kept] for row in found]
        self._blocks.append(
            "\n".join(
                "".join(f"| {cell} " if cell else "| " for cell in line) + "|" for line in lines
            )
        )

    def __str__(self) -> str:
        return "\n\n".join(self._blocks) + "\n"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
