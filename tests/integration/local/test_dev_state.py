"""The file by which commands find a `lamplighter dev` that runs."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from botocore.session import get_session as boto_session

from lamplighter.errors import RefusedError
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.state import DevState

STATE = DevState(
    endpoint_url="http://127.0.0.1:5000",
    region="us-east-1",
    pid=os.getpid(),
    bundle="/some/where",
    started_at="2026-01-05T12:00:00+00:00",
    access_key_id="LOCALKEY",
    secret_access_key="quiet",  # noqa: S106 - of nobody
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
    """Whoever runs it may read both files, nobody else, and nothing is left beside them."""
    path = dev_state.write(STATE)
    assert dev_state.read() == STATE
    assert {each.name for each in folder.iterdir()} == {"dev.json", "dev.credentials"}
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path == folder / "dev.json"


def test_key_is_never_in_a_file_that_others_can_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have their mode before anything is written, whatever was there and the umask is."""
    folder.mkdir()
    for name in ("dev.json", "dev.credentials"):
        (folder / name).write_text("of an old session")
        (folder / name).chmod(0o666)
    modes = []
    rename = Path.replace

    def replace_and_look(source: Path, target: Path) -> Path:
        modes.append(source.stat().st_mode & 0o777)
        return rename(source, target)

    monkeypatch.setattr(Path, "replace", replace_and_look)
    before = os.umask(0)
    try:
        dev_state.write(STATE)
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]
    assert {each.stat().st_mode & 0o777 for each in folder.iterdir()} == {0o600}


def test_key_is_not_shown_with_the_state() -> None:
    """Whoever prints or logs the state does not print the secret."""
    assert "quiet" not in repr(STATE)


def test_credentials_file_is_one_of_aws(folder: Path) -> None:
    """Programs that know nothing of Lamplighter find the key under a profile of its own."""
    dev_state.write(STATE)
    session = boto_session()
    session.set_config_variable("credentials_file", str(dev_state.credentials_path()))
    session.set_config_variable("profile", dev_state.PROFILE)
    found = session.get_credentials()
    assert found is not None
    assert (found.access_key, found.secret_key) == ("LOCALKEY", "quiet")


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
    with pytest.raises(RefusedError, match="is not running: start it first"):
        dev_state.read()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": 1}', json.dumps({"pid": "x"})])
def test_state_that_cannot_be_read_is_refused(folder: Path, text: str) -> None:
    """The user is told what to remove."""
    folder.mkdir()
    (folder / "dev.json").write_text(text)
    with pytest.raises(RefusedError, match="is not a file of `lamplighter dev`"):
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
    assert not dev_state.credentials_path().exists()
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
