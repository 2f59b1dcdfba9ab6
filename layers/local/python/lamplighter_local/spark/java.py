"""Finds a Java that Spark can run on.

Owns: where it is looked for, which is where `requirements/toolchain.py` looks and installs.
Refuses: installing anything.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lamplighter.dags.kinds import SparkTask

# Spark 4.0 is built for 17 and 21, and calls what Java refuses from 23 on.
MAJORS = range(17, 23)
# Spark always asks for this module, and a trimmed runtime does not start without it.
_NEEDED_MODULE = "--add-modules=jdk.incubator.vector"

NO_JAVA = (
    "Spark needs Java 17 to 22 and none was found: install JDK 17 and set JAVA_HOME, or run"
    " `make toolchain`"
)


def needs_java(documents: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a task of these DAGs is for Spark."""
    return SparkTask.kind in kinds_of(documents)


def kinds_of(documents: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the kinds of all tasks of these DAGs."""
    tasks = (task for document in documents for task in document["tasks"])
    return {task.get("kind", SparkTask.kind) for task in tasks}


def find_java_home() -> Path | None:
    """Return the home of a Java for Spark: `JAVA_HOME`, the search path, or the toolchain's."""
    given, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    ours = Path(sys.prefix, "toolchain", "java")
    candidates = [Path(given, "bin", "java")] if given else []
    candidates += [Path(found)] if found else []
    homes = (_home_of(java) for java in [*candidates, ours / "bin" / "java"])
    return next((home for home in homes if home is not None), None)


@functools.cache
def _home_of(java: Path) -> Path | None:
    """Return the home of a Java program, or nothing if Spark cannot use it."""
    command = (java, _NEEDED_MODULE, "-XshowSettings:properties", "-version")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    said = dict(re.findall(r"^\s*java\.(version|home) = (.+)$", done.stderr, re.MULTILINE))
    major = re.match(r"\d+", said.get("version", ""))
    if major is None or int(major[0]) not in MAJORS:
        return None
    # The home that it reports comes second: behind the toolchain's wrapper it is a trimmed
    # runtime's, whose own program does not take all of Spark's arguments.
    return java.parent.parent if java.parent.name == "bin" else Path(said["home"].strip())
