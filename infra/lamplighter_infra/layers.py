"""The layers of the functions, and their code, built on this machine without Docker.

Owns: what lies in them, and that the same lock and the same library make the same layer, byte for
byte. Packages are fetched once for each lock; only wheels are taken, so that nothing is compiled.
"""

import hashlib
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import lamplighter
import lamplighter_job
from lamplighter.errors import SettingsError
from lamplighter_infra.built_files import REPOSITORY, copy_files, finished, home_of_built
from lamplighter_job import shipping
from lamplighter_local.shipped import shipped

_INSTALLED_LOCK = Path(__file__).parent / "layer" / "requirements.txt"
_LOCK_OF_CHECKOUT = REPOSITORY / "layers" / "deps" / "requirements.txt"
LOCK = _INSTALLED_LOCK if _INSTALLED_LOCK.is_file() else _LOCK_OF_CHECKOUT
# What functions import of us: as it is installed, in a checkout or elsewhere.
PACKAGES = tuple(Path(str(package.__file__)).parent for package in (lamplighter, lamplighter_job))
# What Lambda has, and what is fetched for it.
LAMBDA_PYTHON = "3.13"
_FOR_LAMBDA = (
    *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"),
    *("--implementation", "cp", "--python-version", LAMBDA_PYTHON),
)
_INSTALL = ("-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-input")
# Without what the environment of this process has to say, and its packages.
_ALONE = ("-I", "-S")


def dependencies(*, is_local: bool) -> Path:
    """Return the folder of a layer with all third-party packages, which is built if it is new.

    For an emulator it holds what runs on this machine, under the Python that runs this.
    """
    home = _home("deps", LOCK.read_bytes(), is_local=is_local)
    if not home.is_dir():
        _require_pip()
        with finished(home) as folder:
            _install(folder / "python", () if is_local else _FOR_LAMBDA)
            _compile(folder / "python", is_local=is_local)
    return home


def is_built(*, is_local: bool) -> bool:
    """Return whether the packages need not be fetched any more."""
    return _home("deps", LOCK.read_bytes(), is_local=is_local).is_dir()


def core(*, is_local: bool) -> Path:
    """Return the folder of a layer with the library itself, and that of jobs for Python tasks."""
    files = {
        f"python/{package.name}/{path.relative_to(package).as_posix()}": path
        for package in PACKAGES
        for path in sorted(package.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    home = _home("core", _content_of(files), is_local=is_local)
    if not home.is_dir():
        with finished(home) as folder:
            copy_files(files, folder)
            _compile(folder / "python", is_local=is_local)
    return home


def handler(function: str) -> Path:
    """Return the folder of a function's own code."""
    files = {"handler.py": shipped("functions") / function / "handler.py"}
    return _copied(f"functions/{function}", files)


def runtime_files() -> Path:
    """Return a folder, named by what it holds, with the files that every job takes along."""
    files = sorted(shipping.runtime_files().items())
    content = b"".join(name.encode() + b"\0" + text for name, text in files)
    home = home_of_built() / "runtime" / hashlib.sha256(content).hexdigest()[:16]
    if not home.is_dir():
        with finished(home) as folder:
            for name, text in files:
                (folder / name).write_bytes(text)
    return home


def _copied(name: str, files: dict[str, Path]) -> Path:
    found = hashlib.sha256(_content_of(files)).hexdigest()[:16]
    home = home_of_built() / f"{name}-{found}"
    if not home.is_dir():
        with finished(home) as folder:
            copy_files(files, folder)
    return home


def _content_of(files: Mapping[str, Path]) -> bytes:
    read = ((name.encode(), path.read_bytes()) for name, path in files.items())
    return b"".join(b"%s\0%d\0%s" % (name, len(text), text) for name, text in read)


def _home(name: str, content: bytes, *, is_local: bool) -> Path:
    """Return where a layer lies: what it holds, for what, and compiled by what, is in its name."""
    kind = f"{platform.machine()} {sys.version}" if is_local else f"lambda {LAMBDA_PYTHON}"
    compiler = _compiler(is_local=is_local)
    compiled_by = _version(compiler) if compiler else ""
    found = hashlib.sha256(f"{kind} {compiled_by}\0".encode() + content)
    return home_of_built() / "layers" / f"{name}-{found.hexdigest()[:16]}"


def _require_pip() -> None:
    if find_spec("pip") is None:
        raise SettingsError(
            f"layers are built with pip, which {sys.executable} does not have: run"
            f" `{sys.executable} -m ensurepip`"
        )


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
    # Commands begin with the path of this Python, and packages have noted their hashes.
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for record in folder.glob("*.dist-info/RECORD"):
        lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if not line.startswith("../../bin/")]
        record.write_text("".join(kept), encoding="utf-8")


def _compile(folder: Path, *, is_local: bool) -> None:
    """Compile all, never to be checked against dates: a layer is read-only, and has none."""
    python = _compiler(is_local=is_local)
    if python is None:
        return
    subprocess.run(
        [
            *(python, *_ALONE, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"),
            *("-s", str(folder), "-p", "/opt/python", str(folder)),
        ],
        check=True,
        stdout=sys.stderr,
    )


def _compiler(*, is_local: bool) -> str | None:
    """Return a Python whose compiled files can be used; without one, each cold start compiles."""
    if is_local or sys.version_info[:2] == tuple(map(int, LAMBDA_PYTHON.split("."))):
        return sys.executable
    found = shutil.which(f"python{LAMBDA_PYTHON}")
    # What is found may be a shim that has nothing behind it.
    return found if found is not None and _version(found) else None


@cache
def _version(python: str) -> str:
    if python == sys.executable:
        return platform.python_version()
    answer = subprocess.run([python, "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip().removeprefix("Python ") if answer.returncode == 0 else ""


if __name__ == "__main__":
    dependencies(is_local="--local" in sys.argv)
