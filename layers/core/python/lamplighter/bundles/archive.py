"""Bundles as zip archives: built the same from the same files, opened without trusting them.

Owns: what belongs into an archive, how large it may be, and that its content is what its hash says.
Opening refuses anything but plain files below the bundle's folders, and leaves nothing behind when
it refuses. Nothing is executed here.
"""

import hashlib
import io
import re
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lamplighter.bundles.layout import IMPORT_FOLDERS, require_bundle
from lamplighter.errors import DefinitionError

MAX_FILES = 50_000
MAX_UNPACKED_BYTES = 250_000_000
# What cannot be compressed takes a little more room in the archive than on disk.
MAX_ARCHIVE_BYTES = MAX_UNPACKED_BYTES + 10_000_000

_CHUNK = 1 << 20
_EXTRA_HEADING = struct.Struct("<HH")  # kind and size
# The first instant a zip can hold: the real ones would make two archives of the same files differ.
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16
_LISTED_FILE = b"PK\x01\x02"
_ENCRYPTED = 0x1
# Info-ZIP's Unicode Path, a second name for an entry. Python 3.13 uses it, older ones do not.
_UNICODE_PATH = 0x7075
# What common file systems allow: in one part of a path, and in the whole path.
_MAX_PART_BYTES = 255
_MAX_NAME_BYTES = 1_000
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f]")
# All that `zipfile` and the decompressor raise when the data is not a valid archive.
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error)
_NOT_A_ZIP = (*_BROKEN, EOFError, OverflowError, RuntimeError, ValueError)


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
    _require_distinct(paths)
    digest = hashlib.sha256()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, path in paths.items():
            content = path.read_bytes()
            digest.update(_heading(name, len(content)))
            digest.update(content)
            archive.writestr(_entry(name), content, compresslevel=6)
    return Archive(packed.getvalue(), digest.hexdigest(), tuple(paths))


def _heading(name: str, size: int) -> bytes:
    """Return what stands before a file's content in the hash of an archive."""
    # With both lengths, so that no byte can move from one part to the next unnoticed.
    encoded = name.encode()
    return len(encoded).to_bytes(8, "big") + encoded + size.to_bytes(8, "big")


def open_stored(data: bytes, key: str, into: Path) -> Path:
    """Unpack the archive that the bucket holds under `key`, if its content is what `key` names."""
    place = PurePosixPath(key)
    try:
        return open_archive(data, into, expected_hash=place.stem)
    except DefinitionError as error:
        raise DefinitionError(f"bundle {place.parent.name!r}: {error}") from error


def open_archive(data: bytes | Path, into: Path, *, expected_hash: str | None = None) -> Path:
    """Unpack an archive into the new or empty folder `into` and return it, or leave no trace."""
    packed = _bytes_of(data)
    into.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=into.parent))
    try:
        _unpack(packed, fresh, expected_hash)
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
        raise DefinitionError(f"{folder} is a symbolic link to one of its own parent folders")
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
            raise DefinitionError(f"{name} is a broken symbolic link") from error
        if not target.is_relative_to(root):
            raise DefinitionError(
                f"{name} is a symbolic link that points outside the bundle, to {target}: copy the"
                " file instead"
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
            f"the archive has more than {MAX_ARCHIVE_BYTES:,} bytes, which is the limit"
        )
    packed = data if isinstance(data, bytes) else data.read_bytes()
    # Before the list of files is read, because each entry of it takes ten times its size in memory.
    if packed.count(_LISTED_FILE) > MAX_FILES:
        raise DefinitionError(f"the archive lists more than {MAX_FILES:,} files")
    return packed


def _unpack(packed: bytes, into: Path, expected_hash: str | None) -> None:
    """Write all files below `into`; the hash of their names and contents must be as expected."""
    digest, left = hashlib.sha256(), MAX_UNPACKED_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            entries = _by_name(archive.infolist())
            # In the order in which they were hashed when the archive was built.
            for name in sorted(entries):
                left -= _write(archive, entries[name], into / name, digest, left)
    except DefinitionError:
        raise
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise DefinitionError(
            f"the archive holds {name!r} both as a file and as a folder, or twice"
        ) from error
    except _NOT_A_ZIP as error:
        raise DefinitionError(f"the archive is not a zip file that can be read: {error}") from error
    found = digest.hexdigest()
    if expected_hash not in (None, found):
        raise DefinitionError(
            f"the content of the archive does not match its hash: it is stored as {expected_hash}"
            f" and hashes to {found}. Delete it from the bucket and push the bundle again"
        )


def _write(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, digest: "hashlib._Hash", left: int
) -> int:
    """Write a file or folder whose name has been judged, and hash it; return its size."""
    if entry.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    digest.update(_heading(entry.filename, entry.file_size))
    size = 0
    # Counted as they come: the sizes in an archive are whatever its maker wrote there.
    with archive.open(entry) as source, path.open("xb") as target:
        while chunk := source.read(_CHUNK):
            size += len(chunk)
            if size > left:
                raise DefinitionError(_too_large(f"has more than {MAX_UNPACKED_BYTES:,} bytes"))
            digest.update(chunk)
            target.write(chunk)
    if size != entry.file_size:
        raise zipfile.BadZipFile(
            f"{entry.filename!r} does not have the size that the archive gives"
        )
    return size


def _by_name(entries: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by the names under which they are written, or refuse the archive."""
    found: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = _name_of(entry)
        if name in found:
            raise DefinitionError(f"the archive holds {name!r} twice")
        found[name] = entry
        _require_plain(name, entry)
    _require_distinct(found)
    return found


def _name_of(entry: zipfile.ZipInfo) -> str:
    """Return the one name of an entry, or refuse it if different readers could see different ones.

    `orig_filename` is what stands in the archive, `filename` what Python made of it: cut at the
    first NUL and, from 3.13 on, replaced by a Unicode Path field.
    """
    name = entry.orig_filename
    _require_name(name.removesuffix("/"))
    if name != entry.filename or _UNICODE_PATH in _kinds_of_extra(entry.extra):
        raise DefinitionError(f"the archive gives {name!r} a second name")
    return name


def _kinds_of_extra(extra: bytes) -> Iterator[int]:
    """Yield the kinds of the extra fields of an entry."""
    while len(extra) >= _EXTRA_HEADING.size:
        kind, size = _EXTRA_HEADING.unpack_from(extra)
        yield kind
        extra = extra[_EXTRA_HEADING.size + size :]


def _require_plain(name: str, entry: zipfile.ZipInfo) -> None:
    """Refuse an entry unless it is a file or folder that may be written."""
    if entry.flag_bits & _ENCRYPTED:
        raise DefinitionError(f"the archive holds {name!r} encrypted")
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise DefinitionError(
            f"the archive holds {name!r} as a link or device: only files and folders are allowed"
        )
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DefinitionError(f"the archive holds {name!r} in a compression other than deflate")


def _require_distinct(names: Iterable[str]) -> None:
    """Refuse names that a file system which ignores case takes for the same file or folder."""
    spellings: dict[str, str] = {}
    for name in names:
        parts = name.removesuffix("/").split("/")
        for depth in range(1, len(parts) + 1):
            path = "/".join(parts[:depth])
            other = spellings.setdefault(unicodedata.normalize("NFC", path).casefold(), path)
            if other != path:
                raise DefinitionError(
                    f"the bundle holds {other!r} and {path!r}, which are the same name on"
                    " file systems that ignore case: rename one of them"
                )


def _require_name(name: str) -> None:
    problem = _problem_of_name(name)
    if problem:
        raise DefinitionError(f"file name {name[:200]!r} in the bundle {problem}")


def _problem_of_name(name: str) -> str | None:
    """Return why a name is no path of plain parts below one of the bundle's folders, or None."""
    parts = name.split("/")
    if _FORBIDDEN.search(name):
        return "contains a backslash or a control character"
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
