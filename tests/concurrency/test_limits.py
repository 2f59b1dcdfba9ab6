"""Storms of steps that share pools, capacity and a rate: never too many, and none forgotten.

Threads submit, settle and sweep on DynamoDB Local while calls fail, messages are lost, doubled and
come early, and the index of waiting steps is behind. Jobs are in memory, where each start is
checked against all jobs that live at that moment: what a step holds is given back only after its
job has ended, so that is the history of the limits.
"""

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime
from pynamodb.exceptions import PynamoDBException

from lamplighter import DAG, SparkTask, aws, clock, runtime, settings
from lamplighter.dags.task import Task
from lamplighter.errors import PermanentError, TransientError
from lamplighter.executors.base import Executor, Job, JobRequest, JobState, StartRate, Submission
from lamplighter.runs.advance import settle, submit, sweep_limits, sweep_runs
from lamplighter.runs.job_request import SubmissionKey
from lamplighter.runs.states import OVER
from lamplighter.store import limits
from lamplighter.store.models import Runs, Steps
from lamplighter.store.rows import connection
from lamplighter.store.runs import FINISHED, read_run
from lamplighter_operations.pools import list_pools, set_pool
from lamplighter_operations.trigger import create_manual_run
from tests.concurrency.sqs_stand_in import Message, Queues
from tests.concurrency.storms import NOW, fewer_faults
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash, Faults
from tests.tools.invariants.tables import violations

POOLS = {"few": 3, "fewer": 2}
# Of each core a job uses a bit more, as Spark does of memory: sums of fractions must be exact.
CORES, PER_CORE = 7, 1.1
# A simulated hour takes half a minute.
SPEED = 120
_EXPECTED = (TransientError, PynamoDBException, BotoCoreError, ClientError)


@dataclass(frozen=True)
class FastClock:
    """A clock that is ahead of the real one; sleeping takes real time."""

    began: float = field(default_factory=time.monotonic)

    def now(self) -> DateTime:
        """Return the simulated time."""
        return NOW.add(seconds=(time.monotonic() - self.began) * SPEED)

    def sleep(self, seconds: float) -> None:
        """Wait for a real time."""
        time.sleep(seconds)


@dataclass
class JobsInMemory(Executor):
    """An executor whose jobs end when they are told to; it notices when there are too many."""

    tasks: Mapping[tuple[str, str], Task]
    name: str = "emr-serverless"
    jobs: dict[str, Job] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    most: Counter[str] = field(default_factory=Counter)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def start(self, request: JobRequest) -> str:
        """Start a job, once for each token."""
        with self.lock:
            if request.token not in self.jobs:
                job = Job(request.token, JobState.RUNNING, request.context_uri, started_at=NOW)
                self.jobs[request.token] = job
                self._check()
        return request.token

    def find(self, submission: Submission) -> str | None:  # noqa: ARG002 - as declared
        """Return no job: none of this storm is so old that its token is not trusted."""
        return None

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job."""
        with self.lock:
            return self.jobs.get(job_run_id)

    def cancel(self, job_run_id: str) -> None:
        """End a job."""
        self.end(job_run_id, JobState.CANCELLED)

    def end(self, job_run_id: str, state: JobState) -> None:
        """Let a job end like this."""
        with self.lock:
            self.jobs[job_run_id] = replace(self.jobs[job_run_id], state=state, ended_at=NOW)

    def start_rate(self) -> StartRate | None:
        """Return a rate that some steps have to wait for."""
        return StartRate(0.5, 5)

    def capacity(self) -> Mapping[str, float]:
        """Return what there is for all jobs."""
        return {"vcpus": CORES * PER_CORE}

    def footprint(self, sizes: Mapping[str, str]) -> Mapping[str, float]:
        """Return what a job needs."""
        return {"vcpus": PER_CORE * float(sizes.get("driver_cores", 1))}

    def live(self) -> list[str]:
        """Return the jobs that have not ended."""
        with self.lock:
            return [key for key, job in self.jobs.items() if not job.state.is_over]

    def _check(self) -> None:
        used: Counter[str] = Counter()
        for token in self.live():
            key = SubmissionKey.read(self.jobs[token].context_uri, bucket="bucket")
            assert key is not None
            task = self.tasks[key.dag_id, key.task_id]
            assert isinstance(task, SparkTask)
            used[f"step {key.dag_id} {key.run_key} {key.task_id}"] += 1
            used[str(task.pool)] += task.pool_slots
            used["cores"] += task.driver_cores or 1
        for name, number in used.items():
            self.most[name] = max(self.most[name], number)
            allowed = {"None": number, "cores": CORES, **POOLS}.get(name, 1)
            if number > allowed:
                self.wrong.append(f"{number} of {name} at once where {allowed} are allowed")


class NoObjects:
    """An S3 that takes everything and has nothing."""

    def put_object(self, **_: object) -> None:
        """Take an object."""

    def get_object(self, **_: object) -> None:
        """Say that there is none."""
        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")


def make_dags(number: int) -> list[DAG]:
    """Return DAGs whose steps need different things."""
    dags = []
    for each in range(number):
        with DAG(f"dag{each}", schedule=None, max_active_runs=16) as made:
            pool = ("few", "fewer", None)[each % 3]
            first = SparkTask("a", job="jobs:run", pool=pool, pool_slots=1 + each % 2, retries=20)
            first >> SparkTask("b", job="jobs:run", driver_cores=1 + each % 4, retries=20)
            SparkTask("c", job="jobs:run", pool="few", priority_weight=1 + each, retries=20)
        dags.append(made)
    return dags


@dataclass
class Storm:
    """What the threads share."""

    jobs: JobsInMemory
    queues: Queues
    chance: random.Random
    errors: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, role: str) -> None:
        """Be one function, over and over again, until all is over."""
        act: Callable[[], bool] = getattr(self, role)
        while not self.is_over.is_set():
            outcome = "done"
            try:
                if not act():
                    time.sleep(0.02)
            except Crash:
                outcome = "died"
            except (*_EXPECTED, PermanentError) as error:
                outcome = f"failed: {type(error).__name__}"
            except Exception as error:  # noqa: BLE001 - the test must hear of it
                self.errors.append(repr(error))
            self.outcomes[f"{role}: {outcome}"] += 1

    def submit(self) -> bool:
        """Be the function that starts jobs."""
        with self.queues["submits"].receive(1) as (messages, _):
            for message in messages:
                if _is_early(message):
                    time.sleep(0.02)
                submit(message.body, has_time=lambda: True)
        return bool(messages)

    def settle(self) -> bool:
        """Be the function that hears of jobs."""
        with self.queues["jobstates"].receive(1) as (messages, _):
            for message in messages:
                settle(message.body)
        return bool(messages)

    def end_jobs(self) -> bool:
        """Be the platform: let a job end, of which nobody may hear."""
        live = self.jobs.live()
        if not live:
            return False
        job = self.chance.choice(live)
        state = JobState.SUCCESS if self.chance.random() < 0.9 else JobState.FAILED
        self.jobs.end(job, state)
        if self.chance.random() < 0.95:
            body = json.dumps({"job": job, "executor": self.jobs.name})
            self.queues["jobstates"].put(Message(body))
        time.sleep(0.3)  # so that most of the time all limits are reached
        return True

    def sweep(self) -> bool:
        """Be the sweep, a little more often than it comes."""
        for _ in sweep_runs(has_time=lambda: not self.is_over.is_set()):
            pass
        sweep_limits()
        time.sleep(2)
        return True

    def watch(self) -> bool:
        """See that nothing is ever short, and whether all runs are over."""
        for row in limits.all_counters():
            if short := [free for free in limits.free_of(row).values() if free < 0]:
                self.errors.append(f"{row.limit_id} is short: {short}")
        states = Counter(run.state for run in Runs.scan(consistent_read=True))
        if states and states.keys() <= FINISHED:
            self.is_over.set()
        time.sleep(0.5)
        return True


def _is_early(message: Message) -> bool:
    at = json.loads(message.body).get("at")
    return at is not None and at > clock.now().isoformat()


ROLES = {"submit": 8, "settle": 4, "end_jobs": 1, "sweep": 1, "watch": 1}


@contextmanager
def deployment(monkeypatch: pytest.MonkeyPatch, dags: list[DAG]) -> Iterator[Storm]:
    """Yield a storm on the tables, which has not begun."""
    tasks = {(dag.dag_id, task.task_id): task for dag in dags for task in dag.tasks.values()}
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - to be seen when it fails
    storm = Storm(JobsInMemory(tasks), Queues(lost=0.05, repeated=0.05), chance=random.Random(seed))
    clients: dict[str, Any] = {"sqs": storm.queues.client(), "s3": NoObjects()}
    monkeypatch.setattr(aws, "client", lambda name, **_: clients[name])
    urls = {**settings.current().queue_urls, "jobstates": "https://sqs/jobstates"}
    # Real time is short here, so that what was lost is found soon. DynamoDB Local expires rows by
    # the real date, which may be later than those of the storm.
    made = replace(
        settings.current(),
        queue_urls=urls,
        client_token_valid_seconds=3_600,
        run_retention_days=3_650,
    )
    with runtime.using(settings=made, clock=FastClock(), executor=storm.jobs):
        register_dags(*dags)
        yield storm


def rage(storm: Storm, *, seconds: float) -> None:
    """Let all threads work until all runs are over, or time is up."""
    roles = [role for role, number in ROLES.items() for _ in range(number)]
    threads = [threading.Thread(target=storm.run, args=[role], daemon=True) for role in roles]
    faults = Faults(storm.chance.randrange(10**6))
    faults.probability(**fewer_faults(0.2))
    with faults.on(connection().client):
        for thread in threads:
            thread.start()
        storm.is_over.wait(seconds)
        storm.is_over.set()
        for thread in threads:
            thread.join(60)


def unfinished() -> Iterator[str]:
    """Yield the steps that are not over, and what they wait for."""
    yield f"now {clock.now()}"
    for step in Steps.scan(consistent_read=True):
        if step.state not in OVER:
            dag_id, _, run_key = step.run_ref.partition("|")
            run = read_run(dag_id, run_key)
            yield f"{step.attribute_values} in a run that wakes at {run and run.wake_at}"


def tell(dags: list[DAG], runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a storm rage over some runs of each DAG, and judge it."""
    with deployment(monkeypatch, dags) as storm:
        for pool, slots in POOLS.items():
            set_pool(pool, slots)
        for dag in dags:
            for number in range(runs):
                create_manual_run(dag.dag_id, logical_date=None, run_id=f"run{number}")
        rage(storm, seconds=600)
        most = {name: storm.jobs.most[name] for name in (*POOLS, "cores")}
        print(storm.outcomes, most, len(storm.jobs.jobs))  # noqa: T201 - as above
        assert storm.errors == []
        assert storm.jobs.wrong == []
        print(*unfinished(), sep="\n")  # noqa: T201 - as above
        states = Counter(run.state for run in Runs.scan(consistent_read=True))
        assert states == {"success": len(dags) * runs}
        assert [(pool.used, pool.waiting) for pool in list_pools()] == [(0, 0)] * len(POOLS)
        assert violations(is_idle=False) == []


def test_storm_of_steps_that_share_limits_never_exceeds_them(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails, no limit is exceeded, all runs end, and all is given back."""
    assert environment
    tell(make_dags(6), 2, monkeypatch)


@pytest.mark.full
def test_long_storm_of_steps_that_share_limits_never_exceeds_them(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, with many more runs."""
    assert environment
    tell(make_dags(30), 2, monkeypatch)


def test_starts_that_many_reserve_at_once_follow_each_other(environment: dict[str, str]) -> None:
    """Ten threads want the same row; each gets its start, and no two the same."""
    assert environment
    now = clock.now()
    with runtime.using(clock=FastClock()), ThreadPoolExecutor(10) as threads:
        found = list(
            threads.map(lambda _: limits.reserve_start("starts:x", 1, 1, now=now), range(150))
        )
    assert sorted(found) == [now.add(seconds=second) for second in range(150)]
