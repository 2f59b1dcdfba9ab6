"""The fixtures that a user's tests get: deployments that end, and are looked at when they do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lamplighter import DAG
from lamplighter_local.deployment import LocalDeployment

pytest_plugins = ["pytester"]

DOCS = Path(__file__).parents[3] / "docs" / "testing.md"
EXAMPLES = DOCS.parents[1] / "examples"

HEAD = """
    import pendulum
    import pytest
    from lamplighter import DAG, SparkTask
    from lamplighter.errors import RefusedError
    from lamplighter.store.models import Dags

    with DAG("hourly", schedule="0 * * * *", start_date=pendulum.datetime(2026, 1, 1)) as HOURLY:
        SparkTask("load", entry_point="jobs/load.py")
"""


@pytest.fixture(scope="module", autouse=True)
def _import_all() -> None:
    """Import here, once, what the inner runs use: they forget what they have imported."""
    with LocalDeployment([DAG("any")], at="2026-01-01") as lamp:
        lamp.trigger("any")
        lamp.run_until_idle()


def run(pytester: pytest.Pytester, tests: str = "", conftest: str = "") -> pytest.RunResult:
    """Run a test file of a user's, and what a conftest of theirs says, in this process."""
    if tests:
        pytester.makeconftest(conftest)
        pytester.makepyfile(HEAD + tests)
    # Hypothesis is imported at the end of each run, and then forgotten: two seconds for nothing.
    # Its summary, which repeats every message in full where CI is set.
    quiet = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-rN")
    return pytester.runpytest_inprocess(*quiet)


def test_deployment_of_a_test_starts_at_frozen_and_ends_with_it(pytester: pytest.Pytester) -> None:
    """The next test begins anew, and the one that is over cannot be used any more."""
    result = run(
        pytester,
        """
    KEPT = []

    @pytest.mark.parametrize("number", [1, 2])
    def test_three_hours(lamplighter, number):
        lamp = lamplighter([HOURLY])
        KEPT.append(lamp)
        lamp.advance(hours=3)
        assert [run.run_id[-14:] for run in lamp.runs("hourly")] == [
            "00:00:00+00:00", "01:00:00+00:00", "02:00:00+00:00",
        ]

    def test_old_ones_are_closed():
        for lamp in KEPT:
            with pytest.raises(RefusedError, match="not open"):
                lamp.dag("hourly")
    """,
    )
    result.assert_outcomes(passed=3)


def test_frozen_is_overridden_by_conftest_parametrize_and_argument(
    pytester: pytest.Pytester,
) -> None:
    """The start is the project's, unless a test or a call says otherwise."""
    result = run(
        pytester,
        """
    def test_of_the_project(lamplighter, frozen):
        assert lamplighter().now == pendulum.parse(frozen) == pendulum.datetime(2030, 1, 1)

    @pytest.mark.parametrize("frozen", ["2031-01-01T00:00:00Z"])
    def test_of_the_test(lamplighter, frozen):
        assert lamplighter().now == pendulum.datetime(2031, 1, 1)

    def test_of_the_call(lamplighter):
        assert lamplighter(at="2032-01-01").now == pendulum.datetime(2032, 1, 1)
    """,
        conftest="""
    import pytest

    @pytest.fixture
    def frozen():
        return "2030-01-01T00:00:00Z"
    """,
    )
    result.assert_outcomes(passed=3)


def test_passed_test_fails_after_all_if_its_end_is_not_sound(pytester: pytest.Pytester) -> None:
    """Damaged rows and faults that never struck are errors, unless the test has said so."""
    result = run(
        pytester,
        """
    def damage():
        row = Dags.get("hourly")
        row.update([Dags.active.add({"a-run-that-never-was"})])

    def test_damaged(lamplighter):
        lamplighter([HOURLY])
        damage()

    def test_damaged_on_purpose(lamplighter):
        lamplighter([HOURLY], check=False)
        damage()

    def test_damaged_before_a_second_one(lamplighter):
        lamplighter([HOURLY])
        damage()
        lamplighter([HOURLY])

    def test_fault_that_waits(lamplighter):
        lamplighter([HOURLY]).faults.at(1, "crash-after", "TransactWriteItems")

    def test_failed_anyway(lamplighter):
        lamplighter([HOURLY])
        damage()
        assert "the only" == "reason"
    """,
    )
    # An error is a test that passed and whose end did not.
    result.assert_outcomes(passed=3, errors=2, failed=2)
    text = result.stdout.str()
    assert text.count("the tables are not sound at the end of the test:\nDAG hourly: slots") == 2
    assert text.count("faults were planned that never struck: 1 crash-after") == 1


def test_second_deployment_of_a_test_closes_the_first(pytester: pytest.Pytester) -> None:
    """Both are not open at once, and the old one says so."""
    result = run(
        pytester,
        """
    def test_two(lamplighter):
        first = lamplighter([HOURLY])
        second = lamplighter([HOURLY])
        second.advance(hours=1)
        assert len(second.runs("hourly")) == 1
        with pytest.raises(RefusedError, match="not open"):
            first.runs("hourly")
        with pytest.raises(RefusedError, match="already open"):
            second.__enter__()
    """,
    )
    result.assert_outcomes(passed=1)


def test_examples_of_the_docs_pass(pytester: pytest.Pytester) -> None:
    """What a reader copies works as it stands."""
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    pytester.makepyfile("\n".join(blocks[:3]))
    (pytester.path / "examples").symlink_to(EXAMPLES)
    run(pytester).assert_outcomes(passed=3)


def test_plugin_does_not_import_the_emulator() -> None:
    """Every project's pytest loads the plugin, most of them for nothing."""
    program = (
        "import sys, lamplighter_local.pytest_plugin as _;"
        "print(*{'moto', 'boto3', 'pendulum', 'pyspark'} & set(sys.modules))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert told.stdout == "\n"
