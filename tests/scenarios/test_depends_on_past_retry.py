"""A run that later runs wait for is tried again, on a whole deployment."""

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.runs import retry_run
from tests.tools.checked_deployment import LocalDeployment

DAYS = 4
BEGIN = datetime(2026, 1, 1)
NOW = BEGIN.add(days=DAYS, hours=1)


@pytest.mark.parametrize(
    ("tasks", "depends"), [(("a",), "a"), (("a>b",), "a"), (("a>b",), "b"), (("a>b>c",), "b")]
)
def test_retry_of_the_run_that_all_wait_for_lets_all_complete_in_order(
    tasks: tuple[str, ...], depends: str
) -> None:
    """The runs that wait hold no slot, so the retried run gets one and the others follow it."""
    with DAG("dag", schedule="0 0 * * *", start_date=BEGIN, max_active_runs=2, catchup=True) as dag:
        made: list[SparkTask] = []
        for name in tasks[0].split(">"):
            task = SparkTask(name, job="jobs:run", depends_on_past=name == depends)
            if made:
                made[-1] >> task
            made.append(task)
    emr = FakeEmr()
    emr.fail_next("dag", depends)
    with LocalDeployment([dag], at=NOW, executor=emr) as lamp:
        lamp.advance(hours=2)
        before = lamp.runs("dag")
        assert before[0].state == "failed"
        assert {run.state for run in before[1:]} <= {"queued", "running"}
        assert len(before) >= 2
        lamp.check_invariants()

        retry_run("dag", "2026-01-01T00:00:00+00:00")
        lamp.advance(hours=4)

        after = lamp.runs("dag")
        assert [run.state for run in after] == ["success"] * DAYS
        ended = [run.step(depends).ended_at for run in after]
        assert all(at is not None for at in ended)
        assert ended == sorted(at for at in ended if at is not None)
        lamp.check_invariants()
