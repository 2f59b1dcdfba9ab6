"""When a finished run looks for the bills of its jobs, and when it gives them up. Pure."""

import pytest
from pendulum import datetime

from lamplighter import runtime
from lamplighter.settings import Settings
from lamplighter.store.runs import set_bill_wake, set_state_columns
from tests.unit.runs.rows import make_run, values_of

ENDED = datetime(2026, 1, 5, 12)


@pytest.mark.parametrize(
    ("waited", "then"),
    [(0, 60), (30, 60), (60, 60), (120, 120), (600, 600), (1_800, 1_800), (80_000, 1_800)],
)
def test_finished_run_looks_for_bills_less_and_less_often(waited: float, then: float) -> None:
    """It looks after a minute, then after as long as it has waited, at most half an hour."""
    run, now = make_run(state="success", ended_at=ENDED, unbilled_jobs=1), ENDED.add(seconds=waited)
    with runtime.using(settings=Settings()):
        set_bill_wake(run, now)
    assert run.wake_at == now.add(seconds=then)


def test_finished_run_gives_bills_up_in_the_end() -> None:
    """After `cost_wait_hours` nobody looks any more."""
    run = make_run(state="success", ended_at=ENDED, unbilled_jobs=1, wake_at=ENDED, wake_shard=0)
    with runtime.using(settings=Settings(cost_wait_hours=2)):
        set_bill_wake(run, ENDED.add(hours=2))
    assert values_of(run, "wake_at", "wake_shard") == [None, None]


def test_run_that_is_billed_is_woken_by_nobody_once_it_is_over() -> None:
    """Only a missing bill keeps a finished run in the index of wake times."""
    run = make_run(state="failed", wake_at=ENDED, wake_shard=0)
    with runtime.using(settings=Settings()):
        set_state_columns(run, ENDED)
    assert values_of(run, "wake_at", "wake_shard") == [None, None]
