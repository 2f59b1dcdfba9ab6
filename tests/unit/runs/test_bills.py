"""Bills that come after the end of their jobs. Pure."""

from typing import Any

import pytest

from lamplighter.executors.base import Job, JobState, Usage
from lamplighter.runs.job_observation import add_late_bill
from lamplighter.runs.view import RunReader, RunView
from lamplighter.store.models import Backfills
from tests.unit.runs.rows import as_read, make_dag, make_run, make_step, make_view, values_of


class OneBackfill(RunReader):
    """Knows one backfill."""

    def __init__(self) -> None:
        self.row = Backfills("orders-1", cost=1.0, unbilled_runs=2)

    def read_backfill(self, backfill_id: str) -> Backfills:
        """Return the backfill."""
        assert backfill_id == self.row.backfill_id
        return self.row


def view_of(*job_ids: str, slot: str | None = None, backfill: str | None = None) -> RunView:
    """Return a run whose step `load` has unbilled jobs."""
    run = make_run(state="success", slot_backfill_id=slot)
    jobs = [{"job_run_id": each, "executor": None, "backfill_id": backfill} for each in job_ids]
    step = as_read(make_step(run, state="success", cost=0.5, unbilled_jobs=jobs or None))
    view = make_view(make_dag(load={}), run, step)
    view.reader = OneBackfill()
    return view


BILLED = Usage(cost=0.25)


def bill(view: RunView, job_run_id: str = "j-1", usage: Usage | None = BILLED) -> None:
    """Let a job be seen with what it was billed for."""
    job = Job(job_run_id, JobState.SUCCESS, "s3://lake/context.json", usage=usage)
    add_late_bill(view, "load", job)


def test_bill_is_added_and_its_job_forgotten() -> None:
    """What comes again finds nothing to add to."""
    view = view_of("j-1")
    bill(view)
    bill(view)
    assert values_of(view.steps["load"], "cost", "unbilled_jobs") == [0.75, None]


@pytest.mark.parametrize("seen", [{"usage": None}, {"job_run_id": "j-9"}])
def test_job_without_a_bill_or_a_step_changes_nothing(seen: dict[str, Any]) -> None:
    """A bill that is still missing stays so; one of another job is not this step's."""
    view = view_of("j-1")
    bill(view, **seen)
    assert not view.steps["load"].is_changed


@pytest.mark.parametrize(
    ("jobs", "slot", "costs"),
    [
        (["j-1"], None, [1.25, 1]),
        (["j-1", "j-2"], None, [1.25, 2]),
        (["j-1"], "orders-1", [1.0, 2]),
    ],
    ids=["the last of a run", "one of two", "of a run that is not over"],
)
def test_late_bill_is_added_to_the_backfill_that_pays_for_it(
    jobs: list[str], slot: str | None, costs: list[float]
) -> None:
    """Unless the run still has its slot: then its end adds the cost."""
    view = view_of(*jobs, slot=slot, backfill="orders-1")
    bill(view)
    assert isinstance(view.reader, OneBackfill)
    assert values_of(view.reader.row, "cost", "unbilled_runs") == costs
