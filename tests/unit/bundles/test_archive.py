"""Archives: the same bytes for the same files, and no way out of the folder they are opened in."""

import io
import os
import stat
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from lamplighter.bundles import archive
from lamplighter.bundles.archive import Archive, build_archive, open_archive, open_stored
from lamplighter.errors import DefinitionError

WriteBundle = Callable[[dict[str, str]], Path]

FILES = {
    "dags/orders.py": "x = 1\n",
    "dags/deep/er/__init__.py": "",
    "jobs/größe.py": "ü = 2\n",
    "lib/vendored/module.py": "y" * 10_000,
    "timetables/workday.py": "z = 3\n",
}


def read_all(root: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }


def zip_of(*entries: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    """Return a zip file of the given entries, whatever they are called."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about names that come twice
        for name, content in entries:
            target.writestr(name, content)
    return packed.getvalue()


def refused(data: bytes | Path, tmp_path: Path) -> str:
    """Return why an archive is refused, after looking that nothing of it is left."""
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(DefinitionError) as caught:
        open_archive(data, place / "bundle")
    assert list(place.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place"]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_archive_opened_again_holds_the_same(write_bundle: WriteBundle, tmp_path: Path) -> None:
    """What was packed comes out again, and its archive is the same."""
    packed = build_archive(write_bundle(FILES))
    root = open_archive(packed.data, tmp_path / "new" / "bundle")
    assert read_all(root) == FILES
    assert packed.files == tuple(sorted(FILES))
    assert build_archive(root) == packed


def test_archive_from_a_path_is_opened(write_bundle: WriteBundle, tmp_path: Path) -> None:
    """An archive may be a file, and the folder for it may be there if it is empty."""
    file = tmp_path / "bundle.zip"
    file.write_bytes(build_archive(write_bundle(FILES)).data)
    (tmp_path / "empty").mkdir()
    assert read_all(open_archive(file, tmp_path / "empty")) == FILES


def test_archive_is_not_opened_over_other_files(write_bundle: WriteBundle, tmp_path: Path) -> None:
    """A folder that is in use is left as it was."""
    packed = build_archive(write_bundle(FILES))
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("mine")
    with pytest.raises(OSError, match="not empty"):
        open_archive(packed.data, tmp_path / "used")
    assert read_all(tmp_path / "used") == {"mine.txt": "mine"}
    assert not list(tmp_path.glob(".unpacking*"))


def test_archive_ignores_dates_rights_and_order(tmp_path: Path) -> None:
    """Only names and contents count: not when, by whom or in which order files were written."""
    archives: list[Archive] = []
    for number, names in enumerate((sorted(FILES), sorted(FILES, reverse=True))):
        for name in names:
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(FILES[name], "utf-8")
            path.chmod(0o600 if number else 0o755)
            os.utime(path, (number * 1e9, number * 1e9))
        archives.append(build_archive(tmp_path / str(number)))
    assert archives[0] == archives[1]


@pytest.mark.parametrize(
    "files",
    [
        FILES | {"dags/orders.py": "x = 2\n"},
        FILES | {"dags/more.py": ""},
        {name: text for name, text in FILES.items() if name != "dags/deep/er/__init__.py"},
        {name.replace("orders", "order"): text for name, text in FILES.items()},
        {name.replace("orders.py", "orders.pyx"): text for name, text in FILES.items()},
    ],
    ids=["content", "added", "removed", "renamed", "shifted"],
)
def test_hash_of_other_files_is_another(
    files: dict[str, str], write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """Any change of a name or a content changes the hash."""
    before = build_archive(write_bundle(FILES)).hash
    (tmp_path / "other").mkdir()
    for name, text in files.items():
        path = tmp_path / "other" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert build_archive(tmp_path / "other").hash != before


def test_hash_does_not_depend_on_compression(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of the compressor gives other bytes, and the same hash."""
    root = write_bundle(FILES)
    before = build_archive(root)
    monkeypatch.setattr(zipfile, "ZIP_DEFLATED", zipfile.ZIP_STORED)
    after = build_archive(root)
    assert (after.hash, after.data == before.data) == (before.hash, False)


def test_archive_leaves_out_what_is_no_source(write_bundle: WriteBundle) -> None:
    """Hidden files, compiled files and whatever is beside the four folders stay at home."""
    litter = {
        "dags/.hidden.py": "",
        "dags/.git/config": "",
        "dags/__pycache__/orders.cpython-311.pyc": "",
        "lib/old.pyc": "",
        "README.md": "",
        ".env": "secret",
        "tests/test_orders.py": "",
    }
    assert build_archive(write_bundle(FILES | litter)).files == tuple(sorted(FILES))


def test_archive_of_no_bundle_is_refused(tmp_path: Path) -> None:
    """A folder without DAGs is not packed by mistake."""
    with pytest.raises(DefinitionError, match="is not a bundle"):
        build_archive(tmp_path)


def test_link_within_the_bundle_is_followed(write_bundle: WriteBundle) -> None:
    """A link to a file or folder of the bundle is packed as what it leads to."""
    root = write_bundle({"dags/a.py": "a", "shared/b.py": "b"})
    (root / "dags" / "c.py").symlink_to("a.py")
    (root / "lib").symlink_to("shared")
    assert build_archive(root).files == ("dags/a.py", "dags/c.py", "lib/b.py")


@pytest.mark.parametrize("name", ["dags/link.py", "lib", "lib/folder"])
def test_link_out_of_the_bundle_is_refused(
    name: str, write_bundle: WriteBundle, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A link that leads elsewhere would pack files that nobody meant to publish."""
    root = write_bundle({"dags/a.py": "a", "jobs/a.py": ""})
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).symlink_to(tmp_path_factory.mktemp("secrets"))
    with pytest.raises(
        DefinitionError, match=f"{name} is a symbolic link that points outside the bundle"
    ):
        build_archive(root)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("nothing.py", "a broken symbolic link"),
        ("link", "a broken symbolic link"),
        ("..", "a symbolic link to one of its own parent folders"),
    ],
)
def test_link_without_an_end_is_refused(target: str, words: str, write_bundle: WriteBundle) -> None:
    """A link to nothing, to itself or to a folder around it is named."""
    root = write_bundle({"dags/a.py": "a"})
    (root / "dags" / "link").symlink_to(target)
    with pytest.raises(DefinitionError, match=f"dags/link.*{words}"):
        build_archive(root)


def test_thing_that_is_no_file_is_refused(write_bundle: WriteBundle) -> None:
    """A pipe among the files would never end."""
    root = write_bundle({"dags/a.py": "a"})
    os.mkfifo(root / "dags" / "pipe")
    with pytest.raises(DefinitionError, match="dags/pipe is neither a file nor a folder"):
        build_archive(root)


def test_bundle_with_too_many_files_is_refused(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names how many there are and how many may be."""
    monkeypatch.setattr(archive, "MAX_FILES", 4)
    with pytest.raises(DefinitionError, match="has 5 files, at most 4 are allowed"):
        build_archive(write_bundle(FILES))


def test_bundle_that_is_too_large_is_refused(write_bundle: WriteBundle) -> None:
    """The error names the size, and the files are not read to find it."""
    root = write_bundle(FILES)
    with (root / "lib" / "model.bin").open("wb") as file:
        file.truncate(archive.MAX_UNPACKED_BYTES)
    with pytest.raises(DefinitionError, match=r"has 250,010,01\d bytes .* at most 250,000,000"):
        build_archive(root)


def test_name_that_no_archive_may_hold_is_refused(write_bundle: WriteBundle) -> None:
    """What could not be opened again is not packed."""
    with pytest.raises(DefinitionError, match="backslash"):
        build_archive(write_bundle({"dags/a\\b.py": ""}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../dags/a.py", "not below"),
        ("dags/../../a.py", "plain path"),
        ("dags/..", "plain path"),
        ("/etc/passwd", "not below"),
        ("//dags/a.py", "not below"),
        ("C:/dags/a.py", "not below"),
        ("C:dags/a.py", "not below"),
        ("dags\\..\\a.py", "backslash"),
        ("dags/..\\a.py", "backslash"),
        ("dags//a.py", "plain path"),
        ("dags/./a.py", "plain path"),
        ("dags/a\n.py", "a control character"),
        ("a.py", "not below"),
        ("src/a.py", "not below"),
        ("DAGS/a.py", "not below"),
        ("dags/" + "a" * 300, "too long"),
        ("dags/" + "a/" * 800 + "b", "too long"),
    ],
)
def test_entry_with_bad_name_is_refused(name: str, words: str, tmp_path: Path) -> None:
    """A name that is not a plain path below the bundle's folders is refused before any writing."""
    data = zip_of(("dags/good.py", b"x"), (name, b"x"))
    assert words in refused(data, tmp_path)


def test_entry_with_hidden_end_of_name_is_refused(tmp_path: Path) -> None:
    """A name that goes on after a NUL is judged whole."""
    data = zip_of(("dags/a.pyX/../../../b", b"x")).replace(b"a.pyX", b"a.py\0")
    assert "a control character" in refused(data, tmp_path)


def with_unicode_path(name: str, second_name: str) -> bytes:
    """Return an archive of one file with Info-ZIP's Unicode Path, as its specification says."""
    field = struct.pack("<BL", 1, zlib.crc32(name.encode())) + second_name.encode()
    entry = zipfile.ZipInfo(name)
    entry.extra = struct.pack("<HH", 0x7075, len(field)) + field
    return zip_of(("dags/good.py", b"x"), (entry, b"x"))


@pytest.mark.parametrize(
    "second_name", ["dags/../../escaped.py", "{outside}/escaped.py", "dags/b.py", "dags/a.py", ""]
)
def test_entry_with_second_name_is_refused(second_name: str, tmp_path: Path) -> None:
    """A Unicode Path is refused on every Python, before the ones that know it write to it."""
    data = with_unicode_path("dags/a.py", second_name.format(outside=tmp_path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # Python 3.13 warns about an empty one
        assert "a second name" in refused(data, tmp_path)


@pytest.mark.parametrize(
    "names",
    [("dags/a.py", "dags/A.py"), ("dags/a/b.py", "dags/A/c.py"), ("dags/é", "dags/e\u0301")],
)
def test_names_that_differ_only_in_case_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    """On macOS and Windows the second would replace the first."""
    assert "the same name" in refused(zip_of(*((name, b"") for name in names)), tmp_path)


def test_bundle_with_names_that_differ_only_in_case_is_refused(write_bundle: WriteBundle) -> None:
    """What could not be opened again is not packed."""
    root = write_bundle({"dags/a.py": "", "dags/A.py": ""})
    if len(list((root / "dags").iterdir())) == 1:
        pytest.skip("the file system of this machine ignores case")
    with pytest.raises(DefinitionError, match=r"'dags/A\.py' and 'dags/a\.py'"):
        build_archive(root)


# The hash that names an archive.


def test_archive_that_matches_its_hash_is_opened(write_bundle: WriteBundle, tmp_path: Path) -> None:
    """The hash is of names and contents, in whatever order and compression they come."""
    packed = build_archive(write_bundle(FILES))
    reordered = zip_of(*((name, FILES[name].encode()) for name in sorted(FILES, reverse=True)))
    for number, data in enumerate((packed.data, reordered)):
        root = open_archive(data, tmp_path / f"opened{number}", expected_hash=packed.hash)
        assert read_all(root) == FILES


@pytest.mark.parametrize(
    "entries",
    [
        [("dags/a.py", b"other")],
        [("dags/b.py", b"x")],
        [("dags/a.py", b"x"), ("dags/b.py", b"")],
        [("dags/a.p", b"yx")],
    ],
    ids=["content", "name", "more", "shifted"],
)
def test_archive_that_does_not_match_its_hash_is_refused(
    entries: list[tuple[str, bytes]], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """The error names the bundle and both hashes, and nothing is left on disk."""
    root = tmp_path_factory.mktemp("bundle")
    (root / "dags").mkdir()
    (root / "dags" / "a.py").write_text("x")
    expected = build_archive(root).hash
    words = f"bundle 'shop': the content .* stored as {expected} and hashes to [0-9a-f]{{64}}"
    with pytest.raises(DefinitionError, match=words):
        open_stored(zip_of(*entries), f"bundles/shop/{expected}.zip", tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_entry_that_is_a_link_is_refused(kind: int, tmp_path: Path) -> None:
    """Links and devices are refused, whatever they lead to."""
    link = zipfile.ZipInfo("dags/link")
    link.external_attr = (kind | 0o777) << 16
    assert "link or device" in refused(zip_of((link, b"/etc/passwd")), tmp_path)


@pytest.mark.parametrize(
    "names", [("dags/a", "dags/a"), ("dags/a", "dags/a/b"), ("dags/a/b", "dags/a")]
)
def test_entry_that_comes_twice_is_refused(names: tuple[str, str], tmp_path: Path) -> None:
    """Nobody can say which of two files with one name is meant."""
    assert "twice" in refused(zip_of(*((name, b"") for name in names)), tmp_path)


def test_entry_that_is_encrypted_is_refused(tmp_path: Path) -> None:
    """A file that needs a password is named."""
    data = bytearray(zip_of(("dags/a.py", b"x")))
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert "'dags/a.py' encrypted" in refused(bytes(data), tmp_path)


def test_entry_in_rare_compression_is_refused(tmp_path: Path) -> None:
    """Only what this library writes is read: other methods may need any amount of memory."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as target:
        target.writestr("dags/a.py", b"x")
    assert "other than deflate" in refused(packed.getvalue(), tmp_path)


def test_rights_in_the_archive_are_not_given(tmp_path: Path) -> None:
    """A file that was executable or set-uid is written as a plain one."""
    program = zipfile.ZipInfo("jobs/a.sh")
    program.external_attr = (stat.S_IFREG | 0o4777) << 16
    root = open_archive(zip_of((program, b"#!/bin/sh\n")), tmp_path / "bundle")
    assert (root / "jobs" / "a.sh").stat().st_mode & 0o4111 == 0


def test_folders_in_the_archive_are_fine(tmp_path: Path) -> None:
    """Other tools write an entry for each folder, too."""
    root = open_archive(zip_of(("dags/", b""), ("dags/a.py", b"x")), tmp_path / "bundle")
    assert read_all(root) == {"dags/a.py": "x"}


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"no zip at all", b"PK\x05\x06" + b"\xff" * 18], ids=repr
)
def test_bytes_that_are_no_zip_are_refused(data: bytes, tmp_path: Path) -> None:
    """Anything else that was uploaded is one clear error."""
    assert "not a zip file that can be read" in refused(data, tmp_path)


def test_damaged_archive_is_refused(tmp_path: Path) -> None:
    """A content that does not fit its checksum is not used."""
    data = zip_of(("dags/a.py", b"precious")).replace(b"precious", b"specious", 1)
    assert "not a zip file that can be read" in refused(data, tmp_path)


def zip_of_zeros(gigabytes: int, *, claimed: int) -> bytes:
    """Return an archive of one file of zeros that claims to have `claimed` bytes."""
    compressor = zlib.compressobj(9, wbits=-15)
    compressor.compress(b"\0" * 2**20)
    compressor.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the compressor starts anew: the same megabyte gives the same bytes.
    megabyte = compressor.compress(b"\0" * 2**20) + compressor.flush(zlib.Z_FULL_FLUSH)
    stream = megabyte * (1024 * gigabytes) + compressor.flush()
    name = b"dags/zeros.py"
    sizes = struct.pack("<IIIHH", 0, len(stream), claimed, len(name), 0)
    local = b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 0) + sizes + name + stream
    listed = b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 0) + sizes
    listed += struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(listed), len(local), 0)
    return local + listed + b"PK\x05\x06" + end


def test_ten_gigabytes_of_zeros_are_refused(tmp_path: Path) -> None:
    """A small archive that would fill the disk is stopped at the limit."""
    data = zip_of_zeros(10, claimed=2**32 - 2)
    assert len(data) < 20_000_000
    assert "more than 250,000,000 bytes" in refused(data, tmp_path)


def test_zeros_behind_a_small_claim_are_refused(tmp_path: Path) -> None:
    """A file that says it is small is not believed."""
    assert "not a zip file that can be read" in refused(zip_of_zeros(1, claimed=10), tmp_path)


def test_limit_counts_all_files_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many files, each within the limit, are refused as soon as they are too much together."""
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 1_000)
    data = zip_of(*((f"dags/{n}.py", b"x" * 101) for n in range(10)))
    assert "more than 1,000 bytes" in refused(data, tmp_path)


def test_archive_of_too_many_files_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entries are counted before they are read."""
    monkeypatch.setattr(archive, "MAX_FILES", 9)
    data = zip_of(*((f"dags/{n}.py", b"") for n in range(10)))
    assert "lists more than 9 files" in refused(data, tmp_path)


def test_archive_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """An archive larger than all it may hold is not even read."""
    place = tmp_path / "huge.zip"
    with place.open("wb") as file:
        file.truncate(archive.MAX_ARCHIVE_BYTES + 1)
    with pytest.raises(DefinitionError, match="has more than 260,000,000 bytes"):
        open_archive(place, tmp_path / "bundle")
