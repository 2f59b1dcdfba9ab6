"""An installation of the wheel in an environment of its own, without a network.

Owns: which packages are there beside it: those that pip would install for the extras, taken from
the environment of the tests.
"""

import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


class Installation:
    """A throw-away environment with the wheel and what it requires."""

    def __init__(self, home: Path, wheel: Path, *, requirements: Iterable[str]) -> None:
        """Install `wheel`; `requirements` are those of a person, such as `lamplighter[local]`."""
        venv.create(home, symlinks=True)
        self.bin = home / "bin"
        variables = {"base": str(home), "platbase": str(home), "installed_base": str(home)}
        site = Path(sysconfig.get_path("purelib", "venv", vars=variables))
        self._run_pip("--python", self.bin / "python", "install", "--no-deps", wheel)
        (ours,) = Distribution.discover(name="lamplighter", path=[str(site)])
        for found in set(_closure(ours, [Requirement(each) for each in requirements])):
            _link(found, site)

    def _run_pip(self, *arguments: str | Path) -> None:
        options = ("-qq", "--disable-pip-version-check", "--no-input", "--no-index")
        python, (first, second, command, *rest) = sys.executable, arguments
        subprocess.run(
            [python, "-m", "pip", first, second, command, *options, "--no-compile", *rest],
            check=True,
            timeout=120,
        )

    def run(
        self, program: str, *arguments: str | Path, cwd: Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        return subprocess.run(
            [self.bin / program, *arguments],
            cwd=cwd,
            env={"HOME": str(cwd), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
            | environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


def _closure(ours: Distribution, wanted: Iterable[Requirement]) -> Iterator[str]:
    """Yield the names of all distributions that pip would install beside ours."""
    seen: set[tuple[str, str]] = set()
    queue = [(each, extra) for each in wanted for extra in ("", *each.extras)]
    while queue:
        requirement, extra = queue.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        is_ours = name == "lamplighter"
        found = ours if is_ours else distribution(name)
        if not is_ours:
            yield name
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                queue += [(needed, each) for each in ("", *needed.extras)]


def _link(name: str, site: Path) -> None:
    found = distribution(name)
    tops = {file.parts[0] for file in found.files or () if file.parts[0] not in {"..", "/"}}
    for top in tops - {"__pycache__"}:
        link = site / top
        if not link.exists():
            link.symlink_to(Path(str(found.locate_file(top))).resolve())
