"""Builds the wheel and the source archive from this folder alone, without a network.

Owns: that the version and the changelog agree, and that the same files make the same archives.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = ROOT / "layers/core/python/lamplighter/__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
# The date of all files in the archives, in seconds: that of hatchling itself, so that whoever
# builds the wheel from the source archive gets the same.
EPOCH = "1580601600"

_SECTION = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?$", re.MULTILINE)


def version_in(text: str) -> str:
    """Return the version that the package names."""
    found = re.search(r'^__version__ = "(\d+\.\d+\.\d+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("lamplighter/__init__.py has no __version__ of three numbers")
    return found[1]


def problem(version: str, changelog: str, *, is_release: bool) -> str | None:
    """Return what the version and the changelog disagree on, if anything."""
    sections = list(_SECTION.finditer(changelog))
    numbered = [each for each in sections if each["name"] != "Unreleased"]
    newest = numbered[0]["name"] if numbered else "0.0.0"
    if is_release:
        if newest != version or not numbered[0]["date"]:
            return f"the changelog needs the section '## [{version}] - YYYY-MM-DD' on top"
        if _unreleased(changelog, sections):
            return f"entries under Unreleased belong to {version}, or to a later release"
    if _numbers(version) < _numbers(newest):
        return f"the version is {version}, but the changelog has {newest}"
    if version == newest and _unreleased(changelog, sections):
        return f"{version} is released: entries under Unreleased need a higher __version__"
    return None


def _numbers(version: str) -> list[int]:
    return [int(each) for each in version.split(".")]


def _unreleased(changelog: str, sections: list[re.Match[str]]) -> bool:
    """Return whether there is something under Unreleased."""
    if not sections or sections[0]["name"] != "Unreleased":
        return False
    end = sections[1].start() if len(sections) > 1 else len(changelog)
    return bool(changelog[sections[0].end() : end].strip())


def build(folder: Path, *, source: Path = ROOT, umask: int = 0o022) -> tuple[Path, Path]:
    """Return the source archive and the wheel of the files in `source`, built into a folder."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", folder],
        cwd=source,
        umask=umask,
        env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    (sdist,), (wheel,) = folder.glob("lamplighter-*.tar.gz"), folder.glob("lamplighter-*.whl")
    return sdist, wheel


def main(arguments: list[str]) -> int:
    """Check, and build into `dist/`."""
    version = version_in(VERSION.read_text(encoding="utf-8"))
    changelog = CHANGELOG.read_text(encoding="utf-8")
    if found := problem(version, changelog, is_release="--release" in arguments):
        print(f"dist: {found}", file=sys.stderr)
        return 1
    folder = ROOT / "dist"
    for old in folder.glob("lamplighter-*"):
        old.unlink()
    for made in build(folder):
        print(f"dist: {made.relative_to(ROOT)}, {made.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
