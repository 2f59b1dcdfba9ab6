"""This package as files that a cluster can be given.

Owns: which files, and that the same package always makes the same bytes, so that a deployment
changes only when the code does. Refuses: uploading them.
"""

from __future__ import annotations

import io
import zipfile
from importlib.resources import files

SCRIPT = "run_step.py"
PACKAGE = "lamplighter_job.zip"

_NAME = "lamplighter_job"
# The first instant a zip can hold; the dates of the files would make equal packages differ.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = 0o100644 << 16


def runtime_files() -> dict[str, bytes]:
    """Return the script that starts a step and the package that it needs, each by its name."""
    sources = {path.name: path.read_bytes() for path in files(_NAME).iterdir() if _ships(path.name)}
    return {SCRIPT: sources[SCRIPT], PACKAGE: _zipped(sources)}


def _ships(name: str) -> bool:
    return name.endswith(".py")


def _zipped(sources: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in sorted(sources.items()):
            entry = zipfile.ZipInfo(f"{_NAME}/{name}", _NO_TIME)
            # Not compressed: the result would depend on the version of the compressor.
            entry.compress_type = zipfile.ZIP_STORED
            entry.create_system = 3  # Unix, wherever it is built
            entry.external_attr = _PLAIN_FILE
            archive.writestr(entry, content)
    return packed.getvalue()
