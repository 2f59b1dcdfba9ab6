"""The rule by which a date gets a run, gets its run again, or is left as it is. Pure."""

import pytest
from pendulum import datetime

from lamplighter.backfill.plan import Act, Request, act_on, make_plan
from lamplighter.timetables.base import DagRunInfo

FIRST = datetime(2026, 1, 1)


@pytest.mark.parametrize(
    ("state", "none", "failed", "completed"),
    [
        (None, Act.CREATE, Act.CREATE, Act.CREATE),
        ("queued", Act.IN_FLIGHT, Act.IN_FLIGHT, Act.IN_FLIGHT),
        ("running", Act.IN_FLIGHT, Act.IN_FLIGHT, Act.IN_FLIGHT),
        ("success", Act.EXISTS, Act.EXISTS, Act.REDO),
        ("failed", Act.EXISTS, Act.REDO, Act.REDO),
        ("cancelled", Act.EXISTS, Act.REDO, Act.REDO),
    ],
)
def test_rule_for_each_state(state: str | None, none: Act, failed: Act, completed: Act) -> None:
    """What lives is never touched; a run that was cancelled has not done its work."""
    assert [act_on(state, rule) for rule in ("none", "failed", "completed")] == [
        none,
        failed,
        completed,
    ]


@pytest.mark.parametrize("run_backwards", [False, True])
def test_plan_has_the_dates_in_the_order_of_their_turns(*, run_backwards: bool) -> None:
    """Backwards, the newest comes first; a date that has a run is in the plan and not to do."""
    infos = [DagRunInfo.interval(FIRST.add(days=at), FIRST.add(days=at + 1)) for at in range(3)]
    request = Request("dag", FIRST, FIRST.add(days=3), run_backwards=run_backwards)
    plan = make_plan(request, infos, {"2026-01-02T00:00:00+00:00": "success"})
    days = [each.run_key[8:10] for each in plan.dates]
    assert days == (["03", "02", "01"] if run_backwards else ["01", "02", "03"])
    assert [each.run_key[8:10] for each in plan.todo] == [day for day in days if day != "02"]
    assert plan.counts() == {Act.CREATE: 2, Act.EXISTS: 1}
