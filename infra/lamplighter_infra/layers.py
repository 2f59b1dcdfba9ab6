"""The layers of the functions, built on this machine without Docker.

Owns: what lies in them, and that the same lock makes the same layer. The packages are fetched once
for each lock and kept below `build/`; only wheels are taken, so that nothing is compiled here.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lamplighter_job import shipping

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "layers" / "deps" / "requirements.txt"
CORE = ROOT / "layers" / "core"
JOB = ROOT / "layers" / "job"
# What Lambda has, and what is fetched for it.
LAMBDA_PYTHON = "3.13"
_FOR_LAMBDA = (
    *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"),
    *("--implementation", "cp", "--python-version", LAMBDA_PYTHON),
)
_INSTALL = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")


def dependencies(*, is_local: bool) -> Path:
    """Return the folder of a layer with all third-party packages, which is built if it is new.

    For an emulator it holds what runs on this machine, under the Python that runs this.
    """
    home = _home("deps", LOCK.read_bytes(), is_local=is_local)
    if not home.is_dir():
        with _finished(home) as folder:
            _install(folder / "python", () if is_local else _FOR_LAMBDA)
            _compile(folder / "python", is_local=is_local)
    return home


def is_built(*, is_local: bool) -> bool:
    """Return whether the packages need not be fetched any more."""
    return _home("deps", LOCK.read_bytes(), is_local=is_local).is_dir()


def core(*, is_local: bool) -> Path:
    """Return the folder of a layer with the library itself, and that of jobs for Python tasks."""
    parts = (CORE, JOB)
    files = {
        path.relative_to(part).as_posix().encode(): path
        for part in parts
        for path in sorted(part.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    content = b"".join(
        b"%s\0%d\0%s" % (name, path.stat().st_size, path.read_bytes())
        for name, path in files.items()
    )
    home = _home("core", content, is_local=is_local)
    if not home.is_dir():
        with _finished(home) as folder:
            no_leftovers = shutil.ignore_patterns("__pycache__")
            for part in parts:
                shutil.copytree(part, folder, ignore=no_leftovers, dirs_exist_ok=True)
            _compile(folder / "python", is_local=is_local)
    return home


def _home(name: str, content: bytes, *, is_local: bool) -> Path:
    """Return where a layer lies: what it holds, for what, and compiled or not, is in its name."""
    kind = f"{platform.machine()} {sys.version}" if is_local else f"lambda {LAMBDA_PYTHON}"
    is_compiled = _compiler(is_local=is_local) is not None
    found = hashlib.sha256(f"{kind} {is_compiled}\0".encode() + content)
    return ROOT / "build" / "layers" / f"{name}-{found.hexdigest()[:16]}"


@contextmanager
def _finished(home: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes `home` when the block has ended well."""
    unfinished = home.with_suffix(f".{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    yield unfinished
    if home.is_dir():  # another process was quicker
        shutil.rmtree(unfinished)
    else:
        unfinished.rename(home)


def _install(folder: Path, platform_options: tuple[str, ...]) -> None:
    subprocess.run(
        [
            *(sys.executable, *_INSTALL),
            # Its files would differ with every build; what is compiled is compiled below.
            *("--no-compile", "--only-binary=:all:", "--no-deps", "--require-hashes"),
            *platform_options,
            *("--target", str(folder), "--requirement", str(LOCK)),
        ],
        check=True,
        stdout=sys.stderr,  # stdout belongs to the conversation with the CDK
    )
    shutil.rmtree(folder / "bin", ignore_errors=True)


def _compile(folder: Path, *, is_local: bool) -> None:
    """Compile all, never to be checked against dates: a layer is read-only, and has none."""
    python = _compiler(is_local=is_local)
    if python is None:
        return
    subprocess.run(
        [
            *(python, "-m", "compileall", "-q", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/opt/python"),
            str(folder),
        ],
        check=True,
        stdout=sys.stderr,
    )


def _compiler(*, is_local: bool) -> str | None:
    """Return a Python whose compiled files can be used; without one, each cold start compiles."""
    if is_local or sys.version_info[:2] == tuple(map(int, LAMBDA_PYTHON.split("."))):
        return sys.executable
    found = shutil.which(f"python{LAMBDA_PYTHON}")
    if found is None:
        return None
    # What is found may be a shim that has nothing behind it.
    answer = subprocess.run([found, "--version"], capture_output=True, check=False)
    return found if answer.returncode == 0 else None


def runtime_files() -> Path:
    """Return a folder, named by what it holds, with the files that every job takes along."""
    files = sorted(shipping.runtime_files().items())
    content = b"".join(name.encode() + b"\0" + text for name, text in files)
    home = ROOT / "build" / "runtime" / hashlib.sha256(content).hexdigest()[:16]
    if not home.is_dir():
        with _finished(home) as folder:
            for name, text in files:
                (folder / name).write_bytes(text)
    return home


if __name__ == "__main__":
    dependencies(is_local="--local" in sys.argv)
