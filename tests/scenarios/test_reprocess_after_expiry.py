"""A backfill runs dates again whose steps are gone."""

from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.store.models import Steps
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.tools.checked_deployment import LocalDeployment

BEGIN = datetime(2026, 1, 1)


def test_reprocessed_run_whose_steps_are_gone_starts_a_new_job() -> None:
    """It is a new run under an old name, and its job is not taken for the one that has run."""
    with DAG("daily", schedule="0 0 * * *", start_date=BEGIN, end_date=BEGIN) as dag:
        SparkTask("a", job="jobs:run")
    emr = FakeEmr()
    with LocalDeployment([dag], at=BEGIN.add(days=1, hours=1), executor=emr) as lamp:
        lamp.advance(minutes=5)
        for step in Steps.scan(consistent_read=True):
            step.delete()

        lamp.backfill("daily", BEGIN, BEGIN.add(days=1), reprocess="completed")
        lamp.advance(hours=1)

        assert [run.state for run in lamp.runs("daily")] == ["success"]
        first, second = emr.jobs
        assert first.token != second.token
        lamp.check_invariants()
