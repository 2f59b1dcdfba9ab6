"""An environment outside the repository, as of somebody who has only the wheel.

Owns: what a shell has there, and what was typed. Nothing of this checkout is in it but the wheel
that was built from it, and beside that what pip would have installed.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lamplighter_infra import layers
from requirements import dist
from tests.tools import emulated
from tests.tools.installed import Installation

_REQUIREMENT = "lamplighter[local,infra]"
_LEADS_HERE = (
    "AWS_",
    "LAMPLIGHTER_",
    "PYTHON",
    "PYTEST",
    "COV_",
    "COVERAGE",
    "VIRTUAL_ENV",
    "XDG_",
)
_COMMAND_SECONDS = 900
_SOON_SECONDS = 480
_END_SECONDS = 60


@dataclass
class OwnEnvironment:
    """A home folder with a virtual environment; what is typed in it is counted."""

    home: Path
    more: dict[str, str] = field(default_factory=dict)
    typed: list[tuple[float, str]] = field(default_factory=list)
    folder: Path = Path()
    _began: float = field(default_factory=time.monotonic)

    @property
    def python(self) -> Path:
        """The Python of the environment."""
        return self.home / "venv" / "bin" / "python"

    def variables(self) -> dict[str, str]:
        """Return what a shell of this person has set."""
        node = Path(emulated.node() or "node").parent
        own = {name: text for name, text in os.environ.items() if not name.startswith(_LEADS_HERE)}
        folders = [self.python.parent, emulated.CDK_FOLDER, node, own["PATH"]]
        return {
            **own,
            "PATH": os.pathsep.join(map(str, folders)),
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "LAMPLIGHTER_STATE_DIR": str(self.home / "state"),
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_COLOR": "1",
            **self.more,
        }

    def type(self, line: str, *, exits: int = 0) -> str:
        """Return what a command prints that a person types; count it."""
        self.typed.append((time.monotonic() - self._began, line))
        return self.run(line, exits=exits)

    def run(self, line: str, *, exits: int = 0) -> str:
        """Return what a command prints, that only the test needs."""
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.home / self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )
        said = f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == exits, said
        return done.stdout

    def asked(self, line: str) -> Any:
        """Return what a command prints as JSON."""
        return json.loads(self.run(f"{line} --json"))

    @contextmanager
    def typing(self, line: str) -> Iterator[subprocess.Popen[bytes]]:
        """Let a command run in a second terminal until the block ends."""
        self.typed.append((time.monotonic() - self._began, line))
        with (self.home / "terminal.log").open("wb") as log:
            process = subprocess.Popen(
                # The shell becomes the command, which then gets the signal.
                ["/bin/sh", "-c", f"exec {line}"],
                cwd=self.home / self.folder,
                env=self.variables(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_SECONDS)
            finally:
                process.kill()

    def soon(
        self, line: str, is_so: Callable[[Any], bool], meanwhile: Callable[[], object] = bool
    ) -> Any:
        """Return what a command says as soon as that is so; it may fail until then."""
        until = time.monotonic() + _SOON_SECONDS
        while True:
            meanwhile()
            try:
                found = self.asked(line)
            except AssertionError:
                if time.monotonic() > until:
                    raise
                found = None
            if found is not None and is_so(found):
                return found
            assert time.monotonic() < until, f"{line}: {found}"
            time.sleep(2)

    def minutes(self) -> float:
        """Return how long it has been going on."""
        return (time.monotonic() - self._began) / 60


def make_environment(home: Path, more: Mapping[str, str]) -> OwnEnvironment:
    """Install the wheel of this checkout with its extras, where nothing else of ours is."""
    made = OwnEnvironment(home, dict(more))
    _, wheel = dist.build(home / "dist")
    made.typed += [(0.0, "python -m venv venv"), (0.0, f"pip install '{_REQUIREMENT}'")]
    installed = Installation(home / "venv", wheel, requirements=[_REQUIREMENT])
    # It is only linked there, without the commands that it brings.
    command = installed.bin / "pytest"
    command.write_text(f"#!{made.python}\nimport pytest\npytest.console_main()\n")
    command.chmod(0o755)
    _keep_built_layers(home)
    return made


def _keep_built_layers(home: Path) -> None:
    """Keep what would be fetched: the packages of the layer, which are named by their lock."""
    folder = home / "cache" / "lamplighter" / "layers"
    folder.mkdir(parents=True)
    built = layers.dependencies(is_local=True)
    (folder / built.name).symlink_to(built)
