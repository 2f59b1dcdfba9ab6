"""The pytest plugin: fixtures for tests of schedules, there as soon as the package is installed.

    def test_every_hour_has_a_run(lamplighter):
        lamp = lamplighter("my_bundle")
        lamp.advance(hours=3)
        assert len(lamp.runs("hourly")) == 3

Owns: when the deployments of a test end, and what must be true of them then. Refuses: importing the
emulator before a test asks for a deployment, because pytest loads this in every project.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from datetime import datetime

    from lamplighter.executors.base import Executor
    from lamplighter_local.deployment import Bundle, LocalDeployment
    from lamplighter_local.emr.fake_emr import FakeEmr

_has_passed = pytest.StashKey[bool]()


class Deploy(Protocol):
    """Opens a deployment; what it takes is what `LocalDeployment` takes, and `check`."""

    def __call__(
        self,
        bundle: "Bundle | None" = None,
        *,
        at: "datetime | str | None" = None,
        executor: "str | Executor | FakeEmr" = "instant",
        check: bool = True,
        **more: Any,
    ) -> "LocalDeployment":
        """Return a deployment that is open; the one that this test had before is closed.

        Args:
            bundle: The folder of a bundle, or DAG objects.
            at: The time at which its clock starts; by default that of the fixture `frozen`.
            executor: What runs the steps: "instant", "emr", "spark", or any `Executor`.
            check: Whether a test that passed fails if, at its end, rows contradict each other or
                a planned fault never occurred.
            more: The other arguments of `LocalDeployment`.
        """
        ...


@pytest.fixture
def frozen() -> str:
    """Return the time at which the clocks of deployments start; override it for another one."""
    return "2026-01-01T00:00:00Z"


@pytest.fixture
def lamplighter(request: pytest.FixtureRequest, frozen: "datetime | str") -> Iterator[Deploy]:
    """Yield a function that opens a `LocalDeployment`, which is closed when the test is over."""
    try:
        from lamplighter_local.deployment import LocalDeployment  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        pytest.fail(
            f"{missing.name} is not installed: pip install 'lamplighter[local]'", pytrace=False
        )

    opened: list[tuple[LocalDeployment, bool]] = []

    def close(*, has_passed: bool) -> None:
        while opened:
            lamp, is_checked = opened.pop()
            try:
                if has_passed and is_checked and lamp.is_open:
                    _require_sound(lamp)
            finally:
                lamp.close()

    def deploy(
        bundle: "Bundle | None" = None,
        *,
        at: "datetime | str | None" = None,
        executor: "str | Executor | FakeEmr" = "instant",
        check: bool = True,
        **more: Any,
    ) -> LocalDeployment:
        close(has_passed=True)
        start = frozen if at is None else at
        lamp = LocalDeployment(bundle, at=start, executor=executor, **more)
        opened.append((lamp.__enter__(), check))
        return lamp

    yield deploy
    # Of a test that failed, the reason it failed for is what one wants to read.
    close(has_passed=request.node.stash.get(_has_passed, False))


def _require_sound(lamp: "LocalDeployment") -> None:
    if wrong := _what_is_wrong(lamp):
        pytest.fail(wrong, pytrace=False)


def _what_is_wrong(lamp: "LocalDeployment") -> str | None:
    if pending := lamp.faults.pending:
        return f"faults were planned that never struck: {', '.join(pending)}"
    try:
        lamp.check_invariants()
    except AssertionError as error:
        return f"the tables are not sound at the end of the test:\n{error}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether a test has passed, for the end of its fixtures."""
    report = yield
    if call.when == "call":
        item.stash[_has_passed] = report.passed
    return report
