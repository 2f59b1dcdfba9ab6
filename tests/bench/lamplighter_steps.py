"""Lets Lamplighter execute runs of one step, and measures it.

Owns: what is timed, which is from a claimed run to a finished one: `submit` with a batch of runs,
then `settle` with a batch of state changes, over HTTP to an emulator in another process. What the
job itself does is not in it. The counterpart is `airflow_steps.py`.
"""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import boto3
import pendulum

from lamplighter import (
    DAG,
    Asset,
    PythonTask,
    SparkTask,
    StepFunctionsTask,
    runtime,
    settings,
)
from lamplighter.dags.task import Task
from lamplighter.executors.emr import EVENT_TYPE
from lamplighter.queues import RUNS_PER_MESSAGE, RunName, chunks, read_runs
from lamplighter.runs.advance import SUBMIT, advance_all, settle
from lamplighter.runs.states import SUBMITTED
from lamplighter.scheduler.tick import tick
from lamplighter.store.models import Runs, Steps
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import local_stack
from tests.bench.costs import EXECUTE, Cost
from tests.bench.lamplighter_runs import deployment
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags
from tests.tools.faults import POLLING

_ROUNDS = 3
_AT = pendulum.datetime(2026, 1, 1, 12, 30)
_HOURS = 6
# By kind, what makes a task with an argument that is a template.
_TASKS: dict[str, Callable[..., Task]] = {
    SparkTask.kind: partial(SparkTask, "only", entry_point="jobs/only.py", arguments=["{{ ds }}"]),
    PythonTask.kind: partial(PythonTask, "only", job="jobs.only:run", arguments=["{{ ds }}"]),
    StepFunctionsTask.kind: partial(
        StepFunctionsTask, "only", state_machine="only", input={"day": "{{ ds }}"}
    ),
}
# What changes something: the rest reads, or carries messages that many runs share.
WRITES = frozenset(
    {"TransactWriteItems", "UpdateItem", "PutItem", "DeleteItem", "StartJobRun", "CancelJobRun"}
)


def measure(runs: int) -> Cost:
    """Return what one run of one step costs, the best of some rounds."""
    return min((_measure(runs) for _ in range(_ROUNDS)), key=lambda cost: cost.cpu)


def _measure(runs: int) -> Cost:
    with deployment():
        application = boto3.client("emr-serverless").create_application(
            name="bench", releaseLabel="emr-7.10.0", type="SPARK"
        )
        given = replace(settings.current(), emr_application_id=application["applicationId"])
        with runtime.using(settings=given):
            register_dags(*(_dag(number) for number in range(runs + 1)))
            tick(has_time=lambda: True)
            first, *others = sorted((run.dag_id, run.run_key) for run in Runs.scan())
            _execute([first])  # clients are made once in the life of a process
            with counted_calls() as calls:
                cpu, elapsed = _execute(others)
            states = Counter(run.state for run in Runs.scan())
    if states != {"success": runs + 1}:
        raise AssertionError(states)
    requests = {name: count / runs for name, count in calls.items() if name != "Scan"}
    return Cost(EXECUTE, runs, cpu / runs, 0, elapsed / runs, requests)


def _execute(names: list[RunName]) -> tuple[float, float]:
    """Submit and settle runs; return the seconds of CPU and of the clock that this took."""
    messages = [json.dumps({"runs": chunk}) for chunk in chunks(names, RUNS_PER_MESSAGE)]
    began, cpu = time.perf_counter(), time.process_time()
    for message in messages:
        advance_all(read_runs(json.loads(message)), permissions=SUBMIT)
    cpu, elapsed = time.process_time() - cpu, time.perf_counter() - began
    changes = [_state_change(step.job_run_id) for step in Steps.scan() if step.state == SUBMITTED]
    began, more = time.perf_counter(), time.process_time()
    for change in changes:
        settle(change)
    return cpu + time.process_time() - more, elapsed + time.perf_counter() - began


def _state_change(job_run_id: str | None) -> str:
    application = settings.current().emr_application_id
    detail = {"applicationId": application, "jobRunId": job_run_id}
    return json.dumps({"detail-type": EVENT_TYPE, "detail": detail})


def calls_per_run(dags: int, kind: str = SparkTask.kind) -> dict[str, float]:
    """Return the calls of AWS that so many runs of one step make, from due to done, each its share.

    All functions run as they do when deployed: tick, claim, submit, and settle for each change of
    state that is told; of `task`, what it asks for a job but its bundle and its credentials.
    Lambda's own polling is left out.
    """
    emr = FakeEmr()
    with local_stack(at=_AT.add(minutes=31), on=emr, over_http=True) as stack:
        register_dags(*(_dag(number, hour=13, kind=kind) for number in range(dags)))
        with counted_calls() as calls:
            stack.tick()
            for seconds in (0, 0.6, 0.6):  # the jobs begin, and are over
                stack.clock.move(to=stack.clock.now().add(microseconds=int(seconds * 1e6)))
                stack.run_until_idle()
        states = Counter(run.state for run in Runs.scan())
    if states != {"success": dags}:
        raise AssertionError(states)
    return {name: count / dags for name, count in calls.items() if name not in POLLING}


def seconds_to_running(kind: str) -> float:
    """Return how long after it is due a step of a kind runs, by the clock of a local deployment.

    Jobs start as slowly as on a new application of EMR Serverless; the others' starts are made up.
    """
    with LocalDeployment([_dag(0, kind=kind)], at=_AT, executor="emr") as lamp:
        lamp.advance(hours=_HOURS)
        runs = [run for run in lamp.runs("dag_0") if run.state == "success"]
    started = [(run.run_after, step.started_at) for run in runs for step in run.steps]
    return median((at - due).total_seconds() for due, at in started if at is not None)


def _dag(number: int, *, hour: int = 12, kind: str = SparkTask.kind) -> DAG:
    start = _AT.set(hour=hour, minute=0).subtract(hours=1)
    asset = Asset(f"asset_{number}")
    with DAG(f"dag_{number}", schedule="0 * * * *", start_date=start) as dag:
        _TASKS[kind](outlets=[asset])
    return dag
