"""The script that chooses Java and Node, tried with small stand-ins for both programs."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "requirements" / "toolchain.py"


@pytest.fixture(name="toolchain")
def load_toolchain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the script, on a machine that has neither program."""
    spec = importlib.util.spec_from_file_location("toolchain", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "toolchain", module)
    spec.loader.exec_module(module)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("JSII_NODE", raising=False)
    return module


def program(path: Path, script: str) -> Path:
    """Write an executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def java(path: Path, version: str, home: Path) -> Path:
    """Write a program that answers as Java does, on its error stream."""
    return program(path, f"echo '    java.version = {version}\n    java.home = {home}' >&2")


def test_java_on_path_is_used_with_its_home(
    toolchain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java 17 on the search path is taken, and its home is the one it reports."""
    java(tmp_path / "bin" / "java", "17.0.15", tmp_path / "jvm")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert toolchain.java_of_machine().home == tmp_path / "jvm"


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0", "25.0.1"])
def test_java_that_spark_cannot_use_is_not_taken(
    toolchain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """A Java that is too old or too new counts as missing."""
    java(tmp_path / "java", version, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.java_of_machine() is None


def test_java_home_of_a_wrapper_is_kept(
    toolchain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run with the first one's `JAVA_HOME` keeps the wrapper instead of what it wraps."""
    inner = java(tmp_path / "inner" / "bin" / "java", "21.0.8", tmp_path / "inner")
    toolchain.write_java_wrapper(inner, tmp_path / "outer")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "outer"))
    assert toolchain.java_of_machine().home == tmp_path / "outer"


def test_wrapper_drops_exactly_one_argument(toolchain: ModuleType, tmp_path: Path) -> None:
    """The wrapper passes everything on, spaces and empty arguments included, but the module."""
    inner = program(tmp_path / "a folder" / "java", 'printf "<%s>" "$@"')
    wrapper = toolchain.write_java_wrapper(inner, tmp_path / "home")
    given = ["-cp", "a b", toolchain.ABSENT_MODULE, "", "--add-modules=java.sql", "$HOME"]
    done = subprocess.run([wrapper, *given], capture_output=True, text=True, check=True)
    assert done.stdout == "<-cp><a b><><--add-modules=java.sql><$HOME>"


@pytest.mark.parametrize(("version", "is_taken"), [("v20.1.0", True), ("v18.20.0", False)])
def test_node_is_taken_from_version_20(
    toolchain: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    is_taken: bool,
) -> None:
    """A Node of version 20 or newer is taken; an older one counts as missing."""
    monkeypatch.setenv("JSII_NODE", str(program(tmp_path / "node", f"echo {version}")))
    assert (toolchain.node_of_machine() is not None) is is_taken


def test_missing_programs_are_not_found(toolchain: ModuleType) -> None:
    """A machine with neither program yields neither."""
    assert toolchain.java_of_machine() is None
    assert toolchain.node_of_machine() is None
