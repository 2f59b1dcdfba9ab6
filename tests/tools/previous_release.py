"""The code of the release before this one, as it was deployed: for tests of upgrades.

Owns: which one that is, and how its code is run beside today's. Until there are artifacts of a
release, it is a commit of this repository, which a shallow clone may not have.
"""

import io
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from lamplighter_infra import layers
from tests.tools.emulated import ROOT

# The commit before the first release. The checklist in CONTRIBUTING.md says when it is replaced.
COMMIT = "1b06947"
APP = "infra"  # the package of its CDK app
_PACKAGES = ("core", "job", "local", "operations", "cli")


def why_not() -> str | None:
    """Return why the previous release cannot be had, if so."""
    if shutil.which("git") is None:
        return "git is missing, which has the code of the previous release"
    if _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode:
        return f"this clone has no commit {COMMIT}, the previous release: fetch all of it"
    return None


@dataclass(frozen=True)
class PreviousRelease:
    """Its files."""

    root: Path

    @property
    def variables(self) -> dict[str, str]:
        """Return what lets a Python of today import its code."""
        folders = [self.root / "layers" / name / "python" for name in _PACKAGES]
        return {"PYTHONPATH": os.pathsep.join(map(str, [*folders, self.root]))}

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that runs its code."""
        return {**os.environ, **self.variables}

    def ask(self, code: str) -> str:
        """Return what a program says that imports its code."""
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.root,
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def runtime(self) -> Path:
        """Return the folder of the files that its jobs take along."""
        return Path(self.ask(f"from {APP} import layers; print(layers.runtime_files())"))


def check_out(folder: Path, *, with_layers: bool = True) -> PreviousRelease:
    """Return the previous release with its files in a new folder, ready to be deployed or not."""
    done = _git("archive", COMMIT)
    assert done.returncode == 0, done.stderr
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    release = PreviousRelease(folder)
    if not with_layers:
        return release
    # Whoever deploys it runs this Python, and its packages need not be fetched again.
    (folder / ".venv").symlink_to(Path(sys.prefix))
    ask = "print(layers._home('deps', layers.LOCK.read_bytes(), is_local=True))"
    home = Path(release.ask(f"from {APP} import layers; {ask}"))
    home.parent.mkdir(parents=True, exist_ok=True)
    home.symlink_to(layers.dependencies(is_local=True))
    return release


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    git = shutil.which("git") or "git"
    return subprocess.run([git, "-C", ROOT, *arguments], capture_output=True, check=False)
