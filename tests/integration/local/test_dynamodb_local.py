"""Whether DynamoDB Local can run here, on machines that lack one thing or another."""

import platform
import sys
from pathlib import Path

import pytest

from lamplighter.errors import RefusedError
from tests.tools.dynamodb_local import (
    can_compile,
    dynamodb_local,
    find_jar,
    find_java,
    why_not,
)


@pytest.fixture(name="machine")
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of an environment on a machine that has nothing."""
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def install_jar(machine: Path) -> Path:
    """Put an empty file where the toolchain puts DynamoDB Local."""
    jar = machine / "dynamodb-local" / "DynamoDBLocal.jar"
    jar.parent.mkdir()
    jar.touch()
    return jar


def install_java(home: Path, modules: str) -> Path:
    """Write a program that lists its modules as Java does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{modules}'\n")
    java.chmod(0o755)
    return java


def test_machine_without_the_jar_says_how_to_get_it(machine: Path) -> None:
    """A machine that never fetched DynamoDB Local names the command that does."""
    assert find_jar() is None
    assert "make toolchain" in str(why_not())


def test_machine_without_java_says_so(machine: Path) -> None:
    """DynamoDB Local alone is not enough."""
    assert install_jar(machine) == find_jar()
    assert "needs a Java" in str(why_not())


def test_machine_with_a_trimmed_java_says_so(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Java without a compiler counts as none."""
    install_jar(machine)
    java = install_java(machine / "jre", "java.base@21 java.sql@21")
    monkeypatch.setenv("JAVA_HOME", str(machine / "jre"))
    assert not can_compile(java)
    assert "needs a Java with a compiler" in str(why_not())


def test_machine_with_everything_has_no_excuse(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JDK on the search path is found behind a trimmed Java in `JAVA_HOME`."""
    install_jar(machine)
    install_java(machine / "jre", "java.base@21")
    jdk = install_java(machine / "jdk", "java.base@17 jdk.compiler@17")
    monkeypatch.setenv("JAVA_HOME", str(machine / "jre"))
    monkeypatch.setenv("PATH", str(jdk.parent))
    assert find_java() == jdk
    assert why_not() is None


def test_machine_of_another_kind_says_so(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which no native library comes along cannot run it."""
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert why_not() == "DynamoDB Local does not run on Linux arm64"


def test_start_without_the_jar_is_refused(machine: Path) -> None:
    """A start that cannot succeed gives the reason instead of a file that is not found."""
    with pytest.raises(RefusedError, match="not installed"), dynamodb_local():
        pass
