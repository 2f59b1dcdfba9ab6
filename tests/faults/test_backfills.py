"""Backfills under a fault at every single call: the runs are those that were planned, each once.

As in `test_runs`, whose machinery tells these stories: a fault at a call, then what the platform
always does, and then the invariants, of which one is that a backfill's runs are its plan.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from lamplighter.backfill.advance import advance_backfills
from lamplighter.backfill.plan import Request
from lamplighter.errors import RefusedError
from lamplighter_local.emr.fake_emr import Outcome
from lamplighter_operations.backfills import (
    cancel_backfill,
    create_backfill,
    pause_backfill,
    resume_backfill,
)
from lamplighter_operations.trigger import create_manual_run
from tests.faults.reports import Report, each
from tests.faults.test_runs import (
    HANGS,
    MIDNIGHT,
    SOME,
    A,
    Act,
    Overtaking,
    Scenario,
    Story,
    all_of,
    all_points,
    beginning,
    dag,
    make_story,
    overtake,
    pass_time,
    plan_jobs,
    some_points,
    sound,
    strike,
)

# Fixtures of the module that tells such stories.
__all__ = ["make_story"]

DAILY = dag("dag", "t", outlets=[A], schedule="0 0 * * *", start_date=MIDNIGHT)
START = MIDNIGHT.subtract(days=3)


def ask_for_backfill(**asked: Any) -> Act:
    """Return an act that asks for three days, two at a time; who has them already is told so."""

    def do(_: Story) -> None:
        with suppress(RefusedError):
            request: dict[str, Any] = {
                "start": START,
                "end": MIDNIGHT,
                "max_active_runs": 2,
            } | asked
            create_backfill(Request("dag", **request))

    return do


def steer(request: Callable[..., object], **how: Any) -> Act:
    """Return an act that asks something of the backfill."""

    def do(_: Story) -> None:
        with suppress(RefusedError):
            request("dag-1", **how)

    return do


def trigger(day: int) -> Act:
    """Return an act that asks for a run of one of the days."""

    def do(_: Story) -> None:
        with suppress(RefusedError):
            create_manual_run("dag", logical_date=START.add(days=day))

    return do


def deliver(story: Story) -> None:
    """Deliver what can be delivered now."""
    story.stack.run_until_idle()


SUCCESS = "dag success t=success/1"
SCENARIOS = {
    "a backfill": Scenario(
        dags=(DAILY,),
        ask=ask_for_backfill(),
        act=pass_time(seconds=10),
        runs=[SUCCESS] * 3,
        events={"a": 3},
        jobs=["dag/t#1 SUCCESS"] * 3,
    ),
    "a backfill of what failed": Scenario(
        dags=(DAILY,),
        arrange=all_of(plan_jobs("t", Outcome.failed("no")), trigger(1), pass_time(seconds=5)),
        ask=ask_for_backfill(reprocess="failed"),
        act=pass_time(seconds=10),
        runs=[SUCCESS] * 3,
        events={"a": 3},
        jobs=["dag/t#1 FAILED", *["dag/t#1 SUCCESS"] * 3],
    ),
    "a backfill that goes on": Scenario(
        dags=(DAILY,),
        arrange=all_of(ask_for_backfill(), steer(pause_backfill)),
        ask=steer(resume_backfill),
        act=pass_time(seconds=10),
        runs=[SUCCESS] * 3,
        events={"a": 3},
        jobs=["dag/t#1 SUCCESS"] * 3,
    ),
    "a backfill that is cancelled with its jobs": Scenario(
        dags=(DAILY,),
        arrange=all_of(plan_jobs("t", HANGS, HANGS), ask_for_backfill(), pass_time(seconds=5)),
        ask=steer(cancel_backfill, cancels_running_runs=True),
        act=pass_time(seconds=10),
        runs=["dag cancelled t=failed/1"] * 2,
        events={},
        jobs=["dag/t#1 CANCELLED"] * 2,
    ),
}
BEGUN = all_of(ask_for_backfill())
OVERTAKINGS = {
    "backfill by itself": Overtaking(
        dags=(DAILY,),
        arrange=BEGUN,
        first=deliver,
        meanwhile=lambda _: advance_backfills(["dag-1"]),
        runs=frozenset({"dag success t=success"}),
    ),
    "backfill by someone who wants one of its days": Overtaking(
        dags=(DAILY,),
        arrange=BEGUN,
        first=deliver,
        meanwhile=all_of(trigger(0), trigger(1), trigger(2)),
        runs=frozenset({"dag success t=success"}),
    ),
    "backfill by cancel": Overtaking(
        dags=(DAILY,),
        arrange=BEGUN,
        first=deliver,
        meanwhile=steer(cancel_backfill, cancels_running_runs=True),
        runs=frozenset(
            {"dag success t=success", "dag cancelled", "dag cancelled t=failed"}
            | {"dag cancelled t=success"}
        ),
    ),
    "request by request": Overtaking(
        dags=(DAILY,),
        arrange=lambda _: None,
        first=ask_for_backfill(),
        meanwhile=ask_for_backfill(max_active_runs=1),
        runs=frozenset({"dag success t=success"}),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_leaves_the_planned_runs(
    name: str, story: Story, report: Report
) -> None:
    """Whichever call fails, each planned date has its run, and each run its job, once."""
    report(name, *strike(SCENARIOS[name], story, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_overtaken_backfill_leaves_the_planned_runs(
    name: str, story: Story, report: Report
) -> None:
    """Whatever someone else does in the middle, no date has two runs and none is forgotten."""
    report(f"{name}, overtaken", *overtake(OVERTAKINGS[name], story, SOME))


def race(story: Story, rounds: int) -> tuple[int, list[str]]:
    """Let many move one backfill on while its runs are moved and someone asks for its days."""
    wrong: list[str] = []
    with beginning((DAILY,), ask_for_backfill(max_active_runs=3), story) as begun:
        for number in each(range(rounds)):
            begun.put_back()
            with ThreadPoolExecutor(8) as threads:
                asked: list[Future[Any]] = [
                    threads.submit(advance_backfills, ["dag-1"]) for _ in range(6)
                ]
                asked += [threads.submit(trigger(day), story) for day in range(3)]
                asked += [threads.submit(steer(resume_backfill), story)]
            errors = [repr(error) for each in asked if (error := each.exception())]
            story.stack.advance(hours=1)
            found = [*errors, *sound(story)]
            if (states := story.states("dag")) != [SUCCESS] * 3:
                found.append(f"got {states}")
            wrong += [f"round {number}: {text}" for text in found]
    return rounds, wrong


@pytest.mark.slow
def test_many_that_move_a_backfill_at_once_create_each_run_once(
    story: Story, report: Report
) -> None:
    """Of functions that move one backfill at the same moment, each date has its run by one."""
    report("a race", *race(story, SOME))


@pytest.mark.full
def test_many_that_move_a_backfill_at_once_many_times(story: Story, report: Report) -> None:
    """As above, many times, since threads meet as chance will have it."""
    report("many races", *race(story, 60))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_leaves_the_planned_runs(
    name: str, story: Story, report: Report
) -> None:
    """Whatever fails at whichever call, the backfill goes on and comes to its end."""
    report(name, *strike(SCENARIOS[name], story, all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_backfill_overtaken_at_every_call_leaves_the_planned_runs(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"{name}, overtaken", *overtake(OVERTAKINGS[name], story, limit=1_000))
