"""One warm Spark for all tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lamplighter_local.spark.java import NO_JAVA, find_java_home
from tests.spark.processes import members, require_end
from tests.spark.steps import Jobs, jobs_in


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let all tests here share one process, and so one Spark."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def java() -> Path:
    """Return the home of a Java; skip the test on a machine that has none."""
    home = find_java_home()
    if home is None:
        pytest.skip(NO_JAVA)
    return home


@pytest.fixture(scope="session")
def warm_jobs(java: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Yield the jobs of one executor, whose Spark starts once unless a job takes it along."""
    with jobs_in(tmp_path_factory.mktemp("spark")) as jobs:
        yield jobs
        last = jobs.executor._process
    # Each worker has a group of its own, and the JVM is in it.
    if last is not None:
        require_end(members(last._process.pid))


@pytest.fixture
def jobs(warm_jobs: Jobs) -> Jobs:
    """Return the jobs, without what earlier tests have left to be told."""
    warm_jobs.changes.clear()
    # The same runs at the same instants, of another deployment, would be given the jobs of then.
    warm_jobs.executor._tokens.clear()
    return warm_jobs
