"""The quotas of EMR Serverless: how soon steps start that are due together, and that all finish.

The fake has AWS's documented rates: one StartJobRun a second with a burst of 25. Nothing is ever
throttled, no job is looked up by name, and the last step starts within 5 % and 15 seconds of what
the quota allows.
"""

from collections import Counter
from collections.abc import Iterator

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG, SparkTask
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.behaviour import EmrBehaviour
from lamplighter_local.emr.fake_emr import FakeEmr

START = pendulum.datetime(2026, 1, 1)
DUE = START.add(hours=1)
# What the quota allows.
RATE, BURST = 1, 25
PACED = {"job_starts_per_second": 1, "job_start_burst": 20}
ROOMY = EmrBehaviour(account_vcpus=None, max_concurrent_runs=1_000)


def hourly(number: int) -> Iterator[DAG]:
    """Yield DAGs of one step that are due together."""
    for each in range(number):
        with DAG(f"dag{each:04}", schedule="0 * * * *", start_date=START) as dag:
            SparkTask("step", job="jobs.any:run")
        yield dag


def latest_start(number: int) -> float:
    """Return the seconds within which the last of so many steps must start."""
    return 1.05 * max(0, number - BURST) / RATE + 15


def judge(lamp: LocalDeployment, emr: FakeEmr, runs: int) -> None:
    """Check what must be true whatever the quotas are."""
    assert Counter(job.state for job in emr.jobs) == {"SUCCESS": runs}
    assert (emr.throttles, emr.calls["ListJobRuns"]) == (Counter(), 0)
    assert emr.doubles() == []
    assert lamp.dead_letters() == []
    tries = {
        step.try_number
        for dag in lamp.dags()
        for run in lamp.runs(dag.dag_id)
        for step in run.steps
    }
    assert tries == {1}
    lamp.check_invariants()


def start_delays(emr: FakeEmr, due: DateTime) -> list[float]:
    """Return how many seconds after an instant jobs were started in the hour that follows."""
    until = due.add(hours=1)
    return sorted(
        (job.created_at - due).total_seconds() for job in emr.jobs if due <= job.created_at < until
    )


@pytest.mark.parametrize(
    "number", [100, *(pytest.param(each, marks=pytest.mark.full) for each in (200, 1_000))]
)
def test_steps_due_together_start_as_fast_as_the_quota_allows(number: int) -> None:
    """The last of them starts when the quota lets it, to within a few seconds."""
    emr = FakeEmr(takes_seconds=60, behaviour=ROOMY)
    with LocalDeployment(
        hourly(number), at=START.add(minutes=59), executor=emr, settings=PACED
    ) as lamp:
        lamp.advance(minutes=40)
        judge(lamp, emr, runs=number)
        delays = start_delays(emr, DUE)
    assert len(delays) == number
    assert delays[-1] <= latest_start(number)


SIZES: tuple[dict[str, object], ...] = (
    {},
    {"driver_cores": 1, "executor_cores": 1, "max_executors": 1},
    {"driver_cores": 4, "executor_cores": 4, "max_executors": 8},
    {"driver_cores": 8, "executor_cores": 8, "max_executors": 2},
)


@pytest.mark.parametrize("number", [16, pytest.param(100, marks=pytest.mark.full)])
def test_jobs_of_all_sizes_share_sixteen_vcpus_without_a_deadlock(number: int) -> None:
    """In a new account every job finishes: none is rejected, starved or tried twice."""
    dags = [dag for each in range(number) for dag in named_dags(f"dag{each:04}", **SIZES[each % 4])]
    with LocalDeployment(dags, at=START.add(minutes=59), executor="emr") as lamp:
        lamp.advance(minutes=59 if number < 50 else 59 * 8)
        emr = lamp.executor
        assert isinstance(emr, FakeEmr)
        judge(lamp, emr, runs=number)


def named_dags(dag_id: str, **options: object) -> Iterator[DAG]:
    """Yield a DAG of one step that is due once."""
    end = START.add(minutes=30)
    with DAG(dag_id, schedule="0 * * * *", start_date=START, end_date=end) as dag:
        SparkTask("step", job="jobs.any:run", **options)  # type: ignore[arg-type] # as given
    yield dag


@pytest.mark.full
def test_day_of_four_hundred_hourly_dags_catches_up_every_hour() -> None:
    """Every hour's steps start before the quota would let them start later."""
    emr = FakeEmr(takes_seconds=60, behaviour=ROOMY)
    with LocalDeployment(
        hourly(400), at=START.add(minutes=59), executor=emr, settings=PACED
    ) as lamp:
        lamp.advance(hours=24)  # until just before the twenty-fifth hour's runs are due
        judge(lamp, emr, runs=400 * 24)
        for hour in range(1, 25):
            delays = start_delays(emr, START.add(hours=hour))
            assert len(delays) == 400
            assert delays[-1] <= latest_start(400)
