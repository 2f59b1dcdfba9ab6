"""Hooks of MkDocs: patterns in the navigation, and links to files that are not part of the site.

Owns: that `folder/*.md` in `nav` stands for all pages of the folder but its index; and that a link
to a file of the repository outside `docs/` is the file's path as text. A link to a file that does
not exist anywhere is left as it is, so that the strict build fails on it.
"""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:\s]+)(?:#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Expand the patterns in the navigation."""
    config["nav"] = _expanded(config["nav"], Path(config["docs_dir"]))
    return config


def _expanded(entries: list[Any], docs: Path) -> list[Any]:
    found: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            found.append(
                {
                    title: _expanded(below, docs) if isinstance(below, list) else below
                    for title, below in entry.items()
                }
            )
        elif "*" in entry:
            pages = (path for path in sorted(docs.glob(entry)) if path.name != "index.md")
            found.extend(path.relative_to(docs).as_posix() for path in pages)
        else:
            found.append(entry)
    return found


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: object) -> str:  # noqa: ARG001 - MkDocs passes it by name
    """Return the text of a page, with links that leave `docs/` replaced by the path."""
    docs = Path(config["docs_dir"])
    folder = (docs / page.file.src_uri).parent

    def unlinked(link: re.Match[str]) -> str:
        path = (folder / link["target"]).resolve()
        if path.is_relative_to(docs) or not path.exists():
            return link[0]
        name = path.relative_to(docs.parent).as_posix()
        text = link["text"].strip("`").rstrip("/")
        return f"`{name}`" if name.endswith(text) else f"{link['text']} (`{name}`)"

    return _LINK.sub(unlinked, markdown)
