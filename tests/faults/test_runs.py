"""Runs under a fault at every single call: no job is doubled or left behind, no step is forgotten.

Each scenario runs once to learn how many calls it makes. Then it runs again for every call and
every fault, with that fault at that call, whichever service it was meant for. After it the platform
does what it always does: messages come again, timers fire, whoever asked for something asks again.
Then the run must be what it would have been, each success must have told of its outlets once, and
no step may ever have had two live jobs.

Normally a selection; the full form is marked `full` (make faults).
"""

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import accumulate
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from pendulum import datetime
from pynamodb.exceptions import PynamoDBException

from lamplighter import DAG, Asset, SparkTask, aws, chain
from lamplighter import queues as messages
from lamplighter.errors import RefusedError, TransientError
from lamplighter.runs.advance import SUBMIT, advance_all
from lamplighter.runs.advance import settle as hear
from lamplighter.store.models import AssetEvents
from lamplighter.store.rows import connection
from lamplighter_local.aws_lambda.fake_lambda import FakeLambda
from lamplighter_local.deliveries import deliver
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.runs import cancel_run, clear_run, mark_run, mark_step, retry_run
from lamplighter_operations.trigger import create_manual_run
from tests.faults.reports import Report, each
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults, Kind, crash_points, overtaken
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot, begin_anew

MIDNIGHT = datetime(2026, 1, 1)
OF_SERVICES = (PynamoDBException, BotoCoreError, ClientError, TransientError)
SOME = 3  # points of a scenario in the short form
READS = frozenset(
    {"BatchGetItem", "DescribeExecution", "GetItem", "GetJobRun", "GetObject", "ListJobRuns"}
    | {"Query"}
)
SERVICES = ("sqs", "s3", "emr-serverless", "lambda", "stepfunctions")
KEY = "~first"  # of the only run that is asked for by hand
JOB = "jobs.x:main"
A, B = Asset("a"), Asset("b")


@dataclass
class Story:
    """A deployment in which a scenario is told, and what pretends to run its jobs."""

    stack: LocalStack
    emr: FakeEmr | FakeLambda

    def states(self, *dag_ids: str) -> list[str]:
        """Return the runs of DAGs with their steps, in short: `two success a=success/1`."""
        return [
            " ".join(
                [dag_id, run.state]
                + [f"{s.step_id}={s.state}/{s.try_number:.0f}" for s in self.steps(run)]
            )
            for dag_id in dag_ids
            for run in self.stack.runs(dag_id)
        ]

    def steps(self, run: Any) -> list[Any]:
        """Return the steps of a run in their order."""
        return [step for _, step in sorted(self.stack.steps(run).items())]

    @property
    def jobs(self) -> list[str]:
        """All jobs there have been: `two/a#1 SUCCESS`."""
        return sorted(f"{j.dag}/{j.task}#{j.submission} {j.state}" for j in self.emr.jobs)


Act = Callable[[Story], object]


def nothing(_: Story) -> None:
    """Leave all as it is."""


@dataclass(frozen=True)
class Scenario:
    """What is done under faults, what was there before, and what must be true in the end."""

    dags: tuple[DAG, ...]
    act: Act
    # Runs with their steps, events by asset, and jobs.
    runs: Sequence[str]
    events: dict[str, int]
    # None if a request that is repeated may make more of them.
    jobs: Sequence[str] | None
    arrange: Act = nothing
    # What someone asks for: once under faults, and once more if that failed.
    ask: Act = nothing
    # How many jobs may be live at once, if they share a limit, and which limits are lowered.
    most_jobs: int | None = None
    # Whether starts are paced: one that is throttled is made again with another submission.
    is_paced: bool = False
    lowered: tuple[str, ...] = ()
    # What else is wrong in the end.
    check: Callable[[Story], Iterable[str]] = lambda _: ()


def dag(dag_id: str, *tasks: str, after: Sequence[str] = (), **arguments: Any) -> DAG:
    """Return a DAG of some tasks, and one that follows all of them for each of `after`."""
    schedule = arguments.pop("schedule", None)
    options = {name: arguments.pop(name) for name in list(arguments) if name in _OF_DAGS}
    with DAG(dag_id, schedule=schedule, **options) as made:
        first = [SparkTask(task, job=JOB, **arguments) for task in tasks]
        for task in after:
            first >> SparkTask(task, job=JOB)
    return made


_OF_DAGS = frozenset({"start_date", "dagrun_timeout", "max_active_runs"})


# What is done.


def ask_for_a_run(dag_id: str) -> Act:
    """Return an act that asks for a run by hand."""
    return lambda _: create_manual_run(dag_id, logical_date=None, run_id="first")


def pass_time(*, minutes: float = 0, seconds: float = 0) -> Act:
    """Return an act that lets time pass, and everything happen that comes in it."""
    return lambda story: story.stack.advance(minutes=minutes, seconds=seconds)


def all_of(*acts: Act) -> Act:
    """Return the acts as one."""

    def do(story: Story) -> None:
        for act in acts:
            act(story)

    return do


def plan_jobs(task: str, *outcomes: Outcome) -> Act:
    """Return an act that lets the next jobs of a task of DAG `dag` end like this."""

    def do(story: Story) -> None:
        for outcome in outcomes:
            story.emr.next_outcome("dag", task, outcome)

    return do


def die_at(operation: str, kind: Kind) -> Act:
    """Return an act in which the function that starts jobs dies at a call."""

    def do(story: Story) -> None:
        faults = Faults()
        faults.at(1, kind, operation)
        with under(faults), suppress(Crash):
            story.stack.run_until_idle()
        assert not faults.pending

    return do


def once(request: Callable[[str, str], object]) -> Act:
    """Return an act that asks for something, which may have been granted already."""

    def do(_: Story) -> None:
        with suppress(RefusedError):
            request("dag", KEY)

    return do


def start_and(*acts: Act) -> Act:
    """Return an act after which the run of `dag` is under way."""
    return all_of(ask_for_a_run("dag"), *acts)


def daily(*tasks: str, depends: str, days: int, **options: Any) -> DAG:
    """Return a DAG of tasks in a row, one of which depends on its past; some days have ended."""
    start = MIDNIGHT.subtract(days=days)
    with DAG("dag", schedule="0 0 * * *", start_date=start, **options) as made:
        chain(*(SparkTask(each, job=JOB, depends_on_past=each == depends) for each in tasks))
    return made


def retry_first(story: Story) -> None:
    """Ask for the oldest run of `dag` to be tried again, if that has not been granted already."""
    with suppress(RefusedError):
        retry_run("dag", story.stack.runs("dag")[0].run_key)


def mark_first(task: str | None = None) -> Act:
    """Return an act that marks the oldest run of `dag`, or a step of it, as a success."""

    def do(story: Story) -> None:
        key = story.stack.runs("dag")[0].run_key
        with suppress(RefusedError):
            if task is None:
                mark_run("dag", key, "success", why="it is mended", by="ada")
            else:
                mark_step("dag", key, task, "success", why="it is mended", by="ada")

    return do


def reading() -> DAG:
    """Return two steps, of which the second reads what the first has left."""
    with DAG("dag", schedule=None) as made:
        first = SparkTask("a", job=JOB)
        first >> SparkTask("b", job=JOB, inputs=[first], arguments=["{{ outputs.a.rows }}"])
    return made


def misread(story: Story) -> Iterator[str]:
    """Yield what the jobs of `b` were given that is not what `a` left."""
    for job in story.emr.jobs:
        bucket, key = aws.bucket_and_key(job.context_uri)
        context = json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
        given = context["inputs"], context["arguments"]
        if job.task == "b" and given != ({"a": {"rows": 3}}, ["3"]):
            yield f"step b was given {given}"


HANGS = Outcome.hangs()
ONE = dag("dag", "t", outlets=[A])

SCENARIOS = {
    "one step, and a consumer": Scenario(
        dags=(
            dag(
                "dag", "t", outlets=[A], schedule="0 0 * * *", start_date=MIDNIGHT.subtract(days=1)
            ),
            dag("consumer", "u", schedule=[A]),
        ),
        ask=lambda story: story.stack.tick(),
        act=pass_time(seconds=5),
        runs=["dag success t=success/1", "consumer success u=success/1"],
        events={"a": 1},
        jobs=["consumer/u#1 SUCCESS", "dag/t#1 SUCCESS"],
    ),
    "two steps": Scenario(
        dags=(dag("dag", "a", after=["b"], outlets=[A, B]),),
        arrange=start_and(),
        act=pass_time(seconds=4),
        runs=["dag success a=success/1 b=success/1"],
        events={"a": 1, "b": 1},
        jobs=["dag/a#1 SUCCESS", "dag/b#1 SUCCESS"],
    ),
    "a retry": Scenario(
        dags=(dag("dag", "t", outlets=[A], retries=1, retry_delay=timedelta(seconds=20)),),
        arrange=start_and(plan_jobs("t", Outcome.failed("no")), pass_time(seconds=0.7)),
        act=pass_time(seconds=30),
        runs=["dag success t=success/2"],
        events={"a": 1},
        jobs=["dag/t#1 FAILED", "dag/t#2 SUCCESS"],
    ),
    "a retry that is the last": Scenario(
        dags=(dag("dag", "t", after=["u"], outlets=[A], retries=1, retry_delay=timedelta(0)),),
        arrange=start_and(plan_jobs("t", *[Outcome.failed("no")] * 2), pass_time(seconds=0.7)),
        act=pass_time(seconds=10),
        runs=["dag failed t=failed/2 u=upstream_failed/0"],
        events={},
        jobs=["dag/t#1 FAILED", "dag/t#2 FAILED"],
    ),
    "a skip": Scenario(
        dags=(dag("dag", "t", after=["u"], outlets=[A]),),
        arrange=start_and(plan_jobs("t", Outcome.skipped("nothing new"))),
        act=pass_time(seconds=3),
        runs=["dag success t=skipped/1 u=skipped/0"],
        events={},
        jobs=["dag/t#1 SUCCESS"],
    ),
    "outputs that the next step reads": Scenario(
        dags=(reading(),),
        arrange=start_and(plan_jobs("a", Outcome.leaving({"rows": 3}))),
        act=pass_time(seconds=4),
        runs=["dag success a=success/1 b=success/1"],
        events={},
        jobs=["dag/a#1 SUCCESS", "dag/b#1 SUCCESS"],
        check=misread,
    ),
    "two steps that end at once": Scenario(
        dags=(dag("dag", "a", "b", after=["c"], outlets=[A]),),
        arrange=start_and(pass_time(seconds=0.7)),
        act=pass_time(seconds=3),
        runs=["dag success a=success/1 b=success/1 c=success/1"],
        events={"a": 2},
        jobs=[f"dag/{task}#1 SUCCESS" for task in "abc"],
    ),
    "a cancel while the job runs": Scenario(
        dags=(dag("dag", "t", after=["u"], outlets=[A], retries=3),),
        arrange=start_and(plan_jobs("t", HANGS), pass_time(seconds=5)),
        ask=once(cancel_run),
        act=pass_time(seconds=5),
        runs=["dag cancelled t=failed/1"],
        events={},
        jobs=["dag/t#1 CANCELLED"],
    ),
    "a cancel before the job was started": Scenario(
        dags=(ONE,),
        arrange=start_and(die_at("StartJobRun", "crash-before")),
        ask=once(cancel_run),
        act=pass_time(minutes=6),
        runs=["dag cancelled t=failed/1"],
        events={},
        jobs=[],
    ),
    "a cancel of a job that no row knows": Scenario(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", HANGS), die_at("StartJobRun", "crash-after")),
        ask=once(cancel_run),
        act=pass_time(minutes=4),
        runs=["dag cancelled t=failed/1"],
        events={},
        jobs=["dag/t#1 CANCELLED"],
    ),
    "an execution timeout": Scenario(
        dags=(dag("dag", "t", outlets=[A], execution_timeout=timedelta(seconds=60)),),
        arrange=start_and(plan_jobs("t", HANGS), pass_time(seconds=1)),
        act=pass_time(seconds=70),
        runs=["dag failed t=failed/1"],
        events={},
        jobs=["dag/t#1 CANCELLED"],
    ),
    "a timeout of the whole run": Scenario(
        dags=(dag("dag", "t", after=["u"], dagrun_timeout=timedelta(seconds=60)),),
        arrange=start_and(plan_jobs("t", HANGS), pass_time(seconds=1)),
        act=pass_time(seconds=70),
        runs=["dag failed t=failed/1"],
        events={},
        jobs=["dag/t#1 CANCELLED"],
    ),
    "a clear of a step that runs": Scenario(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", HANGS), pass_time(seconds=5)),
        ask=once(clear_run),
        act=pass_time(seconds=6),
        runs=["dag success t=success"],
        events={"a": 1},
        jobs=None,
    ),
    "a retry of a run that failed": Scenario(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", Outcome.failed("no")), pass_time(seconds=5)),
        ask=once(retry_run),
        act=pass_time(seconds=5),
        runs=["dag success t=success/2"],
        events={"a": 1},
        jobs=["dag/t#1 FAILED", "dag/t#2 SUCCESS"],
    ),
    "a retry of the run that others wait for": Scenario(
        dags=(daily("t", depends="t", days=3, max_active_runs=1),),
        arrange=all_of(plan_jobs("t", Outcome.failed("no")), pass_time(minutes=2)),
        ask=retry_first,
        act=pass_time(minutes=2),
        runs=["dag success t=success/2", *["dag success t=success/1"] * 2],
        events={},
        jobs=["dag/t#1 FAILED", *["dag/t#1 SUCCESS"] * 2, "dag/t#2 SUCCESS"],
    ),
    "a retry of a step that others wait for": Scenario(
        dags=(daily("s", "t", depends="t", days=2, max_active_runs=1),),
        arrange=all_of(plan_jobs("t", Outcome.failed("no")), pass_time(minutes=2)),
        ask=retry_first,
        act=pass_time(minutes=2),
        runs=["dag success s=success/1 t=success/2", "dag success s=success/1 t=success/1"],
        events={},
        jobs=[*["dag/s#1 SUCCESS"] * 2, "dag/t#1 FAILED", "dag/t#1 SUCCESS", "dag/t#2 SUCCESS"],
    ),
    "a mark of a step that others wait for": Scenario(
        dags=(daily("s", "t", "u", depends="t", days=2, max_active_runs=1),),
        arrange=all_of(plan_jobs("t", Outcome.failed("no")), pass_time(minutes=2)),
        ask=mark_first("t"),
        act=pass_time(minutes=2),
        runs=[
            "dag success s=success/1 t=success/1 u=success/1",
            "dag success s=success/1 t=success/1 u=success/1",
        ],
        events={},
        jobs=[*[f"dag/{task}#1 SUCCESS" for task in "sstuu"], "dag/t#1 FAILED"],
    ),
    "a mark of a run whose job is running": Scenario(
        dags=(daily("s", "t", depends="s", days=2, max_active_runs=1),),
        arrange=all_of(plan_jobs("s", HANGS), pass_time(minutes=2)),
        ask=mark_first(),
        act=pass_time(minutes=2),
        runs=["dag success s=success/1 t=success/0", "dag success s=success/1 t=success/1"],
        events={},
        jobs=["dag/s#1 CANCELLED", "dag/s#1 SUCCESS", "dag/t#1 SUCCESS"],
    ),
    "a job without capacity": Scenario(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", Outcome.capacity()), pass_time(seconds=0.2)),
        act=pass_time(minutes=2),
        runs=["dag success t=success/1"],
        events={"a": 1},
        jobs=["dag/t#1 FAILED", "dag/t#2 SUCCESS"],
    ),
    "a start that EMR refuses": Scenario(
        dags=(dag("dag", "t", after=["u"], retries=2),),
        # As often as it is asked, as EMR does: who dies before it is written has to ask again.
        arrange=start_and(
            lambda story: story.emr.refuse_next("StartJobRun", "ValidationException", times=99)
        ),
        act=pass_time(minutes=11),
        runs=["dag failed t=failed/3 u=upstream_failed/0"],
        events={},
        jobs=[],
    ),
}

# Who is overtaken by whom: what a function does with its messages, and what happens meanwhile.


def submit(story: Story) -> None:
    """Let the function that starts jobs take what is there."""
    deliver(story.stack.settings.queue_url("submits"), "submit")


def settle(story: Story) -> None:
    """Let the function that hears of jobs take what is there."""
    story.emr.emit()
    deliver(story.stack.settings.queue_url("jobstates"), "settle")


def sweep(story: Story) -> None:
    """Let the sweep look, and do what it asks for."""
    story.stack.sweep()
    settle(story)


def send_submit(_: Story) -> None:
    """Ask once more for the run to be moved on."""
    messages.send_submits([("dag", KEY)])


def send_settle(_: Story) -> None:
    """Ask once more for the run's jobs to be looked at."""
    messages.send_settles([("dag", KEY)])


def claim(story: Story) -> None:
    """Let the function that claims DAGs take what is there."""
    deliver(story.stack.settings.queue_url("claims"), "claim")


def send_submits_of_all(story: Story) -> None:
    """Ask once more for all runs of `dag` to be moved on."""
    messages.send_submits([("dag", run.run_key) for run in story.stack.runs("dag")])


def send_settles_of_all(story: Story) -> None:
    """Ask once more for the jobs of all runs of `dag` to be looked at."""
    messages.send_settles([("dag", run.run_key) for run in story.stack.runs("dag")])


def cancel_last(story: Story) -> None:
    """Cancel the newest run of `dag`, unless it is over."""
    with suppress(RefusedError):
        cancel_run("dag", story.stack.runs("dag")[-1].run_key)


def wait_for_long(story: Story) -> None:
    """Let time pass in which nothing is delivered."""
    story.stack.clock.advance(timedelta(seconds=400))


@dataclass(frozen=True)
class Overtaking:
    """A scenario of which one part is overtaken by another before each of its calls."""

    dags: tuple[DAG, ...]
    arrange: Act
    first: Act
    meanwhile: Act
    # The run may end in more than one way, as it may be that one or the other came first.
    runs: frozenset[str]
    # What else is wrong in the end.
    check: Callable[[Story], Iterable[str]] = lambda _: ()
    most_jobs: int | None = None
    lowered: tuple[str, ...] = ()


def _either(*runs: str) -> frozenset[str]:
    return frozenset(runs)


_DONE = _either("dag success t=success")
# Long enough to be alive in all that follows, but not for ever.
_LONG = Outcome(takes=900)

OVERTAKINGS = {
    "submit by submit": Overtaking(
        dags=(ONE,),
        arrange=start_and(),
        first=submit,
        meanwhile=all_of(send_submit, submit),
        runs=_DONE,
    ),
    "late submit by submit": Overtaking(
        dags=(ONE,),
        arrange=start_and(
            plan_jobs("t", _LONG), die_at("StartJobRun", "crash-before"), wait_for_long
        ),
        first=submit,
        meanwhile=all_of(send_submit, submit),
        runs=_DONE,
    ),
    "submit by cancel": Overtaking(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", HANGS)),
        first=submit,
        meanwhile=all_of(once(cancel_run), settle),
        runs=_either("dag cancelled", "dag cancelled t=failed"),
    ),
    "submit by clear": Overtaking(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", _LONG)),
        first=submit,
        meanwhile=all_of(once(clear_run), settle, submit),
        runs=_DONE,
    ),
    "late submit by cancel": Overtaking(
        dags=(ONE,),
        arrange=start_and(
            plan_jobs("t", HANGS), die_at("StartJobRun", "crash-before"), wait_for_long
        ),
        first=submit,
        meanwhile=all_of(once(cancel_run), settle),
        runs=_either("dag cancelled t=failed"),
    ),
    "late submit by clear": Overtaking(
        dags=(ONE,),
        arrange=start_and(
            plan_jobs("t", _LONG), die_at("StartJobRun", "crash-before"), wait_for_long
        ),
        first=submit,
        meanwhile=all_of(once(clear_run), settle, submit),
        runs=_DONE,
    ),
    "submit by its own job": Overtaking(
        dags=(ONE,),
        arrange=start_and(),
        first=submit,
        meanwhile=all_of(lambda story: story.stack.clock.advance(timedelta(seconds=2)), settle),
        runs=_DONE,
    ),
    "settle by settle of another step": Overtaking(
        dags=(dag("dag", "a", "b", after=["t"], outlets=[A]),),
        arrange=start_and(
            submit, lambda story: story.stack.clock.advance(timedelta(seconds=2)), send_settle
        ),
        first=lambda story: deliver(story.stack.settings.queue_url("jobstates"), "settle"),
        meanwhile=all_of(settle, submit),
        runs=_either("dag success a=success b=success t=success"),
    ),
    "settle by cancel": Overtaking(
        dags=(dag("dag", "t", after=["u"], outlets=[A]),),
        arrange=start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2))),
        first=settle,
        meanwhile=all_of(once(cancel_run), send_settle, settle, submit),
        runs=_either(
            "dag cancelled t=success", "dag cancelled t=success u=failed", "dag cancelled t=failed"
        ),
    ),
    "submit of a reader by a clear of what it reads": Overtaking(
        dags=(reading(),),
        arrange=start_and(
            plan_jobs("a", *[Outcome.leaving({"rows": 3})] * 2),
            submit,
            lambda story: story.stack.clock.advance(timedelta(seconds=2)),
            settle,
        ),
        first=submit,
        meanwhile=all_of(once(clear_run), settle, submit),
        runs=_either("dag success a=success b=success"),
        check=misread,
    ),
    "settle by clear": Overtaking(
        dags=(dag("dag", "t", after=["u"], outlets=[A]),),
        arrange=start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2))),
        first=settle,
        meanwhile=all_of(once(clear_run), settle, submit),
        runs=_either("dag success t=success u=success"),
    ),
    "cancel by the end of the job": Overtaking(
        dags=(ONE,),
        arrange=start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2))),
        first=once(cancel_run),
        meanwhile=all_of(settle, submit),
        runs=_either("dag success t=success", "dag cancelled t=success"),
    ),
    "submit of a run that waits by the end of its past": Overtaking(
        dags=(daily("t", depends="t", days=2, max_active_runs=2),),
        arrange=lambda story: story.stack.tick(),
        first=submit,
        meanwhile=all_of(lambda story: story.stack.clock.advance(timedelta(seconds=2)), settle),
        runs=_DONE,
    ),
    "end of the past by submit of a run that waits": Overtaking(
        dags=(daily("t", depends="t", days=2, max_active_runs=2),),
        arrange=all_of(
            lambda story: story.stack.tick(),
            submit,
            lambda story: story.stack.clock.advance(timedelta(seconds=2)),
        ),
        first=settle,
        meanwhile=all_of(send_submits_of_all, submit),
        runs=_DONE,
    ),
    "submit of a run whose past is over by settle": Overtaking(
        dags=(daily("t", depends="t", days=2, max_active_runs=2),),
        arrange=all_of(
            lambda story: story.stack.tick(),
            submit,
            lambda story: story.stack.clock.advance(timedelta(seconds=2)),
            settle,
        ),
        first=submit,
        meanwhile=all_of(send_settles_of_all, settle, claim, submit),
        runs=_DONE,
    ),
    "submit by mark": Overtaking(
        dags=(ONE,),
        arrange=start_and(plan_jobs("t", HANGS)),
        first=submit,
        meanwhile=all_of(mark_first("t"), settle),
        runs=_either("dag success t=success"),
    ),
    "settle by mark": Overtaking(
        dags=(dag("dag", "t", after=["u"], outlets=[A]),),
        arrange=start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2))),
        first=settle,
        meanwhile=all_of(mark_first("t"), send_settle, settle, submit),
        runs=_either("dag success t=success u=success"),
    ),
    "mark by the end of the job": Overtaking(
        dags=(ONE,),
        arrange=start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2))),
        first=mark_first(),
        meanwhile=all_of(settle, submit),
        runs=_either("dag success t=success"),
    ),
    "claim of a run whose past is over by its cancel": Overtaking(
        dags=(daily("t", depends="t", days=2, max_active_runs=2),),
        arrange=all_of(
            lambda story: story.stack.tick(),
            submit,
            lambda story: story.stack.clock.advance(timedelta(seconds=2)),
            settle,
            submit,
        ),
        first=claim,
        meanwhile=all_of(cancel_last, settle),
        runs=_either("dag success t=success", "dag cancelled", "dag cancelled t=failed"),
    ),
    "settle by sweep": Overtaking(
        dags=(dag("dag", "t", after=["u"], outlets=[A]),),
        arrange=start_and(submit, wait_for_long, wait_for_long),
        first=settle,
        meanwhile=all_of(sweep, submit),
        runs=_either("dag success t=success u=success"),
    ),
}


# How faults are put, and what is checked.


def clients() -> tuple[Any, ...]:
    """Return the clients of all services that runs need."""
    return connection().client, *(aws.client(name) for name in SERVICES)


@contextmanager
def under(faults: Faults) -> Iterator[None]:
    """Put faults in the way of everything until the block ends."""
    with faults.on(*clients()), warnings.catch_warnings():
        # Powertools warns that a handler which died has no metrics, and so hides why it died.
        warnings.filterwarnings("ignore", message="No application metrics")
        yield


@pytest.fixture(name="story", scope="module")
def make_story() -> Iterator[Story]:
    """Yield a deployment for all scenarios: to make one takes as long as some of them."""
    emr = FakeEmr()
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(local_stack(at=MIDNIGHT, on=emr))
        made = replace(stack.settings, due_shards=1, run_shards=1)
        stack.settings = made
        yield Story(stack, emr)


@contextmanager
def beginning(dags: Sequence[DAG], arrange: Act, story: Story) -> Iterator[Snapshot]:
    """Let the deployment be as if it were new, and a scenario about to begin."""
    begin_anew(story.stack, at=MIDNIGHT.add(seconds=5))
    register_dags(*dags)
    arrange(story)
    # Nobody has to wait by the real clock for a row that is busy only on purpose.
    with patch("lamplighter.clock.sleep", lambda _: None):
        yield Snapshot(story.stack)


def try_with(faults: Faults, scenario: Scenario, story: Story) -> bool:
    """Do it once under faults; return whether what was asked for has surely been heard."""
    is_heard = False
    with under(faults), suppress(Crash, *OF_SERVICES):
        scenario.ask(story)
        is_heard = True
        scenario.act(story)
    return is_heard


def go_on(scenario: Scenario, story: Story, *, is_heard: bool) -> None:
    """Let happen what always happens: messages come again, timers fire, people ask again."""
    if not is_heard:
        scenario.ask(story)
    story.stack.advance(hours=1)


def wrong_after(scenario: Scenario, story: Story) -> Iterator[str]:
    """Yield what is wrong in the end."""
    yield from sound(story)
    if scenario.most_jobs is not None and (most := most_at_once(story)) > scenario.most_jobs:
        yield f"{most} jobs were live at once where {scenario.most_jobs} are allowed"
    states = story.states(*(dag.dag_id for dag in scenario.dags))
    wanted = list(scenario.runs)
    if scenario.jobs is None:
        states = [without_tries(text) for text in states]
    elif (jobs := without_submissions(story.jobs, scenario)) != sorted(scenario.jobs):
        yield f"there were {jobs} instead of {scenario.jobs}"
    if states != wanted:
        yield f"got {states} instead of {wanted}"
    if (told := events()) != scenario.events:
        yield f"events {told} instead of {scenario.events}"
    yield from scenario.check(story)


def sound(story: Story) -> Iterator[str]:
    """Yield what may never be, when all is over."""
    yield from violations()
    yield from job_violations(story.emr)
    # Of a push, one message comes when the indexes have caught up; that is another story.
    if left := [q.name for q in queues() if q._messages and not q.name.endswith("-registers")]:
        yield f"messages are left in {left}"


def without_submissions(jobs: Sequence[str], scenario: Scenario) -> list[str]:
    """Return jobs, each as if it were the first of its step if starts are paced."""
    return sorted(re.sub("#[0-9]+", "#1", job) if scenario.is_paced else job for job in jobs)


def most_at_once(story: Story) -> int:
    """Return how many jobs were live at the same moment at most."""
    moments = [(job.created_at, 1) for job in story.emr.jobs]
    moments += [(job.ended_at, -1) for job in story.emr.jobs if job.ended_at is not None]
    return max(accumulate(change for _, change in sorted(moments)), default=0)


def without_tries(text: str) -> str:
    """Return a run with its steps, but not how often each was tried."""
    return " ".join(word.partition("/")[0] for word in text.split())


def events() -> dict[str, int]:
    """Return how many events each asset has had."""
    return dict(Counter(event.asset_id for event in AssetEvents.scan(consistent_read=True)))


Points = Callable[[Sequence[str]], Iterator[tuple[Kind, int]]]


def all_points(calls: Sequence[str]) -> Iterator[tuple[Kind, int]]:
    """Yield every fault at every call; to die after a read is the same as to die before it."""
    for kind, number in crash_points(calls):
        if kind != "crash-after" or calls[number - 1] not in READS:
            yield kind, number


def some_points(calls: Sequence[str]) -> Iterator[tuple[Kind, int]]:
    """Yield some of these faults, spread over the calls."""
    points = list(all_points(calls))
    return (points[len(points) * (2 * at + 1) // (2 * SOME)] for at in range(SOME))


def strike(scenario: Scenario, story: Story, points: Points) -> tuple[int, list[str]]:
    """Put a fault at each point of a scenario; return how many there are, and what went wrong."""
    wrong: list[str] = []
    with beginning(scenario.dags, scenario.arrange, story) as begun:
        begun.put_back()
        counted = Faults()
        assert try_with(counted, scenario, story)
        # Without faults it is all done by then: nothing is left to a sweep.
        assert list(wrong_after(scenario, story)) == []
        todo = list(points(counted.calls))
        for kind, number in each(todo):
            faults = Faults()
            faults.at(number, kind)
            begun.put_back()
            try:
                is_heard = try_with(faults, scenario, story)
                found = violations(is_idle=False, lowered=scenario.lowered)
                found += job_violations(story.emr, is_idle=False)
                wrong += [f"at once, {faults.injected}: {text}" for text in found]
                go_on(scenario, story, is_heard=is_heard)
            except Exception as error:  # noqa: BLE001 - all of them are listed in the end
                wrong.append(f"{faults.injected} became {error!r}")
            else:
                wrong += [f"{faults.injected}: {text}" for text in wrong_after(scenario, story)]
            assert not faults.pending
    return len(todo), wrong


def mishear(scenario: Scenario, story: Story, seeds: Sequence[int]) -> tuple[int, list[str]]:
    """Deliver the events of jobs badly; return in how many ways, and what went wrong."""
    wrong: list[str] = []
    with beginning(scenario.dags, scenario.arrange, story) as begun:
        for seed in each(seeds):
            begun.put_back()
            drop = (0.0, 0.5, 1.0)[seed % 3]
            story.emr.events = EventFaults(
                drop=drop, double=0.5, late_seconds=400 * (seed % 2), is_shuffled=True, seed=seed
            )
            scenario.ask(story)
            scenario.act(story)
            # Each step of a chain may wait for a sweep that looks at it less and less often.
            story.stack.advance(hours=4)
            wrong += [f"{story.emr.events}: {text}" for text in wrong_after(scenario, story)]
    return len(seeds), wrong


def forget(scenario: Scenario, story: Story, points: Points) -> tuple[int, list[str]]:
    """Put a fault at each call of one moment, and then let EMR know no client token any more.

    What is promised: a token is trusted for `client_token_valid_seconds` and not a second longer.
    Whoever comes later to start a job looks for it by its name, and takes the one that is there.
    """
    wrong: list[str] = []
    with beginning(scenario.dags, scenario.arrange, story) as begun:

        def begin(faults: Faults) -> None:
            begun.put_back()
            with under(faults), suppress(Crash, *OF_SERVICES):
                scenario.ask(story)
                story.stack.run_until_idle()

        counted = Faults()
        begin(counted)
        todo = list(points(counted.calls))
        for kind, number in each(todo):
            faults = Faults()
            faults.at(number, kind)
            begin(faults)
            seconds = story.stack.settings.client_token_valid_seconds + 1
            story.stack.clock.advance(timedelta(seconds=seconds))
            assert isinstance(story.emr, FakeEmr)
            story.emr.remembers_tokens = False
            go_on(scenario, story, is_heard=False)
            wrong += [f"{faults.injected}: {text}" for text in wrong_after(scenario, story)]
    return len(todo), wrong


def overtake(overtaking: Overtaking, story: Story, limit: int) -> tuple[int, list[str]]:
    """Let someone else act before each call; return how often, and what broke."""
    wrong: list[str] = []
    with beginning(overtaking.dags, overtaking.arrange, story) as begun:

        def tell(number: int) -> list[str]:
            begun.put_back()
            with overtaken(clients(), number, lambda: overtaking.meanwhile(story)) as calls:
                overtaking.first(story)
            if not number:
                overtaking.meanwhile(story)
            at_once = violations(is_idle=False, lowered=overtaking.lowered)
            found = [f"at once: {text}" for text in at_once]
            story.stack.advance(hours=2)
            found += [*sound(story), *overtaking.check(story)]
            ids = [each.dag_id for each in overtaking.dags]
            states = {without_tries(text) for text in story.states(*ids)}
            if overtaking.most_jobs is not None and most_at_once(story) > overtaking.most_jobs:
                found.append(f"{most_at_once(story)} jobs were live at once")
            if not states <= overtaking.runs:
                found.append(f"got {states} instead of {set(overtaking.runs)}")
            operation = calls[number - 1] if number else "none"
            wrong.extend(f"before call {number}, {operation}: {text}" for text in found)
            return calls

        calls = tell(0)
        points = range(1, len(calls) + 1, max(1, len(calls) // limit))
        for number in each(points):
            tell(number)
    return len(points), wrong


def race(story: Story, rounds: int) -> tuple[int, list[str]]:
    """Let two functions settle a run while another one submits it, in threads of their own."""
    wrong: list[str] = []
    scenario = SCENARIOS["two steps that end at once"]
    arrange = start_and(submit, lambda story: story.stack.clock.advance(timedelta(seconds=2)))
    with beginning(scenario.dags, arrange, story) as begun:
        for number in each(range(rounds)):
            begun.put_back()
            bodies = [json.dumps({"job": job.job_run_id}) for job in story.emr.jobs]
            bodies.append(json.dumps({"runs": [["dag", KEY]]}))
            with ThreadPoolExecutor(6) as threads:
                answers = [threads.submit(hear, body) for body in bodies]
                answers += [
                    threads.submit(advance_all, [("dag", KEY)], permissions=SUBMIT)
                    for _ in range(2)
                ]
            errors = [repr(error) for each in answers if (error := each.exception())]
            story.stack.advance(hours=1)
            found = [*errors, *wrong_after(scenario, story)]
            wrong += [f"round {number}: {text}" for text in found]
    return rounds, wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_some_calls_doubles_no_job_and_forgets_no_step(
    name: str, story: Story, report: Report
) -> None:
    """Whichever call fails, the run becomes what it would have been, with as many jobs."""
    report(name, *strike(SCENARIOS[name], story, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_events_delivered_badly_change_nothing(name: str, story: Story, report: Report) -> None:
    """Events of jobs that are late, doubled, shuffled or missing lead to the same end."""
    report(f"{name}, misheard", *mishear(SCENARIOS[name], story, range(3)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one step, and a consumer"])
def test_forgotten_tokens_double_no_job(name: str, story: Story, report: Report) -> None:
    """A job whose start was not noted is found by its name when its token is forgotten."""
    report(f"{name}, forgotten", *forget(SCENARIOS[name], story, some_points))


@pytest.mark.slow
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_overtaken_function_doubles_no_job(name: str, story: Story, report: Report) -> None:
    """Whatever someone else does in the middle, no step has two jobs and none is left behind."""
    report(f"{name}, overtaken", *overtake(OVERTAKINGS[name], story, SOME))


@pytest.mark.slow
def test_functions_at_once_double_no_job(story: Story, report: Report) -> None:
    """Of functions that move one run at the same moment, each sees what the others have done."""
    report("a race", *race(story, SOME))


@pytest.mark.full
def test_functions_at_once_many_times_double_no_job(story: Story, report: Report) -> None:
    """As above, many times, since threads meet as chance will have it."""
    report("many races", *race(story, 60))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_fault_at_every_call_doubles_no_job_and_forgets_no_step(
    name: str, story: Story, report: Report
) -> None:
    """Whatever fails at whichever call, the run becomes what it would have been."""
    report(name, *strike(SCENARIOS[name], story, all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", SCENARIOS)
def test_events_delivered_badly_in_many_ways_change_nothing(
    name: str, story: Story, report: Report
) -> None:
    """As above, with many more seeds."""
    report(f"{name}, misheard", *mishear(SCENARIOS[name], story, range(12)))


@pytest.mark.full
@pytest.mark.parametrize("name", ["one step, and a consumer", "two steps"])
def test_every_fault_with_forgotten_tokens_doubles_no_job(
    name: str, story: Story, report: Report
) -> None:
    """As above, at every call."""
    report(f"{name}, forgotten", *forget(SCENARIOS[name], story, all_points))


@pytest.mark.full
@pytest.mark.parametrize("name", OVERTAKINGS)
def test_function_overtaken_at_every_call_doubles_no_job(
    name: str, story: Story, report: Report
) -> None:
    """As above, before every single call."""
    report(f"{name}, overtaken", *overtake(OVERTAKINGS[name], story, limit=1_000))
