"""A bundle on disk, written file by file."""

from collections.abc import Callable
from pathlib import Path

import pytest

WriteBundle = Callable[[dict[str, str]], Path]


@pytest.fixture
def write_bundle(tmp_path: Path) -> WriteBundle:
    """Return a function that writes files below a new root and returns that root."""

    def write(files: dict[str, str]) -> Path:
        (tmp_path / "dags").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write
