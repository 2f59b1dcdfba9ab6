"""Triggers on folders: what is seen, what is left alone, and when it counts as changed."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lamplighter.errors import DefinitionError
from lamplighter.triggers import DirectoryTrigger
from lamplighter.triggers.sources import SourceItem
from tests.unit.triggers.made_up import play

MODIFIED = 1_767_614_400  # 2026-01-05T12:00:00Z


def write(folder: Path, name: str, text: str = "x") -> Path:
    """Write a file that was modified at noon."""
    path = folder / name
    path.write_text(text)
    os.utime(path, (MODIFIED, MODIFIED))
    return path


def poll(folder: Path) -> list[SourceItem]:
    """Return what is seen in a folder, by name."""
    _, kwargs = DirectoryTrigger(folder).serialize()
    return sorted(asyncio.run(DirectoryTrigger.poll(kwargs)), key=lambda seen: seen.name)


def test_file_is_seen_with_its_facts(tmp_path: Path) -> None:
    """The payload tells where the file is, how long it is, and since when."""
    path = write(tmp_path, "orders.csv", "12345")
    (seen,) = poll(tmp_path)
    assert seen.name == "orders.csv"
    assert seen.payload == {
        "path": str(path),
        "size": 5,
        "modified": "2026-01-05T12:00:00+00:00",
    }
    assert seen.modified_at is not None
    assert seen.modified_at.timestamp() == MODIFIED


def test_folder_with_other_things_shows_files_only(tmp_path: Path) -> None:
    """Hidden files, folders and links to nowhere are left alone; a link to a file is a file."""
    write(tmp_path, ".orders.csv.part")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "deep.csv")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "gone.csv")
    (tmp_path / "link.csv").symlink_to(write(tmp_path, "orders.csv"))
    assert [seen.name for seen in poll(tmp_path)] == ["link.csv", "orders.csv"]


def test_file_that_stays_has_the_same_identity(tmp_path: Path) -> None:
    """Looking twice at what did not change makes no news."""
    write(tmp_path, "orders.csv")
    assert poll(tmp_path) == poll(tmp_path)


def test_file_that_is_touched_is_news(tmp_path: Path) -> None:
    """A later time of modification is a change, at the same length."""
    path = write(tmp_path, "orders.csv")
    before = poll(tmp_path)[0]
    os.utime(path, (MODIFIED, MODIFIED + 1))
    assert poll(tmp_path)[0].message_id != before.message_id


def test_file_that_grew_is_news(tmp_path: Path) -> None:
    """Another length is a change, at the same time of modification."""
    write(tmp_path, "orders.csv")
    before = poll(tmp_path)[0]
    write(tmp_path, "orders.csv", "xx")
    assert poll(tmp_path)[0].message_id != before.message_id


def test_file_that_is_replaced_is_news(tmp_path: Path) -> None:
    """A file renamed over another one is a change, at the same length and time."""
    write(tmp_path, "orders.csv")
    before = poll(tmp_path)[0]
    write(tmp_path, ".new").rename(tmp_path / "orders.csv")
    assert poll(tmp_path)[0].message_id != before.message_id


def test_folder_that_is_missing_shows_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder that nobody has created yet is empty, and one line says so."""
    assert poll(tmp_path / "later") == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert [vars(record)["folder"] for record in caplog.records] == [str(tmp_path / "later")]


def test_file_with_unreadable_name_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A name that is not UTF-8 cannot be stored; the files beside it are seen all the same."""
    write(tmp_path, "orders.csv")
    try:
        write(tmp_path, os.fsdecode(b"\xff.csv"))
    except OSError:
        pytest.skip("this file system takes no such names")
    assert [seen.name for seen in poll(tmp_path)] == ["orders.csv"]
    assert "UTF-8" in caplog.text


def test_siblings_on_one_folder_share_its_look(tmp_path: Path) -> None:
    """Patterns are decided by each trigger; the folder is read once, however it is spelled."""
    for name in ("a.csv", "b.json", "A.CSV"):
        write(tmp_path, name)
    tables = DirectoryTrigger(tmp_path, "*.csv")
    others = DirectoryTrigger(f"{tmp_path}/../{tmp_path.name}/", "[!a]*")
    played = play(tables, others)
    names = [sorted(Path(one["path"]).name for one in each) for each in played.payloads]
    assert names == [["a.csv"], ["A.CSV", "b.json"]]
    assert played.opened == ["stream"]
    assert {outcome.acked for outcome in played.outcomes} == {2}


@pytest.mark.parametrize("path", ["in", "./in", "", "~/in", None], ids=repr)
def test_path_that_is_relative_is_refused(path: Any) -> None:
    """A path must mean the same wherever the trigger runs."""
    with pytest.raises(DefinitionError, match=r"DirectoryTrigger: path .* must be absolute"):
        DirectoryTrigger(path)


@pytest.mark.parametrize("pattern", ["", "sub/*.csv", "**/*", None], ids=repr)
def test_pattern_beyond_the_folder_is_refused(pattern: Any) -> None:
    """One trigger looks at one folder; the error says what to do about those in it."""
    with pytest.raises(DefinitionError, match="needs a watcher of its own"):
        DirectoryTrigger("/in", pattern)
