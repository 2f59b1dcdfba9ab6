"""DAGs of all kinds of task, each for a part of their lives, such as a retry, a skip or a cancel.

Owns: the bundle, and the state machine that its executions are of. What a step does follows from
the name of its DAG; jobs on Spark are planned with the fake, which runs no programs.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from lamplighter import aws, settings
from lamplighter.store.models import Jobs
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.emr.scripts import StepKey, step_of
from lamplighter_operations.push import push_bundle

NEVER = datetime.max.replace(tzinfo=UTC)
TASKS = ("load", "export", "check")
_DAGS = """\
from datetime import datetime, timedelta, timezone
from lamplighter import DAG, Asset, PythonTask, SparkTask, StepFunctionsTask

def of_all_kinds(dag_id, schedule=None, **options):
    with DAG(dag_id, schedule=schedule, start_date=START, default_args=options) as dag:
        SparkTask("load", job="jobs.life:check")
        StepFunctionsTask("export", state_machine="life", input={"act": dag_id})
        PythonTask("check", job="jobs.life:check")
    return dag

START = datetime.fromisoformat(GIVEN)
fails = of_all_kinds("life_fails", retries=1, retry_delay=timedelta(0))
skips = of_all_kinds("life_skips", outlets=[Asset("never")])
hangs = of_all_kinds("life_hangs", execution_timeout=timedelta(seconds=45))
held = of_all_kinds("life_held")
past = of_all_kinds("life_past", "@daily", depends_on_past=True)
"""
_JOBS = """\
import time
from lamplighter_job import SkipStep

def check(context):
    if context.dag_id == "life_fails" and context.try_number == 1:
        raise ValueError("not yet")
    if context.dag_id == "life_skips":
        raise SkipStep("a holiday")
    if context.dag_id in {"life_hangs", "life_held"}:
        time.sleep(800)
"""


def _is(act: str) -> dict[str, str]:
    return {"Variable": "$.act", "StringEquals": act}


STATE_MACHINE: dict[str, Any] = {
    "StartAt": "Act",
    "States": {
        "Act": {
            "Type": "Choice",
            "Choices": [
                {
                    "And": [
                        _is("life_fails"),
                        {"Variable": "$.lamplighter.try_number", "NumericEquals": 1},
                    ],
                    "Next": "Fail",
                },
                {**_is("life_skips"), "Next": "Skip"},
                {"Or": [_is("life_hangs"), _is("life_held")], "Next": "Hang"},
            ],
            "Default": "Done",
        },
        "Fail": {"Type": "Fail", "Error": "NotYet", "Cause": "not yet"},
        "Skip": {"Type": "Fail", "Error": "SkipStep", "Cause": "a holiday"},
        "Hang": {"Type": "Wait", "Seconds": 3000, "Next": "Done"},
        "Done": {"Type": "Succeed"},
    },
}


def push_life(folder: Path, emr: FakeEmr) -> None:
    """Push the DAGs, of which the last owes the two days before today; plan the jobs on Spark."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    start = (today - timedelta(days=2)).isoformat()
    root = folder / "life"
    for name, text in (
        ("dags/life.py", _DAGS.replace("GIVEN", repr(start))),
        ("jobs/life.py", _JOBS),
    ):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text(text)
    emr.next_outcome("life_fails", "load", Outcome.failed("not yet"))
    emr.next_outcome("life_skips", "load", Outcome.skipped("a holiday"))
    for dag in ("life_hangs", "life_held"):
        emr.next_outcome(dag, "load", Outcome.hangs())
    push_bundle(root, "life")


def jobs_by_step() -> dict[StepKey, list[tuple[datetime, datetime]]]:
    """Return when the jobs of each step lived, on Lambda and as executions, oldest first."""
    found: dict[StepKey, list[tuple[datetime, datetime]]] = {}
    for uri, *times in (*_python_jobs(), *_executions()):
        began_at, ended_at = (NEVER if at is None else at for at in times)
        step = step_of(uri)._replace(submission=0)
        found.setdefault(step, []).append((began_at, ended_at))
    return {step: sorted(lives) for step, lives in found.items() if step.dag.startswith("life_")}


def _python_jobs() -> Iterator[tuple[str, datetime | None, datetime | None]]:
    for row in Jobs.scan(consistent_read=True):
        yield row.context_uri, row.started_at, row.ended_at


def _executions() -> Iterator[tuple[str, datetime | None, datetime | None]]:
    client = aws.client("stepfunctions")
    machine = f"{settings.current().state_machine_prefix}life"
    for each in client.list_executions(stateMachineArn=machine)["executions"]:
        said = client.describe_execution(executionArn=each["executionArn"])
        uri = json.loads(said["input"])["lamplighter"]["context_uri"]
        yield uri, said["startDate"], said.get("stopDate")


def overlap(lives: list[tuple[datetime, datetime]]) -> bool:
    """Return whether one began before the one before it had ended, or never ended."""
    return any(ended >= NEVER for _, ended in lives) or any(
        later[0] < earlier[1] for earlier, later in pairwise(lives)
    )
