"""Which Java Spark gets, on machines that lack one thing or another."""

import sys
from pathlib import Path

import pytest

from lamplighter_local.spark.java import find_java_home


@pytest.fixture(name="machine")
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of a machine that has no Java, which is its environment, too."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def install_java(home: Path, version: str, *, is_trimmed: bool = False) -> Path:
    """Write a program that tells its version and home as Java does."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = 'case "$1" in --add-modules=*) exit 1;; esac\n' if is_trimmed else ""
    tells = f"echo '    java.version = {version}\n    java.home = /elsewhere' >&2\n"
    java.write_text(f"#!/bin/sh\n{refusal}{tells}")
    java.chmod(0o755)
    return home


def test_machine_without_java_has_none(machine: Path) -> None:
    """Nothing is found where nothing is."""
    assert find_java_home() is None


@pytest.mark.parametrize(("version", "is_usable"), [("17.0.15", True), ("21", True), ("24", False)])
def test_java_home_counts_if_spark_can_use_it(
    machine: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_usable: bool
) -> None:
    """A Java that is too new for Spark is as good as none."""
    home = install_java(machine / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java_home() == (home if is_usable else None)


def test_java_on_the_search_path_comes_second(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind an old `JAVA_HOME`, the one on the search path is taken."""
    monkeypatch.setenv("JAVA_HOME", str(install_java(machine / "old", "11.0.2")))
    home = install_java(machine / "jdk", "17.0.1")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:/bin")
    assert find_java_home() == home


def test_java_of_the_toolchain_comes_last(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trimmed runtime does not do; the toolchain's wrapper does, under its own home."""
    trimmed = install_java(machine / "trimmed", "21.0.1", is_trimmed=True)
    monkeypatch.setenv("PATH", f"{trimmed / 'bin'}:/bin")
    wrapper = install_java(machine / "toolchain" / "java", "21.0.1")
    assert find_java_home() == wrapper
