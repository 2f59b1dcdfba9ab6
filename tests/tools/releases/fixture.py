"""The folders of releases: where they are, and how a release is written as text.

    python -m tests.tools.releases.write

Owns: names and form of the files. docs/compatibility.md says what they are a contract about.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
RELEASES = ROOT / "tests" / "fixtures" / "releases"
BUNDLE = Path(__file__).parent / "bundle"
POLICY = "docs/compatibility.md says what may change, and when"


def releases() -> list[Path]:
    """Return the folders of all stored releases, oldest first."""
    return sorted(RELEASES.iterdir(), key=lambda each: tuple(map(int, each.name.split("."))))


def read(folder: Path, name: str) -> Any:
    """Return the value of a file of a release."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"), object_hook=_decode)


def read_tables(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the items of each table that a release has stored."""
    return {path.stem: read(folder / "tables", path.stem) for path in folder.glob("tables/*.json")}


def write(folder: Path, name: str, value: Any) -> None:
    """Write a file of a release: one line for each row, so that a difference can be read."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, list):
        text = "[\n" + ",\n".join(_line(each) for each in value) + "\n]"
    else:
        lines = (f"{json.dumps(key)}: {_line(value[key])}" for key in sorted(value))
        text = "{\n" + ",\n".join(lines) + "\n}"
    path.write_text(text + "\n", encoding="utf-8")


def _line(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_encode)


_BYTES = "base64"


def _encode(value: object) -> Any:
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    raise TypeError(f"{value!r} has no form in a file")


def _decode(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_BYTES]) if value.keys() == {_BYTES} else value


def bundle_files(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of each file of a bundle."""
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def write_bundle(files: dict[str, str], root: Path) -> Path:
    """Write the files of a bundle below a folder, and return it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
