"""Late bills under a fault at every single call: each is added once, to step, run and backfill.

As in `test_runs`, whose machinery tells these stories.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lamplighter import queues
from lamplighter.executors import current
from lamplighter.store.backfills import read_backfill
from lamplighter_local.emr.behaviour import INSTANT
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.faults.reports import Report
from tests.faults.test_backfills import DAILY, SUCCESS, ask_for_backfill
from tests.faults.test_runs import (
    SOME,
    Act,
    Overtaking,
    Scenario,
    Story,
    all_of,
    all_points,
    make_story,
    overtake,
    pass_time,
    settle,
    some_points,
    strike,
    sweep,
    wait_for_long,
)

BILLING_MINUTES = 10


# Fixtures of the module that tells such stories.
__all__ = ["make_story"]


def bill_late(story: Story) -> None:
    """Let jobs be billed some minutes after their end."""
    late = replace(INSTANT, billing_delay_seconds=60 * BILLING_MINUTES)
    story.emr.put_back(FakeEmr(behaviour=late).copy_state())


def run_unbilled(story: Story) -> None:
    """Let all runs of the backfill be over before any of their bills comes."""
    story.stack.advance(seconds=30)
    assert [run.unbilled_jobs for run in story.stack.runs("dag")] == [1, 1, 1]


def wrong_costs(story: Story) -> Iterator[str]:
    """Yield every difference between what was billed and what rows tell."""
    total = 0.0
    for run in story.stack.runs("dag"):
        jobs = [job for job in story.emr.jobs if (job.dag, job.run_key) == ("dag", run.run_key)]
        billed = sum(_bill_of(job.job_run_id) for job in jobs)
        total += billed
        if run.unbilled_jobs or run.wake_at is not None or run.cost != pytest.approx(billed):
            yield f"run {run.run_key} costs {run.cost} instead of {billed}"
    backfill = read_backfill("dag-1")
    if backfill is None or backfill.unbilled_runs or backfill.cost != pytest.approx(total):
        yield f"the backfill costs {backfill and backfill.cost} instead of {total}"


def _bill_of(job_run_id: str) -> float:
    job = current().describe(job_run_id)
    return job.usage.cost if job is not None and job.usage is not None else 0.0


def bills_of_a_backfill(*arrange: Act, minutes: float) -> Scenario:
    """Return the story of a backfill that is over, and whose bills come within some minutes."""
    return Scenario(
        dags=(DAILY,),
        arrange=all_of(bill_late, ask_for_backfill(), *arrange),
        act=pass_time(minutes=minutes),
        runs=[SUCCESS] * 3,
        events={"a": 3},
        jobs=["dag/t#1 SUCCESS"] * 3,
        check=wrong_costs,
    )


def lose_bill_events(story: Story) -> None:
    """Let the events about bills be lost that are on their way."""
    story.emr._events.take(story.stack.clock.now().add(hours=1))


def repeat_bill_events(story: Story) -> None:
    """Send what was sent about jobs once more."""
    for job in story.emr.jobs:
        queues.send_job(job.job_run_id, executor="emr-serverless")


SCENARIOS = {
    "bills by events": bills_of_a_backfill(run_unbilled, minutes=BILLING_MINUTES + 1),
    "bills by sweeps": bills_of_a_backfill(
        run_unbilled, lose_bill_events, minutes=2 * BILLING_MINUTES + 5
    ),
    "jobs and bills": bills_of_a_backfill(minutes=BILLING_MINUTES + 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_loses_and_doubles_no_bill(
    name: str, story: Story, report: Report
) -> None:
    """Whichever call fails, everything costs what was billed."""
    report(name, *strike(SCENARIOS[name], story, some_points))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_loses_and_doubles_no_bill(
    name: str, story: Story, report: Report
) -> None:
    """As above, at every call."""
    report(name, *strike(SCENARIOS[name], story, all_points))


OVERTAKEN = Overtaking(
    dags=(DAILY,),
    arrange=all_of(bill_late, ask_for_backfill(), run_unbilled, wait_for_long, wait_for_long),
    first=settle,
    meanwhile=all_of(repeat_bill_events, sweep),
    runs=frozenset({"dag success t=success"}),
    check=wrong_costs,
)


@pytest.mark.slow
def test_bill_that_is_heard_of_twice_at_once_is_added_once(story: Story, report: Report) -> None:
    """The sweep and a repeated event come before some call of the function that adds a bill."""
    report("bills, overtaken", *overtake(OVERTAKEN, story, SOME))


@pytest.mark.full
def test_bill_that_is_heard_of_at_every_call_is_added_once(story: Story, report: Report) -> None:
    """As above, before every single call."""
    report("bills, overtaken", *overtake(OVERTAKEN, story, limit=1_000))
