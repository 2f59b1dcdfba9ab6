"""The example of a trigger on a folder: what is seen, and when it counts as changed."""

import asyncio
import os
from pathlib import Path

from lamplighter.triggers.sources import SourceItem
from tests.unit.triggers.made_up import play
from triggers.directory import DirectoryTrigger

MODIFIED = 1_767_614_400  # 2026-01-05T12:00:00Z


def write(folder: Path, name: str, text: str = "x") -> Path:
    """Write a file that was modified at noon."""
    path = folder / name
    path.write_text(text)
    os.utime(path, (MODIFIED, MODIFIED))
    return path


def poll(folder: Path) -> list[SourceItem]:
    """Return what is seen in a folder, by name."""
    _, kwargs = DirectoryTrigger(str(folder)).serialize()
    return sorted(asyncio.run(DirectoryTrigger.poll(kwargs)), key=lambda seen: seen.name)


def test_file_is_seen_with_its_facts(tmp_path: Path) -> None:
    """The payload tells where the file is, how long it is, and since when."""
    path = write(tmp_path, "orders.csv", "12345")
    (seen,) = poll(tmp_path)
    assert seen.name == "orders.csv"
    assert seen.payload == {"path": str(path), "size": 5, "modified": "2026-01-05T12:00:00+00:00"}
    assert seen.modified_at is not None
    assert seen.modified_at.timestamp() == MODIFIED


def test_folder_with_other_things_shows_files_only(tmp_path: Path) -> None:
    """Hidden files and folders are left alone."""
    write(tmp_path, ".orders.csv.part")
    (tmp_path / "sub").mkdir()
    write(tmp_path, "orders.csv")
    assert [seen.name for seen in poll(tmp_path)] == ["orders.csv"]


def test_folder_that_is_missing_shows_nothing(tmp_path: Path) -> None:
    """A folder that nobody has created yet is empty."""
    assert poll(tmp_path / "later") == []


def test_file_that_is_touched_grows_or_is_replaced_is_news(tmp_path: Path) -> None:
    """Each of these changes is one, and no change is none."""
    path = write(tmp_path, "orders.csv")
    versions = [poll(tmp_path)[0].version]
    assert poll(tmp_path)[0].version == versions[0]
    os.utime(path, (MODIFIED, MODIFIED + 1))
    versions.append(poll(tmp_path)[0].version)
    write(tmp_path, "orders.csv", "xx")
    versions.append(poll(tmp_path)[0].version)
    write(tmp_path, ".new", "xx").rename(path)
    versions.append(poll(tmp_path)[0].version)
    assert len(set(versions)) == 4


def test_siblings_on_one_folder_share_its_look(tmp_path: Path) -> None:
    """Patterns are decided by each trigger; the folder is read once."""
    for name in ("a.csv", "b.json"):
        write(tmp_path, name)
    path = str(tmp_path)
    played = play(DirectoryTrigger(path, "*.csv"), DirectoryTrigger(path, "[!a]*"))
    names = [sorted(Path(one["path"]).name for one in each) for each in played.payloads]
    assert names == [["a.csv"], ["b.json"]]
    assert played.opened == ["stream"]
