"""What a step left for later ones, where its executor keeps the reports of its jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from lamplighter import runtime
from lamplighter.executors.base import Job, JobState
from lamplighter.executors.emr import EmrServerless
from lamplighter.runs.outputs import outputs_of
from tests.unit.runs.rows import make_run, make_step

pytestmark = pytest.mark.usefixtures("in_name_only")


class Keeping(EmrServerless):
    """Keeps the reports of jobs, so that nothing else is asked for them."""

    name = "keeping"
    keeps_reports = True

    def __init__(self, reports: dict[str, Mapping[str, Any]]) -> None:
        self.reports = reports
        self.described: list[str] = []

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job that has succeeded, if it is known."""
        self.described.append(job_run_id)
        if job_run_id not in self.reports:
            return None
        return Job(job_run_id, JobState.SUCCESS, "", report=self.reports[job_run_id])


@pytest.fixture
def executor() -> Iterator[Keeping]:
    """Yield the current executor, which keeps reports."""
    found = Keeping({"j-1": {"state": "success", "outputs": {"rows": 3}}})
    before, runtime.current().executor = runtime.current().executor, found
    yield found
    runtime.current().executor = before


def left(**columns: Any) -> Mapping[str, Any]:
    """Return the outputs of a step that has succeeded, or as the columns say."""
    run = make_run()
    given = {"state": "success", "job_run_id": "j-1", "executor": "keeping", **columns}
    return outputs_of(run, make_step(run, **given))


def test_report_that_the_executor_keeps_is_believed_without_a_secret(executor: Keeping) -> None:
    """Nobody but the executor could have written it."""
    assert left() == left(report_secret=None) == {"rows": 3}
    assert executor.described == ["j-1", "j-1"]


@pytest.mark.usefixtures("executor")
def test_job_that_its_executor_has_forgotten_left_nothing() -> None:
    """What is gone is as good as never left."""
    assert left(job_run_id="j-2") == {}


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "failed"},
        {"state": "skipped"},
        {"state": "running"},
        {"state": "none"},
        {"state": "upstream_failed"},
        {"marked": {"to": "success", "by": "ada"}},
        {"job_run_id": None},
    ],
    ids=str,
)
def test_step_whose_job_has_not_succeeded_left_nothing(
    executor: Keeping, columns: dict[str, Any]
) -> None:
    """Of such a step nothing is even looked for."""
    assert left(**columns) == {}
    assert executor.described == []


@pytest.mark.parametrize(
    "outputs", [5, "x", [1], {"x": "a" * 32_000}, {"x": float("nan")}, {"x": "\ud800"}]
)
def test_outputs_that_cannot_be_used_are_none(executor: Keeping, outputs: Any) -> None:
    """What an executor tells is checked like what a job writes."""
    executor.reports["j-1"] = {"outputs": outputs}
    assert left() == {}
