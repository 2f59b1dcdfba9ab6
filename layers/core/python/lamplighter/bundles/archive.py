"""Bundles as zip archives: built the same from the same files, opened without trusting them.

Owns: what belongs into an archive and how large it may be. Opening refuses anything but plain files
below the bundle's folders, and leaves nothing behind when it refuses. Nothing is executed here.
"""

import hashlib
import io
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lamplighter.bundles.layout import IMPORT_FOLDERS, require_bundle
from lamplighter.errors import DefinitionError

MAX_FILES = 50_000
MAX_UNPACKED_BYTES = 250_000_000
# What cannot be compressed takes a little more room in the archive than on disk.
MAX_ARCHIVE_BYTES = MAX_UNPACKED_BYTES + 10_000_000

_CHUNK = 1 << 20
# The first instant a zip can hold: the real ones would make two archives of the same files differ.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16
_LISTED_FILE = b"PK\x01\x02"
_ENCRYPTED = 0x1
# What the file systems that a bundle meets can hold: in one part of a name, and in all of it.
_MAX_PART_BYTES = 255
_MAX_NAME_BYTES = 1_000
_UNSPEAKABLE = re.compile(r"[\\\x00-\x1f\x7f]")
# All that `zipfile` and the decompressor raise when they meet bytes that are no archive.
_NOT_A_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True)
class Archive:
    """A bundle as one value; `hash` depends on names and contents, never on the compression."""

    data: bytes
    hash: str
    files: tuple[str, ...]


def build_archive(root: Path) -> Archive:
    """Return the archive of the bundle at `root`: same files, same bytes."""
    paths = dict(sorted(_files_of(require_bundle(root))))
    if len(paths) > MAX_FILES:
        raise DefinitionError(
            f"the bundle has {len(paths):,} files, at most {MAX_FILES:,} are allowed"
        )
    size = sum(path.stat().st_size for path in paths.values())
    if size > MAX_UNPACKED_BYTES:
        raise DefinitionError(_too_large(f"has {size:,} bytes"))
    digest = hashlib.sha256()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, path in paths.items():
            content = path.read_bytes()
            for part in (name.encode(), content):
                # With its length, so that no byte can move from one part to the next unnoticed.
                digest.update(len(part).to_bytes(8, "big") + part)
            archive.writestr(_entry(name), content, compresslevel=6)
    return Archive(packed.getvalue(), digest.hexdigest(), tuple(paths))


def open_archive(data: bytes | Path, into: Path) -> Path:
    """Unpack an archive into the new or empty folder `into` and return it, or leave no trace."""
    packed = _bytes_of(data)
    into.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=into.parent))
    try:
        _unpack(packed, fresh)
        fresh.replace(into)
    except BaseException:
        shutil.rmtree(fresh)
        raise
    return into


def _too_large(what: str) -> str:
    return f"the bundle {what} unpacked, at most {MAX_UNPACKED_BYTES:,} are allowed"


# Building.


def _files_of(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and path of each file that belongs to the bundle."""
    for folder in IMPORT_FOLDERS:
        if (root / folder).is_dir():
            _require_inside(root, folder, root / folder)
            yield from _files_below(root, folder, frozenset())


def _files_below(root: Path, folder: str, above: frozenset[Path]) -> Iterator[tuple[str, Path]]:
    real = (root / folder).resolve()
    if real in above:
        raise DefinitionError(f"{folder} is a link to a folder that it lies in")
    for path in (root / folder).iterdir():
        if path.name.startswith(".") or path.name == "__pycache__" or path.suffix == ".pyc":
            continue
        name = f"{folder}/{path.name}"
        _require_name(name)
        _require_inside(root, name, path)
        if path.is_dir():
            yield from _files_below(root, name, above | {real})
        elif path.is_file():
            yield name, path
        else:
            raise DefinitionError(f"{name} is neither a file nor a folder")


def _require_inside(root: Path, name: str, path: Path) -> None:
    if path.is_symlink():
        try:
            target = path.resolve(strict=True)
        except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before 3.13
            raise DefinitionError(f"{name} is a link that leads nowhere") from error
        if not target.is_relative_to(root):
            raise DefinitionError(
                f"{name} is a link that leads out of the bundle, to {target}: copy the file instead"
            )


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _NO_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3  # Unix, wherever the archive is built
    entry.external_attr = _PLAIN_FILE
    return entry


# Opening.


def _bytes_of(data: bytes | Path) -> bytes:
    size = len(data) if isinstance(data, bytes) else data.stat().st_size
    if size > MAX_ARCHIVE_BYTES:
        raise DefinitionError(
            f"the archive has more than {MAX_ARCHIVE_BYTES:,} bytes, which is the most allowed"
        )
    packed = data if isinstance(data, bytes) else data.read_bytes()
    # Before the list of files is read, because each entry of it takes ten times its size in memory.
    if packed.count(_LISTED_FILE) > MAX_FILES:
        raise DefinitionError(f"the archive lists more than {MAX_FILES:,} files")
    return packed


def _unpack(packed: bytes, into: Path) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = archive.infolist()
            _require_plain(entries)
            _write_all(archive, entries, into)
    except DefinitionError:
        raise
    except _NOT_A_ZIP as error:
        raise DefinitionError(f"the archive is not a zip file that can be read: {error}") from error


def _require_plain(entries: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse the archive unless every entry is a file or folder that may be written."""
    names = set()
    for entry in entries:
        # A name is cut at its first NUL when it is read; what was written is judged.
        name = entry.orig_filename
        _require_name(name.removesuffix("/"))
        if name in names:
            raise DefinitionError(f"the archive holds {name!r} twice")
        names.add(name)
        if entry.flag_bits & _ENCRYPTED:
            raise DefinitionError(f"the archive holds {name!r} encrypted")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise DefinitionError(
                f"the archive holds {name!r} as a link or device: only files and folders may be"
            )
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DefinitionError(f"the archive holds {name!r} in a compression other than deflate")


def _require_name(name: str) -> None:
    problem = _problem_of_name(name)
    if problem:
        raise DefinitionError(f"file name {name[:200]!r} in the bundle {problem}")


def _problem_of_name(name: str) -> str | None:
    """Return why a name is no path of plain parts below one of the bundle's folders, or None."""
    parts = name.split("/")
    if _UNSPEAKABLE.search(name):
        return "holds a backslash or a character that cannot be seen"
    if parts[0] not in IMPORT_FOLDERS:
        return f"is not below {', '.join(f'{folder}/' for folder in IMPORT_FOLDERS)}"
    if not {"", ".", ".."}.isdisjoint(parts):
        return "is not a plain path"
    try:
        longest = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        return "is not UTF-8"
    if longest > _MAX_PART_BYTES or len(name.encode()) > _MAX_NAME_BYTES:
        return "is too long"
    return None


def _write_all(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], into: Path) -> None:
    left = MAX_UNPACKED_BYTES
    for entry in entries:
        path = into / entry.filename
        try:
            (path if entry.is_dir() else path.parent).mkdir(parents=True, exist_ok=True)
            if not entry.is_dir():
                left = _write(archive, entry, path, left)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise DefinitionError(
                f"the archive holds {entry.filename!r} both as a file and as a folder, or twice"
            ) from error


def _write(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, left: int) -> int:
    """Write one file and return how many bytes may still follow."""
    # Counted as they come: the sizes in an archive are whatever its maker wrote there.
    with archive.open(entry) as source, path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise DefinitionError(_too_large(f"has more than {MAX_UNPACKED_BYTES:,} bytes"))
            target.write(chunk)
    return left
