"""What is counted: runs of one step, one at a time and many at once; and a deployment that idles.

Owns: the stories. One at a time, every message is a batch of its own; at once, batches are full.
Timers fire anyway: a run costs what they use more than they do when nothing is due.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pendulum

from lamplighter import DAG, Asset, PythonTask, SparkTask
from lamplighter.settings import ChosenSettings
from lamplighter.topology import FUNCTIONS
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.behaviour import INSTANT
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.costs.capacity import stored_bytes
from tests.costs.prices import (
    JOB_GETS,
    JOB_LOG_BYTES,
    JOB_LOG_PUTS,
    JOB_PUTS,
    MINUTES_A_MONTH,
    PYTHON_GETS,
)
from tests.costs.usage import Usage, counting

AT_ONCE = 50
_ROUNDS, _ROUNDS_AT_ONCE = 12, 1
_STARTS = (("emr-serverless", "StartJobRun"), ("lambda", "Invoke"))
_START = pendulum.datetime(2026, 1, 1, tz="UTC")
_DAYS_A_MONTH = 30
# The tables that grow with every run.
_GROWING = ("Runs", "Steps", "Jobs", "AssetEvents")
# As deployed, where a local deployment is simpler to be fast; and a capacity that is counted, but
# large enough for all jobs.
_DEPLOYED = ("due_shards", "run_shards", "job_starts_per_second", "job_start_burst")
_SETTINGS = {
    **{name: getattr(ChosenSettings(), name) for name in _DEPLOYED},
    "spark_vcpus": 1_000,
    "spark_memory_gb": 4_000,
    "spark_disk_gb": 20_000,
}
# Bills come later than the end of a job, with an event of their own.
_BILLED_LATER = replace(INSTANT, billing_delay_seconds=30)
_TIMERS = {name: each.every_minutes for name, each in FUNCTIONS.items() if each.every_minutes}


@dataclass(frozen=True)
class Counted:
    """What was used for one run, or for one month of idling."""

    name: str
    units: Mapping[str, float]
    calls: Mapping[tuple[str, str, str], float]
    invocations: Mapping[str, float]


def idle_units() -> dict[str, Mapping[str, float]]:
    """Return what each timer uses when it finds nothing to do, by function."""
    with _deployment(_timed(AT_ONCE)) as (lamp, usage):
        lamp.advance(minutes=30)
        found: dict[str, Mapping[str, float]] = {}
        timers: Mapping[str, Callable[[], object]] = {
            "tick": lamp.stack.tick,
            "sweep": lamp.stack.sweep,
            "watch": lamp.stack.poll_sources,
        }
        for function, fire in timers.items():
            fire()  # the first one looks up what it remembers
            lamp.advance(minutes=1)
            usage.clear()
            fire()
            found[function] = dict(usage.units)
        return found


def idle_month(idle: Mapping[str, Mapping[str, float]]) -> Counted:
    """Return what the timers of a deployment use in a month in which nothing is due."""
    units: dict[str, float] = {}
    for function, each in idle.items():
        times = MINUTES_A_MONTH / _TIMERS[function]
        for name, count in each.items():
            units[name] = units.get(name, 0) + count * times
    return Counted("timers that find nothing", units, {}, {})


def timed(
    dags: int,
    idle: Mapping[str, Mapping[str, float]],
    *,
    kind: type[SparkTask | PythonTask] = SparkTask,
) -> Counted:
    """Return what a run of an hourly DAG uses when so many are due at once."""
    rounds = _ROUNDS if dags == 1 else _ROUNDS_AT_ONCE
    with _deployment(_timed(dags, kind)) as (lamp, usage):
        lamp.advance(hours=1, minutes=30)
        return _counted(
            _title("timed" if kind is SparkTask else "timed, a Python step", dags),
            lambda: lamp.advance(hours=rounds),
            usage,
            runs=dags * rounds,
            idle=idle,
        )


def asset_triggered(dags: int, idle: Mapping[str, Mapping[str, float]]) -> Counted:
    """Return what a run uses that an event of a producer triggers, when so many come at once."""
    rounds = _ROUNDS if dags == 1 else _ROUNDS_AT_ONCE
    with _deployment(_on_assets(dags)) as (lamp, usage):

        def send() -> None:
            for number in range(dags):
                lamp.emit(f"asset_{number}", extra={"rows": 1_000})
            lamp.advance(minutes=10)

        def send_rounds() -> None:
            for _ in range(rounds):
                send()

        send()
        name = _title("asset-triggered", dags)
        return _counted(name, send_rounds, usage, runs=dags * rounds, idle=idle)


def _title(kind: str, dags: int) -> str:
    return f"{kind}, {'one at a time' if dags == 1 else f'{dags} at once'}"


def _timed(count: int, kind: type[SparkTask | PythonTask] = SparkTask) -> list[DAG]:
    return [_dag(number, schedule="0 * * * *", kind=kind) for number in range(count)]


def _on_assets(count: int) -> list[DAG]:
    return [_dag(number, schedule=Asset(f"asset_{number}")) for number in range(count)]


def _dag(
    number: int, *, schedule: str | Asset, kind: type[SparkTask | PythonTask] = SparkTask
) -> DAG:
    with DAG(f"dag_{number}", schedule=schedule, start_date=_START) as dag:
        kind("only", job="jobs.only:run")
    return dag


@contextmanager
def _deployment(dags: list[DAG]) -> Iterator[tuple[LocalDeployment, Usage]]:
    emr = FakeEmr(start_seconds=60, takes_seconds=180, behaviour=_BILLED_LATER)
    with LocalDeployment(dags, at=_START, name="costs", executor=emr, settings=_SETTINGS) as lamp:
        # As deployed: ends of runs are told on a bus.
        lamp.stack.settings = replace(lamp.stack.settings, event_bus="default")
        with counting(lamp.stack) as usage:
            yield lamp, usage


def _counted(
    name: str,
    act: Callable[[], None],
    usage: Usage,
    *,
    runs: int,
    idle: Mapping[str, Mapping[str, float]],
) -> Counted:
    tables = [f"costs-{table}" for table in _GROWING]
    before = stored_bytes(tables)
    usage.clear()
    act()
    kept_months = ChosenSettings().run_retention_days / _DAYS_A_MONTH
    units = dict(usage.units)
    for function, each in idle.items():
        for unit, count in each.items():
            units[unit] = units.get(unit, 0) - count * usage.invocations[function]
    units["DynamoDB bytes stored"] = (stored_bytes(tables) - before) * kept_months
    _require_runs(usage, runs)
    is_python = usage.invocations["task"] > 0
    of_job = _of_python_job(units, runs) if is_python else _of_job(units, runs, kept_months)
    return Counted(
        name,
        {unit: count / runs for unit, count in units.items()} | of_job,
        {call: count / runs for call, count in usage.calls.items()},
        {function: count / runs for function, count in usage.invocations.items()},
    )


def _require_runs(usage: Usage, runs: int) -> None:
    """Refuse a story in which another number of jobs was started."""
    started = sum(usage.calls["submit", *each] for each in _STARTS)
    if started != runs:
        raise AssertionError(f"{runs} runs should have started a job each, but {started} did")


def _of_python_job(units: Mapping[str, float], runs: int) -> dict[str, float]:
    """Return what `task` uses of S3, with what functions use of it for one run."""
    return {"S3 GET requests": units.get("S3 GET requests", 0) / runs + PYTHON_GETS}


def _of_job(units: Mapping[str, float], runs: int, kept_months: float) -> dict[str, float]:
    """Return what a job uses of S3, with what functions use of it for one run."""
    return {
        "S3 GET requests": units.get("S3 GET requests", 0) / runs + JOB_GETS,
        "S3 PUT requests": units.get("S3 PUT requests", 0) / runs + JOB_PUTS,
        "S3 PUT requests for logs": JOB_LOG_PUTS,
        "S3 bytes of logs stored": JOB_LOG_BYTES * kept_months,
    }
