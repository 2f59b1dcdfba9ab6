"""The file by which commands find a `lamplighter dev` that runs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lamplighter.errors import RefusedError
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.state import DevState

STATE = DevState(
    endpoint_url="http://127.0.0.1:5000",
    region="us-east-1",
    pid=os.getpid(),
    bundle="/some/where",
    started_at="2026-01-05T12:00:00+00:00",
    settings={"table_prefix": "dev-"},
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the file is kept: a folder that is not there yet."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state"


def ended_process() -> int:
    """Return the id of a process that was."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_state_is_read_as_it_was_written(folder: Path) -> None:
    """Whoever runs it may read the file, nobody else, and nothing is left beside it."""
    path = dev_state.write(STATE)
    assert dev_state.read() == STATE
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == [path]


def test_state_of_a_new_process_replaces_the_old() -> None:
    """The last one that was started is the one that is found."""
    dev_state.write(replace(STATE, pid=ended_process()))
    dev_state.write(STATE)
    assert dev_state.read().pid == os.getpid()


def test_state_of_an_ended_process_is_refused() -> None:
    """A killed process leaves its file, which is not believed."""
    gone = ended_process()
    dev_state.write(replace(STATE, pid=gone))
    with pytest.raises(RefusedError, match=f"not running: process {gone} has ended"):
        dev_state.read()


def test_state_that_is_not_there_is_refused() -> None:
    """Nothing was ever started here."""
    with pytest.raises(RefusedError, match="is not running here"):
        dev_state.read()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', json.dumps({"pid": "x"})])
def test_state_that_cannot_be_read_is_refused(folder: Path, text: str) -> None:
    """The user is told what to remove."""
    folder.mkdir()
    (folder / "dev.json").write_text(text)
    with pytest.raises(RefusedError, match="is not what `lamplighter dev` writes"):
        dev_state.read()


def test_state_in_an_unwritable_place_is_refused(folder: Path) -> None:
    """The user learns which variable names another place."""
    folder.write_text("a file where a folder should be")
    with pytest.raises(RefusedError, match="LAMPLIGHTER_STATE_DIR"):
        dev_state.write(STATE)


def test_state_is_removed_by_its_own_process_only() -> None:
    """One that ends late does not take away the file of the next."""
    dev_state.write(STATE)
    dev_state.remove(pid=os.getpid() + 1)
    assert dev_state.path().exists()
    dev_state.remove(pid=os.getpid())
    assert not dev_state.path().exists()
    dev_state.remove()


def test_state_without_a_folder_of_its_own_is_in_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As other programs do, below XDG_STATE_HOME or the home folder."""
    monkeypatch.delenv("LAMPLIGHTER_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert dev_state.path() == tmp_path / "lamplighter" / "dev.json"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert dev_state.path() == tmp_path / ".local" / "state" / "lamplighter" / "dev.json"
