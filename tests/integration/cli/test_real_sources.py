"""Which commands poll real sources: `dev` always, `simulate` and `test` if that is asked for."""

import os
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter_cli.app import main
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.dev import session as dev
from lamplighter_local.dev.session import dev_session
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.simulation import simulate as simulation
from tests.tools.page import Page, serving_page

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

EXAMPLE = Path(__file__).parents[3] / "examples" / "watchers" / "triggers" / "http_poll.py"
DAGS = """
from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from triggers.http_poll import HttpPollTrigger

rates = Asset("rates", watchers=[AssetWatcher("page", HttpPollTrigger("{url}"))])
with DAG("load_rates", schedule=rates):
    SparkTask("load", entry_point="jobs/load.py")
"""
START = datetime(2026, 1, 5, 12)


@pytest.fixture
def page() -> Iterator[Page]:
    """Yield a page that can be requested."""
    with serving_page() as page:
        yield page


@pytest.fixture
def bundle(page: Page, write_bundle: Callable[[dict[str, str]], Path]) -> Path:
    """Return a bundle that watches the page."""
    trigger = EXAMPLE.read_text(encoding="utf-8").replace('{"example.com"}', '{"127.0.0.1"}')
    dags = DAGS.replace("{url}", page.url)
    files = {"dags/a.py": dags, "triggers/http_poll.py": trigger, "jobs/load.py": ""}
    return write_bundle(files)


class Hurried(LocalDeployment):
    """Has one minute in each hour in which anything happens."""

    def advance(self, *, to: Any = None, **_: Any) -> None:
        super().advance(minutes=1)
        super().advance(to=to, deliver=False)


def lamplighter(*arguments: object) -> int:
    """Run the command; return its exit code."""
    with patch.object(sys, "argv", ["lamplighter", *map(str, arguments)]):
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0


def test_simulated_day_requests_no_page(bundle: Path, page: Page) -> None:
    """Nothing real is asked, and so nothing happens."""
    assert lamplighter("simulate", bundle, "--days", 1, "--at", START.isoformat()) == 0
    assert page.requests == 0


def test_simulation_with_real_sources_polls_and_warns_in_one_line(
    bundle: Path, page: Page, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page that fails all day is reported once, by name, without a traceback."""
    page.status = 503
    options = ("--days", 1, "--at", START.isoformat(), "--poll-real-sources")
    with patch.object(simulation, "LocalDeployment", Hurried):
        assert lamplighter("simulate", bundle, *options) == 0
    assert page.requests == 24
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: source could not be polled (asset rates, watcher page, ")
    assert line.endswith(f": {page.url} answers 503 Service Unavailable")


@pytest.mark.parametrize(("options", "requests"), [((), 0), (("--poll-real-sources",), 60)])
def test_tried_run_polls_only_if_asked(
    bundle: Path, page: Page, options: tuple[str, ...], requests: int
) -> None:
    """Time that passes in `test` is simulated as well."""
    at = START.isoformat()
    assert lamplighter("test", "load_rates", "--dags", bundle, "--at", at, *options) == 0
    assert page.requests == requests


def test_dev_polls_real_sources(bundle: Path, page: Page) -> None:
    """Its time is real, and so are its sources; what it says about them it says once."""
    page.status = 503
    clock = MovableClock(START)
    with (
        patch.dict(os.environ, LAMPLIGHTER_STATE_DIR=str(bundle / "state")),
        patch.object(dev, "_real_time", clock),
        dev_session(bundle, is_instant=True) as session,
    ):
        told = []
        for _ in range(3):
            clock.advance(timedelta(minutes=1))
            told += session.step()
    assert page.requests == 3
    errors = [activity.detail for activity in told if activity.state == "error"]
    assert len(errors) == 1
    assert errors[0].endswith(f"{page.url} answers 503 Service Unavailable")
