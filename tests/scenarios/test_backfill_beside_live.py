"""Five hundred runs of the past beside hourly DAGs: the present does not notice, the past moves on.

Time is that of the deployment's clock, so that the same history comes out every time.
"""

from datetime import timedelta
from typing import NamedTuple

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset, SparkTask
from tests.tools.checked_deployment import LocalDeployment

NOON = datetime(2026, 1, 5, 12, 0, 5)
HOURS = 10
RUNS = 500
AT_ONCE = 10
STRIDE = timedelta(minutes=5)
ORDERS = Asset("orders")


class Live(NamedTuple):
    """A run of the present: when it was due, when it was created, when its first job began."""

    dag_id: str
    due: DateTime
    created: DateTime
    began: DateTime | None


def bundle() -> list[DAG]:
    """Return hourly DAGs: some free, one always at its limit, one with a debt of days."""
    dags = [_hourly(f"hourly_{number}") for number in range(4)]
    dags.append(_hourly("busy", max_active_runs=1))
    dags.append(_hourly("late", max_active_runs=1, start_date=NOON.subtract(days=3)))
    consumer = DAG("consumer", schedule=[ORDERS])
    SparkTask("t", job="jobs:run", dag=consumer)
    return [*dags, consumer]


def _hourly(dag_id: str, **arguments: object) -> DAG:
    given: dict[str, object] = {"start_date": NOON.start_of("hour")} | arguments
    dag = DAG(dag_id, schedule="0 * * * *", **given)  # type: ignore[arg-type] # as DAG takes them
    SparkTask("t", job="jobs:run", dag=dag, outlets=[ORDERS] if dag_id == "hourly_0" else [])
    return dag


class Beside:
    """Hours of a deployment, with a backfill of one of its DAGs or without."""

    def __init__(self, dag_id: str | None) -> None:
        self.positions: list[int] = []
        self.most_active = 0
        with LocalDeployment(bundle(), at=NOON) as lamp:
            for dag in lamp.dags():
                lamp.takes(dag.dag_id, "t", minutes=59 if dag.dag_id == "busy" else 8)
            if dag_id is not None:
                end = NOON.start_of("hour").subtract(days=3)
                lamp.backfill(dag_id, end.subtract(hours=RUNS), end, max_active_runs=AT_ONCE)
            while lamp.now < NOON.add(hours=HOURS):
                lamp.advance(to=lamp.now + STRIDE)
                if dag_id is not None:
                    self._look(lamp, dag_id)
            lamp.check_invariants()
            self.live = sorted(
                Live(
                    dag.dag_id,
                    run.run_after,
                    run.created_at,
                    min((step.started_at for step in run.steps if step.started_at), default=None),
                )
                for dag in lamp.dags()
                for run in lamp.runs(dag.dag_id)
                if run.run_type == "scheduled"
            )
            self.found = lamp.backfills(dag_id)[0] if dag_id is not None else None

    def _look(self, lamp: LocalDeployment, dag_id: str) -> None:
        row = lamp.backfills(dag_id)[0]
        self.positions.append(row.position)
        self.most_active = max(self.most_active, len(row.active))

    @property
    def longest_stand(self) -> timedelta:
        """The longest time in which it created no run, though some were left."""
        longest = standing = 0
        for before, after in zip([0, *self.positions], self.positions, strict=False):
            standing = 0 if after > before or before == RUNS else standing + 1
            longest = max(longest, standing)
        return longest * STRIDE


@pytest.fixture(name="alone", scope="module")
def make_alone() -> Beside:
    """Return the hours without a backfill."""
    return Beside(None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dag_id",
    [
        pytest.param("hourly_1", marks=pytest.mark.full),
        pytest.param("busy", marks=pytest.mark.full),
        "late",
    ],
)
def test_long_backfill_leaves_live_runs_as_they_are_and_always_moves(
    dag_id: str, alone: Beside
) -> None:
    """Every live run is created and begins in the same second as without the backfill.

    The backfill stands for no longer than one of its runs takes, also of a DAG that is at its
    limit all the time, or behind by days.
    """
    beside = Beside(dag_id)

    assert beside.live == alone.live
    assert beside.found is not None
    assert (beside.most_active, beside.found.passed) == (AT_ONCE, 0)
    takes = timedelta(minutes=60 if dag_id == "busy" else 10)
    assert beside.longest_stand <= takes
    done = HOURS * timedelta(hours=1) // takes * AT_ONCE
    assert beside.found.succeeded >= min(RUNS, done) - AT_ONCE
