"""Steps that share a limit, under a fault at every single call: never too many, and none forgotten.

As in `test_runs`, whose machinery tells these stories: a fault at a call, then what the platform
always does. In the end all runs are over, all counters are whole, and nobody waits.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG, SparkTask
from lamplighter import queues as messages
from lamplighter.errors import RefusedError
from lamplighter_local.emr.fake_emr import Outcome
from lamplighter_operations import pools
from lamplighter_operations.runs import cancel_run, clear_run, mark_run, mark_step
from tests.faults.reports import Report
from tests.faults.test_runs import (
    JOB,
    KEY,
    SOME,
    Act,
    Overtaking,
    Scenario,
    Story,
    all_of,
    all_points,
    ask_for_a_run,
    make_story,
    mishear,
    overtake,
    pass_time,
    settle,
    some_points,
    strike,
    submit,
)
from tests.tools.executor_capacity import capacity

# Fixtures of the module that tells such stories.
__all__ = ["make_story"]

POOL = "pool:db"


@dataclass(frozen=True)
class Limited:
    """A scenario, and the limits that are in force in it."""

    scenario: Scenario
    settings: Mapping[str, Any] = field(default_factory=dict)
    # What all jobs may use together, of which each uses one.
    vcpus: int | None = None

    @property
    def told(self) -> Scenario:
        """The scenario as it is told under these limits."""
        return replace(self.scenario, is_paced=bool(self.settings))

    @contextmanager
    def in_force(self, story: Story) -> Iterator[None]:
        """Let the limits be in force until the block ends."""
        before = story.stack.settings
        sizes = {} if self.vcpus is None else {"vcpus": self.vcpus}
        story.stack.settings = replace(before, **self.settings)
        with capacity(sizes, dict.fromkeys(sizes, 1)):
            yield
        story.stack.settings = before


def dags(number: int, *tasks: str, **options: Any) -> tuple[DAG, ...]:
    """Return DAGs d0, d1 and so on, each of these tasks, which depend on nothing."""
    return tuple(_dag(f"d{each}", tasks or ("t",), options) for each in range(number))


def _dag(dag_id: str, tasks: tuple[str, ...], options: Mapping[str, Any]) -> DAG:
    with DAG(dag_id, schedule=None) as made:
        for task in tasks:
            SparkTask(task, job=JOB, **options)
    return made


def set_pool(slots: int) -> Act:
    """Return an act that gives the pool a size."""
    return lambda _: pools.set_pool("db", slots)


def runs_of(*numbers: int) -> Act:
    """Return an act that asks for a run of some of the DAGs."""
    return all_of(*(ask_for_a_run(f"d{each}") for each in numbers))


def unless_done(request: Any, number: int, *args: Any, **how: Any) -> Act:
    """Return an act that asks something of a run, which may have been granted already."""

    def do(_: Story) -> None:
        with suppress(RefusedError):
            request(f"d{number}", KEY, *args, **how)

    return do


def take(seconds: float, *, dag_id: str = "d0", task: str = "t") -> Act:
    """Return an act that lets the next job of a task take so long."""
    return lambda story: story.emr.next_outcome(dag_id, task, Outcome(takes=seconds))


def hang(story: Story) -> None:
    """Let the next job of the first DAG go on until it is cancelled."""
    story.emr.next_outcome("d0", "t", Outcome.hangs())


def throttle(times: int) -> Act:
    """Return an act that lets the next starts be refused, because others use the same quota."""
    return lambda story: story.emr.refuse_next("StartJobRun", "ThrottlingException", times=times)


def successes(*numbers: int, task: str = "t") -> list[str]:
    """Return runs that have succeeded."""
    return [f"d{each} success {task}=success/1" for each in numbers]


def jobs(*numbers: int, task: str = "t") -> list[str]:
    """Return jobs that have succeeded, one of each DAG."""
    return [f"d{each}/{task}#1 SUCCESS" for each in numbers]


def one_holds_and_one_waits(outcome: Act) -> Act:
    """Return an act after which the first DAG holds the only slot and the second waits for it."""
    pause = pass_time(seconds=1)
    return all_of(set_pool(1), outcome, runs_of(0), pause, runs_of(1), pause)


def pooled(**changes: Any) -> Scenario:
    """Return a scenario of two DAGs that share a pool of one slot, which is taken by the first."""
    given: dict[str, Any] = {
        "dags": dags(2, pool="db"),
        "arrange": one_holds_and_one_waits(take(5)),
        "act": pass_time(seconds=30),
        "runs": successes(0, 1),
        "events": {},
        "jobs": jobs(0, 1),
        "most_jobs": 1,
    }
    return Scenario(**{**given, **changes})


MARKED = {"why": "it is mended", "by": "ada"}
# A start that is repeated after a fault may be throttled instead of the first one.
SOMEHOW = ["d0 success t=success", "d1 success t=success"]
ONE_A_SECOND = {"job_starts_per_second": 1, "job_start_burst": 1}

SCENARIOS = {
    "a pool of one over two DAGs": Limited(pooled(arrange=all_of(set_pool(1), runs_of(0, 1)))),
    "a slot that is freed": Limited(pooled()),
    "steps of one run in a pool of one": Limited(
        Scenario(
            dags=dags(1, "a", "b", pool="db"),
            arrange=all_of(set_pool(1), runs_of(0)),
            act=pass_time(seconds=30),
            runs=["d0 success a=success/1 b=success/1"],
            events={},
            jobs=["d0/a#1 SUCCESS", "d0/b#1 SUCCESS"],
            most_jobs=1,
        )
    ),
    "a pool that is created while a step waits for it": Limited(
        pooled(arrange=all_of(runs_of(0, 1), pass_time(seconds=5)), ask=set_pool(1))
    ),
    "a pool made larger": Limited(pooled(ask=set_pool(2), most_jobs=2)),
    "a pool made smaller": Limited(
        pooled(
            dags=dags(4, pool="db"),
            arrange=all_of(
                set_pool(2),
                take(5),
                take(9, dag_id="d1"),
                runs_of(0, 1),
                pass_time(seconds=1),
                runs_of(2, 3),
                pass_time(seconds=1),
            ),
            ask=set_pool(1),
            act=pass_time(seconds=60),
            runs=successes(0, 1, 2, 3),
            jobs=jobs(0, 1, 2, 3),
            most_jobs=2,
            lowered=(POOL,),
        )
    ),
    "a cancel of a run that waits": Limited(
        pooled(
            ask=unless_done(cancel_run, 1),
            runs=[*successes(0), "d1 cancelled t=none/0"],
            jobs=jobs(0),
        )
    ),
    "a cancel of a run that holds a slot": Limited(
        pooled(
            arrange=one_holds_and_one_waits(hang),
            ask=unless_done(cancel_run, 0),
            runs=["d0 cancelled t=failed/1", *successes(1)],
            jobs=["d0/t#1 CANCELLED", *jobs(1)],
        )
    ),
    "a clear of a run that waits": Limited(
        pooled(ask=unless_done(clear_run, 1), runs=successes(0, 1), jobs=jobs(0, 1))
    ),
    "a mark of a step that waits": Limited(
        pooled(
            ask=unless_done(mark_step, 1, "t", "success", **MARKED),
            runs=[*successes(0), "d1 success t=success/0"],
            jobs=jobs(0),
        )
    ),
    "a mark of a run that waits": Limited(
        pooled(
            ask=unless_done(mark_run, 1, "success", **MARKED),
            runs=[*successes(0), "d1 success t=success/0"],
            jobs=jobs(0),
        )
    ),
    "a mark of a step that holds a slot": Limited(
        pooled(
            arrange=one_holds_and_one_waits(hang),
            ask=unless_done(mark_step, 0, "t", "failed", **MARKED),
            runs=["d0 failed t=failed/1", *successes(1)],
            jobs=["d0/t#1 CANCELLED", *jobs(1)],
        )
    ),
    "a job that fails in its slot": Limited(
        pooled(
            dags=dags(2, pool="db", retries=1, retry_delay=timedelta(seconds=5)),
            arrange=all_of(
                set_pool(1),
                lambda story: story.emr.next_outcome("d0", "t", Outcome.failed("no")),
                runs_of(0, 1),
            ),
            runs=["d0 success t=success/2", *successes(1)],
            jobs=["d0/t#1 FAILED", "d0/t#2 SUCCESS", *jobs(1)],
        )
    ),
    "starts at a rate": Limited(
        Scenario(
            dags=dags(3),
            arrange=runs_of(0, 1, 2),
            act=pass_time(seconds=30),
            runs=successes(0, 1, 2),
            events={},
            jobs=jobs(0, 1, 2),
        ),
        settings=ONE_A_SECOND,
    ),
    "starts of one run at a rate": Limited(
        Scenario(
            dags=dags(1, "a", "b", "c"),
            arrange=runs_of(0),
            act=pass_time(seconds=30),
            runs=["d0 success a=success/1 b=success/1 c=success/1"],
            events={},
            jobs=[f"d0/{task}#1 SUCCESS" for task in "abc"],
        ),
        settings=ONE_A_SECOND,
    ),
    "a cancel of a run that waits for its start": Limited(
        Scenario(
            dags=dags(3),
            arrange=all_of(runs_of(0, 1, 2), submit),
            ask=unless_done(cancel_run, 1),
            act=pass_time(seconds=30),
            runs=[*successes(0), "d1 cancelled t=none/0", *successes(2)],
            events={},
            jobs=jobs(0, 2),
        ),
        settings=ONE_A_SECOND,
    ),
    "a start that is throttled": Limited(
        Scenario(
            dags=dags(2),
            arrange=all_of(throttle(1), runs_of(0, 1)),
            act=pass_time(seconds=60),
            runs=SOMEHOW,
            events={},
            jobs=None,
        ),
        settings=ONE_A_SECOND,
    ),
    "a start in a pool that is throttled": Limited(
        pooled(arrange=all_of(set_pool(1), throttle(1), runs_of(0, 1)), runs=SOMEHOW, jobs=None),
        settings=ONE_A_SECOND,
    ),
    "starts in a pool at a rate": Limited(
        pooled(
            dags=dags(3, pool="db"),
            arrange=all_of(set_pool(1), runs_of(0, 1, 2)),
            act=pass_time(seconds=60),
            runs=successes(0, 1, 2),
            jobs=jobs(0, 1, 2),
        ),
        settings=ONE_A_SECOND,
    ),
    "capacity for one": Limited(
        pooled(
            dags=dags(3),
            arrange=runs_of(0, 1, 2),
            runs=successes(0, 1, 2),
            jobs=jobs(0, 1, 2),
        ),
        vcpus=1,
    ),
    "capacity, a pool and a rate": Limited(
        pooled(
            dags=dags(3, pool="db"),
            arrange=all_of(set_pool(2), runs_of(0, 1, 2)),
            act=pass_time(seconds=60),
            runs=successes(0, 1, 2),
            jobs=jobs(0, 1, 2),
        ),
        settings=ONE_A_SECOND,
        vcpus=1,
    ),
}


# Who is overtaken by whom.


def let_jobs_end(story: Story) -> None:
    """Let time pass in which the jobs end, and nobody hears of it."""
    story.stack.clock.advance(timedelta(seconds=10))


def ask_again(*numbers: int) -> Act:
    """Return an act that asks once more for runs to be moved on, and does so."""
    return all_of(lambda _: messages.send_submits([(f"d{n}", KEY) for n in numbers]), submit)


@dataclass(frozen=True)
class Meeting:
    """Two who meet at a limit, of which one is overtaken by the other before each call."""

    arrange: Act
    first: Act
    meanwhile: Act
    settings: Mapping[str, Any] = field(default_factory=dict)
    vcpus: int | None = None
    ends: tuple[str, ...] = ("success t=success",)
    most_jobs: int = 1
    lowered: tuple[str, ...] = ()

    def tell(self, story: Story, limit: int) -> tuple[int, list[str]]:
        """Let them meet before as many calls as wanted; return how often, and what broke."""
        pooled_dags = dags(3, pool=None if self.vcpus else "db")
        overtaking = Overtaking(
            pooled_dags,
            self.arrange,
            self.first,
            self.meanwhile,
            runs=frozenset(f"d{number} {end}" for number in range(3) for end in self.ends),
            most_jobs=self.most_jobs,
            lowered=self.lowered,
        )
        with Limited(pooled(), self.settings, self.vcpus).in_force(story):
            return overtake(overtaking, story, limit)


_HELD = all_of(set_pool(1), runs_of(0), submit, let_jobs_end)

MEETINGS = {
    "submit by settle": Meeting(all_of(_HELD, runs_of(1)), submit, settle),
    "settle by submit": Meeting(all_of(_HELD, runs_of(1)), settle, submit),
    "settle by submit of one that waits": Meeting(
        all_of(_HELD, runs_of(1), submit), settle, ask_again(1)
    ),
    "submit by submit of another": Meeting(
        all_of(set_pool(1), runs_of(0)), submit, all_of(runs_of(1), submit)
    ),
    "submit by the same submit": Meeting(
        all_of(set_pool(1), runs_of(0, 1)), submit, ask_again(0, 1)
    ),
    "start of one that waits by submit of another": Meeting(
        all_of(_HELD, runs_of(1), submit, settle), submit, all_of(runs_of(2), submit)
    ),
    "start of one that waits by its cancel": Meeting(
        all_of(_HELD, runs_of(1, 2), submit, settle),
        submit,
        unless_done(cancel_run, 1),
        ends=("success t=success", "cancelled t=none", "cancelled t=failed"),
    ),
    "cancel of one that waits by settle": Meeting(
        all_of(_HELD, runs_of(1, 2), submit),
        unless_done(cancel_run, 1),
        all_of(settle, submit),
        ends=("success t=success", "cancelled t=none", "cancelled t=failed"),
    ),
    "submit by a pool that is created": Meeting(runs_of(0, 1), submit, set_pool(1)),
    "creation of a pool by submit": Meeting(runs_of(0, 1), set_pool(1), submit),
    "submit by a pool made larger": Meeting(
        all_of(_HELD, runs_of(1, 2)), submit, set_pool(2), most_jobs=2
    ),
    "submit by a pool made smaller": Meeting(
        all_of(set_pool(2), runs_of(0, 1, 2)), submit, set_pool(1), most_jobs=2, lowered=(POOL,)
    ),
    "settle by a pool made smaller": Meeting(
        all_of(set_pool(2), runs_of(0, 1), submit, let_jobs_end, runs_of(2)),
        settle,
        set_pool(1),
        most_jobs=2,
        lowered=(POOL,),
    ),
    "submit by submit at a rate": Meeting(
        all_of(set_pool(3), runs_of(0)),
        submit,
        all_of(runs_of(1), submit),
        settings=ONE_A_SECOND,
        most_jobs=3,
    ),
    "submit by submit for capacity": Meeting(
        runs_of(0), submit, all_of(runs_of(1), submit), vcpus=1
    ),
    "submit by settle for capacity": Meeting(
        all_of(runs_of(0), submit, let_jobs_end, runs_of(1)), submit, settle, vcpus=1
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MEETINGS)
def test_function_overtaken_at_a_limit_exceeds_and_forgets_nothing(
    name: str, story: Story, report: Report
) -> None:
    """Whatever someone else does in the middle, the limit holds and all steps have their turn."""
    report(f"{name}, overtaken", *MEETINGS[name].tell(story, SOME))


@pytest.mark.full
@pytest.mark.parametrize("name", MEETINGS)
def test_function_overtaken_at_every_call_exceeds_and_forgets_nothing(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"{name}, overtaken", *MEETINGS[name].tell(story, 1_000))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_takes_and_leaves_no_slot(
    name: str, story: Story, report: Report
) -> None:
    """Whichever call fails, all steps have their turn, never too many at once."""
    limited = SCENARIOS[name]
    with limited.in_force(story):
        report(name, *strike(limited.told, story, some_points))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_takes_and_leaves_no_slot(
    name: str, story: Story, report: Report
) -> None:
    """As above, at every call."""
    limited = SCENARIOS[name]
    with limited.in_force(story):
        report(name, *strike(limited.told, story, all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_events_delivered_badly_take_and_leave_no_slot(
    name: str, story: Story, report: Report
) -> None:
    """Events of jobs that are late, doubled, shuffled or missing lead to the same end."""
    limited = SCENARIOS[name]
    with limited.in_force(story):
        report(f"{name}, misheard", *mishear(limited.told, story, range(6)))
