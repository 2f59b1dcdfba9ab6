"""Layers: what lies in them, and that the same files make the same layer."""

from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from lamplighter_infra import layers
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
