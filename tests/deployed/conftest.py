"""One deployment on an emulator that executes the functions, for all tests of this folder.

It is deployed by the real command line of the CDK, and reached by the real command line of ours.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pendulum
import pytest

from infra import emulated
from lamplighter import settings
from lamplighter.settings import Settings
from lamplighter_cli.deployment import Target, in_force
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.emr.server import serving_emr

STACK = "lamplighter-dev"
_COMMAND = Path(sys.executable).with_name("lamplighter")
_EXAMPLES = Path(__file__).parents[2] / "examples"
_EVERY_MINUTE = """\
import pendulum
from lamplighter import DAG, SparkTask

with DAG("every_minute", schedule="* * * * *", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
         catchup=False):
    SparkTask("work", job="jobs.fx:load")

with DAG("held", schedule=None, max_active_runs=8):
    SparkTask("first", job="jobs.fx:load") >> SparkTask("second", job="jobs.fx:load")
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have the deployment, and let it be reached."""
    for item in items:
        if isinstance(item, pytest.Function) and "deployed" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("deployed"))
            item.add_marker(pytest.mark.allow_hosts(["127.0.0.1"]))


@dataclass
class Deployed:
    """The deployment."""

    endpoint: str
    emr: FakeEmr
    folder: Path
    flags: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """The settings that the outputs of the stack tell."""
        return settings.current()

    def deploy(self, **changed: str) -> str:
        """Deploy with the flags of before and these; return what the CDK said."""
        self.flags |= changed
        return emulated.deploy(self.endpoint, self.folder, self.flags)

    def command(self, *arguments: str, exits: tuple[int, ...] = (0,)) -> Any:
        """Return what a command of ours prints as JSON."""
        done = subprocess.run(
            [_COMMAND, "--stack", STACK, *arguments, "--json"],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode in exits, done.stderr or done.stdout
        return json.loads(done.stdout)

    def push(self) -> None:
        """Push the example bundle as if it were three hours old, with two DAGs for the test."""
        root = self.folder / "bundle"
        if not root.is_dir():
            shutil.copytree(_EXAMPLES, root, ignore=shutil.ignore_patterns("__pycache__"))
            shop = root / "dags" / "web_shop.py"
            start = pendulum.now("UTC").subtract(hours=3).start_of("hour")
            was = 'START = pendulum.datetime(2026, 1, 1, tz="Europe/Zurich")'
            text = shop.read_text()
            assert was in text
            shop.write_text(text.replace(was, f'START = pendulum.parse("{start.isoformat()}")'))
            (root / "dags" / "every_minute.py").write_text(_EVERY_MINUTE)
        self.command("push", str(root), "--bundle", "shop", "--yes")

    def soon(self, is_so: Callable[[], Any], *, within: float = 300) -> Any:
        """Return what a question answers as soon as that is something."""
        until = time.monotonic() + within
        while True:
            found = is_so()
            if found or time.monotonic() > until:
                assert found, f"not within {within:.0f} seconds: {self._log()}"
                return found
            time.sleep(1)

    def _log(self) -> str:
        return (self.folder / "emulator.log").read_text(errors="replace")[-4000:]


# Not of the session: what leads to the emulator would lead other tests of this process there too.
@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    """Deploy to an emulator, with the project's own EMR Serverless beside it."""
    missing = emulated.why_not()
    if missing is not None:
        pytest.skip(missing)
    emr = FakeEmr()
    with (
        TemporaryDirectory(prefix="lamplighter-deployed-") as name,
        emulated.emulator(Path(name)) as endpoint,
        emulated.leading_to(endpoint),
        serving_emr(emr) as address,
    ):
        made = Deployed(endpoint, emr, Path(name))
        emulated.bootstrap(endpoint, made.folder)
        # Each function that runs at once unpacks the layers for itself.
        made.deploy(emr_endpoint=address, concurrency="2", variables='{"data_root": "s3://lake"}')
        with in_force(Target(stack=STACK)):
            made.push()
            yield made
