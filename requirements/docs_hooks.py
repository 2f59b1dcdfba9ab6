"""A hook of MkDocs: links of pages to files of the repository that are not part of the site.

Owns: that such a link is the file's path as text. A link to a file that does not exist anywhere is
left as it is, so that the strict build fails on it.
"""

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#:\s]+)(?:#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: object) -> str:  # noqa: ARG001 - MkDocs calls it by name
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
