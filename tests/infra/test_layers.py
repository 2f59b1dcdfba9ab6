"""Layers: what lies in them, and that the same files make the same layer."""

import base64
import hashlib
import os
import shutil
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from lamplighter.errors import SettingsError
from lamplighter_infra import built_files, layers
from lamplighter_job.shipping import runtime_files


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let layers be built into a folder of the test."""
    monkeypatch.setattr(layers, "home_of_built", lambda: tmp_path / "built")


def test_core_layer_holds_the_libraries_and_nothing_else() -> None:
    """Lambda finds the package below `python/`, and that of jobs, which Python tasks import."""
    built = layers.core(is_local=False)
    below = [path.relative_to(built).as_posix() for path in built.rglob("*.py")]
    assert "python/lamplighter/entry.py" in below
    assert {path.split("/")[1] for path in below} == {"lamplighter", "lamplighter_job"}


def test_core_layer_is_built_once_for_the_same_files() -> None:
    """A second deployment finds the layer of the first, so that nothing changes."""
    first = layers.core(is_local=False)
    (first / "seen").touch()
    assert (layers.core(is_local=False) / "seen").is_file()


def test_core_layer_of_other_files_has_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed line is another layer."""
    before = layers.core(is_local=False).name
    source = tmp_path / "one"
    source.mkdir()
    (source / "one.py").write_text("x = 1\n")
    monkeypatch.setattr(layers, "PACKAGES", (source,))
    assert layers.core(is_local=False).name != before


def test_layer_for_this_machine_is_compiled_for_good() -> None:
    """Compiled files are those of this Python, and are never checked against a date."""
    built = layers.core(is_local=True)
    compiled = next((built / "python" / "lamplighter" / "__pycache__").glob("entry.*.pyc"))
    header = compiled.read_bytes()[:8]
    by_hash_unchecked = 0b01
    assert header == MAGIC_NUMBER + by_hash_unchecked.to_bytes(4, "little")


def test_files_of_jobs_are_named_by_their_content() -> None:
    """What jobs take along lies in a folder that changes its name when they change."""
    built = layers.runtime_files()
    assert {path.name: path.read_bytes() for path in built.iterdir()} == runtime_files()
    assert layers.runtime_files() == built


def contents(folder: Path) -> dict[str, tuple[int, float, bytes]]:
    """Return all that a zip file would say of a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mode,
            path.stat().st_mtime,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in folder.rglob("*")
    }


def write_wheel(folder: Path) -> str:
    """Write a small wheel, with a command, as a package index has it; return its hash."""
    name = "packed-1.0.dist-info"
    files = {
        "packed/__init__.py": "NAMES = {'a', 'b', 'c'}\ndef main() -> None: ...\n",
        f"{name}/METADATA": "Metadata-Version: 2.1\nName: packed\nVersion: 1.0\n",
        f"{name}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}/entry_points.txt": "[console_scripts]\npacked = packed:main\n",
    }
    lines = []
    wheel = folder / "packed-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            lines.append(f"{path},sha256={digest.decode().rstrip('=')},{len(text)}\n")
            packed.writestr(path, text)
        packed.writestr(f"{name}/RECORD", "".join([*lines, f"{name}/RECORD,,\n"]))
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.parametrize("is_local", [True, False])
def test_layers_of_another_day_path_and_umask_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_local: bool
) -> None:
    """Built again elsewhere, by someone whose files are private, layers are the same bytes."""
    digest = write_wheel(tmp_path)
    lock = tmp_path / "requirements.txt"
    lock.write_text(f"packed==1.0 --hash=sha256:{digest}\n")
    monkeypatch.setattr(layers, "LOCK", lock)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))

    def build() -> list[Path]:
        found = [layers.dependencies(is_local=is_local), layers.core(is_local=is_local)]
        return [*found, layers.handler("tick"), layers.runtime_files()]

    first = build()
    elsewhere = tmp_path / "a longer path"
    copied = []
    for package in layers.PACKAGES:
        copied.append(elsewhere / package.name)
        shutil.copytree(package, copied[-1])
        for path in copied[-1].rglob("*.py"):
            path.chmod(0o600)
            os.utime(path, (1, 1))
    monkeypatch.setattr(layers, "PACKAGES", tuple(copied))
    monkeypatch.setattr(layers, "home_of_built", lambda: elsewhere / "built")
    before = os.umask(0o077)
    try:
        second = build()
    finally:
        os.umask(before)
    assert [folder.name for folder in first] == [folder.name for folder in second]
    for one, other in zip(first, second, strict=True):
        assert contents(one) == contents(other)
    names = contents(first[0])
    assert "python/packed/__init__.py" in names
    assert not [name for name in names if name.startswith("python/bin")]
    everything = b"".join(text for folder in first for *_, text in contents(folder).values())
    assert str(tmp_path).encode() not in everything
    assert {mode & 0o777 for mode, *_ in names.values()} == {0o644, 0o755}


def test_layer_that_could_not_be_built_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that fails is not taken for a layer the next time."""

    def fail() -> None:
        with built_files.finished(tmp_path / "layers" / "one") as folder:
            (folder / "half").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "layers").iterdir()) == []


def test_layer_that_another_process_has_built_meanwhile_is_taken(tmp_path: Path) -> None:
    """Whichever process ends first has made the folder; nothing else is left beside it."""
    home = tmp_path / "layers" / "one"
    with built_files.finished(home) as folder:
        (folder / "file").write_text("the slower one")
        home.mkdir()
        (home / "file").write_text("the quicker one")

    assert [path.name for path in home.parent.iterdir()] == ["one"]
    assert (home / "file").read_text() == "the quicker one"


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """A file stands in its way, which is nothing that was built."""
    home = tmp_path / "one"
    home.touch()
    with pytest.raises(NotADirectoryError), built_files.finished(home):
        pass


def test_layers_without_pip_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment that another tool made may have no pip; the line says what to type."""
    monkeypatch.setattr(layers, "find_spec", lambda _: None)
    with pytest.raises(
        SettingsError, match=r"pip, which \S+ does not have: run `\S+ -m ensurepip`"
    ):
        layers.dependencies(is_local=True)


def test_what_is_built_elsewhere_is_in_the_cache_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout keeps it below `build/`, an installed package where caches are."""
    assert built_files.home_of_built() == built_files.REPOSITORY / "build"
    monkeypatch.setattr(built_files, "REPOSITORY", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert built_files.home_of_built() == tmp_path / "cache" / "lamplighter"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert built_files.home_of_built() == tmp_path / "home" / ".cache" / "lamplighter"
