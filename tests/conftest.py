"""A bundle on disk, a deployment at noon, limits of tests, and when garbage is collected."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter.bundles import parsing
from lamplighter.bundles.parsing import ask_worker, start_worker
from lamplighter_local.stack import LocalStack, local_stack
from tests import limits
from tests.loop_time import jumping_time
from tests.tools.snapshot import begin_anew

limits.load_profile()

# A test process holds some 600,000 objects that stay to its end. To look through them again and
# again, as Python does by default, takes a quarter of its time.
gc.set_threshold(50_000, 20, 20)

# What tests record as properties, and a session adds up.
_COUNTED = ("crash points", "violations", "hostile inputs")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed of random tests before other processes are started."""
    limits.choose_seed(config)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Tell the seed at once: whoever ends a test that hangs knows how to repeat it."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        seed = session.config.stash[limits.SEED]
        terminal.write_line(f"seed of random tests: --hypothesis-seed={seed}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what tests have counted, in whichever process; the first one reads only this file."""
    totals: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) == "teardown":
                counted = dict(report.user_properties)
                totals.update({name: counted[name] for name in _COUNTED if name in counted})
    if totals:
        told = ", ".join(f"{name}: {totals[name]:,}" for name in _COUNTED if name in totals)
        terminalreporter.write_line(told)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage leave alone what there is before the first test."""
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Give long tests a longer limit."""
    limits.set_limit(item)


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """Let a test that takes too long fail for good."""
    return limits.start_timer(item, settings.timeout)


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool | None:
    """Let it be, once the test is over."""
    return limits.stop_timer()


WriteBundle = Callable[[dict[str, str]], Path]


@pytest.fixture
def write_bundle(tmp_path: Path) -> WriteBundle:
    """Return a function that writes files below a new root and returns that root."""

    def write(files: dict[str, str]) -> Path:
        (tmp_path / "dags").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


@pytest.fixture(scope="module")
def jumping_loops() -> Iterator[None]:
    """Let the time of watchers' event loops pass only when all of them wait."""
    with jumping_time():
        yield


NOON = datetime(2026, 1, 5, 12, 0, 5)


@pytest.fixture(scope="module")
def kept_worker() -> Iterator[None]:
    """Let sandboxes of a module keep one worker, which takes long to start."""
    with ExitStack() as until_the_end:
        worker = start_worker()
        until_the_end.callback(worker.communicate)
        until_the_end.enter_context(
            patch.object(
                parsing,
                "ask_workers",
                lambda requests, **_: (ask_worker(worker, request) for request in requests),
            )
        )
        yield


@pytest.fixture(scope="module")
def noon_deployment(kept_worker: None) -> Iterator[LocalStack]:
    """Yield a deployment for a module; its sandbox keeps its worker."""
    with local_stack(at=NOON) as stack:
        made = replace(stack.settings, due_shards=1)
        stack.settings = made
        yield stack


@pytest.fixture
def stack(noon_deployment: LocalStack) -> LocalStack:
    """Return the deployment as if it were new: nothing in its tables and queues, noon."""
    begin_anew(noon_deployment, at=NOON)
    return noon_deployment
