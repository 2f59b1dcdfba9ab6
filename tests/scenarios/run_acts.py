"""What the scenarios of runs do, and how they look at what came of it."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from pendulum import DateTime, datetime

from lamplighter import DAG, SparkTask, aws
from lamplighter.store.models import AssetEvents, Runs, Steps
from lamplighter_local.emr.fake_emr import FakeEmr, FakeJob
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags
from tests.tools.invariants.steps import job_violations
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot

BEGIN = datetime(2026, 1, 5, 12, 0, 5)


class World:
    """A deployment on a fake EMR Serverless."""

    def __init__(self, stack: LocalStack, emr: FakeEmr) -> None:
        self.stack = stack
        self.emr = emr
        self._fresh = Snapshot(stack)

    def begin_again(self) -> None:
        """Let the deployment be new."""
        self._fresh.put_back()
        # A run of the same name at the same instant would find the reports of the one before.
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.stack.settings.bucket].keys.clear()

    @property
    def now(self) -> DateTime:
        """What time it is."""
        return self.stack.clock.now()

    def register(self, *dags: DAG, bundle: str = "objects") -> None:
        """Push DAGs, and let everything come to rest."""
        register_dags(*dags, bundle=bundle)
        self.stack.run_until_idle()

    def start(self, dag: DAG | str, *, run_id: str | None = None, **asked: Any) -> Runs:
        """Push a DAG, unless only its id is given, and let someone ask for a run of it."""
        if isinstance(dag, DAG):
            self.register(dag)
        dag_id = dag.dag_id if isinstance(dag, DAG) else dag
        asked.setdefault("logical_date", None)
        run = create_manual_run(dag_id, run_id=run_id, **asked)
        self.stack.run_until_idle()
        return run

    def again(self, run: Runs) -> Runs:
        """Return a run as it is now."""
        return Runs.get(run.dag_id, run.run_key, consistent_read=True)

    def state(self, run: Runs) -> str:
        """Return the state of a run."""
        return str(self.again(run).state)

    def states(self, run: Runs) -> dict[str, str]:
        """Return the states of all steps that have one."""
        return {task: step.state for task, step in self.stack.steps(run).items()}

    def step(self, run: Runs, task: str) -> Steps:
        """Return the step of a task."""
        return self.stack.steps(run)[task]

    def jobs(self, run: Runs, *tasks: str) -> list[FakeJob]:
        """Return the jobs of a run, or of some of its tasks, oldest first."""
        return [
            job
            for job in self.emr.jobs
            if (job.dag, job.run_key) == (run.dag_id, run.run_key)
            and (not tasks or job.task in tasks)
        ]

    def order(self, run: Runs) -> list[str]:
        """Return the tasks in the order in which their jobs were started."""
        return [job.task for job in self.jobs(run)]

    def retry_attempts(self, run: Runs, task: str) -> list[float]:
        """Return the seconds between the end of each job of a task and the start of the next."""
        jobs = self.jobs(run, task)
        return [
            (after.created_at - before.ended_at).total_seconds()
            for before, after in pairwise(jobs)
            if before.ended_at is not None
        ]

    def context(self, job: FakeJob) -> dict[str, Any]:
        """Return what a job was given."""
        bucket, key = aws.bucket_and_key(job.context_uri)
        body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
        document: dict[str, Any] = json.loads(body)
        return document

    def events(self, asset: str) -> list[AssetEvents]:
        """Return the events of an asset that have a number, in their order."""
        rows = AssetEvents.query(asset, consistent_read=True)
        return sorted((row for row in rows if row.seq is not None), key=lambda row: row.seq)

    def require_sound(self, **known: Any) -> None:
        """Raise an `AssertionError` that says all that is wrong with tables and jobs."""
        found = [*violations(**known), *job_violations(self.emr)]
        assert not found, "\n".join(found)


def seconds_run(job: FakeJob) -> float:
    """Return how long a job ran that is over."""
    assert job.running_at is not None
    assert job.ended_at is not None
    return (job.ended_at - job.running_at).total_seconds()


def make(
    *tasks: str,
    links: Sequence[tuple[str, str]] = (),
    dag_id: str = "dag",
    options: dict[str, dict[str, Any]] | None = None,
    default: dict[str, Any] | None = None,
    **arguments: Any,
) -> DAG:
    """Return a DAG of tasks; `a>b` is two tasks in a row."""
    arguments.setdefault("schedule", None)
    dag = DAG(dag_id, **arguments)
    pairs = list(links)
    for text in tasks:
        names = text.split(">")
        for name in names:
            if name not in dag.tasks:
                given = {"job": "jobs:run", **(default or {}), **(options or {}).get(name, {})}
                SparkTask(name, dag=dag, **given)
        pairs += list(pairwise(names))
    for before, after in pairs:
        _ = dag.tasks[before] >> dag.tasks[after]
    return dag


@contextmanager
def new_world(at: DateTime = BEGIN) -> Iterator[World]:
    """Make a deployment on a fake EMR Serverless, on one shard of everything."""
    emr = FakeEmr()
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(
            local_stack(at=at, on=emr, variables={"data_root": "s3://lake"})
        )
        # One shard instead of many: timers read each of them, and the emulator is slow.
        made = replace(stack.settings, due_shards=1, run_shards=1)
        stack.settings = made
        yield World(stack, emr)
