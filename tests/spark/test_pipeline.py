"""The example pipeline from end to end: the real functions on moto, its jobs on a real Spark.

What it writes must equal a calculation in plain Python over the same raw lines, also when attempts
fail after they have done their work, runs are cleared, and events come twice.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from datetime import datetime as plain_datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from pendulum import DateTime, datetime

from jobs.shop.arithmetic import Numbers
from jobs.shop.generate import land_with_python
from jobs.shop.records import Shop, lines, publications
from lamplighter import queues
from lamplighter.executors.base import Job, JobState
from lamplighter.store.models import AssetEvents
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.runs import clear_run
from tests.spark.examples import shop_in_python as oracle
from tests.spark.steps import Jobs
from tests.tools.invariants.tables import require_sound

EXAMPLES = Path(__file__).parents[2] / "examples"
# Midnight in Zurich, where the shop's days begin.
START = datetime(2025, 12, 31, 23)
# Half past four there: the first exchange rates have been loaded, and with them the revenue.
AFTERNOON = datetime(2026, 1, 1, 15, 30)
# Six o'clock there, when the first interval of the rates begins; what came before is in none.
FIRST_RATES = "2026-01-01T05:00:00"
SHOP = Shop(orders=600, days=3, seed=7, start=date(2025, 12, 31))

READ = """
context.outlet("orders").extra["rows"] = [
    [row.country, row.product_id, str(row.day), row.orders, str(row.net)]
    for row in spark.read.parquet({path!r}).orderBy("day", "country", "product_id").collect()
]
"""


@pytest.fixture
def raw(tmp_path: Path) -> list[oracle.Line]:
    """Land the shop's raw files, and return their lines."""
    land_with_python(SHOP, tmp_path)
    return [oracle.Line(*line) for line in (*lines(SHOP, Numbers()), *publications(SHOP))]


@contextmanager
def pipeline(jobs: Jobs, root: Path) -> Iterator[LocalStack]:
    """Push the examples to a deployment whose jobs run on Spark, when the shop opens."""
    variables = {"data_root": str(root)}
    with local_stack(at=START.add(minutes=1), on=jobs.executor, variables=variables) as stack:
        stack.push(EXAMPLES)
        yield stack


@contextmanager
def every_job_fails_at_first() -> Iterator[None]:
    """Let the first attempt of each step be reported as failed, when its work has been done."""
    describe = LocalSparkExecutor.describe

    def reported(executor: LocalSparkExecutor, job_run_id: str) -> Job | None:
        job = describe(executor, job_run_id)
        if job is None or job.state is not JobState.SUCCESS or "/1-" not in job.context_uri:
            return job
        return replace(job, state=JobState.FAILED, details="the driver was lost at the very end")

    with patch.object(LocalSparkExecutor, "describe", reported):
        yield


def states(stack: LocalStack) -> dict[str, set[str]]:
    """Return which states the runs of each DAG are in."""
    dags = ("orders_hourly", "fx_twice_a_day", "revenue_daily", "weekly_report")
    return {dag: {run.state for run in stack.runs(dag)} for dag in dags}


def revenue(jobs: Jobs, root: Path) -> dict[oracle.Key, tuple[int, int]]:
    """Return orders and net cents by day, country and product, as the pipeline wrote them."""
    job = jobs.run(READ.format(path=f"{root}/revenue"))
    return {
        (date.fromisoformat(day), country, product): (orders, round(float(net) * 100))
        for country, product, day, orders, net in jobs.facts(job)["rows"]
    }


def expected(raw: list[oracle.Line], until: DateTime) -> dict[oracle.Key, tuple[int, int]]:
    """Return what plain Python says, given the hours and rates that are known until then."""
    begin, end = (
        plain_datetime.fromisoformat(at.isoformat()) for at in (START, until.start_of("hour"))
    )
    hours = oracle.hours(begin, end)
    loaded = [line for line in raw if line.table != "fx" or _published_at(line) >= FIRST_RATES]
    found = oracle.revenue(loaded, hours, until.format("YYYY-MM-DDTHH:mm:ss"))
    return {key: (sales.orders, sales.net) for key, sales in found.items()}


def _published_at(line: oracle.Line) -> str:
    return str((oracle.parsed(line.text) or {}).get("published_at", ""))


@pytest.mark.full
def test_pipeline_agrees_with_plain_python(
    jobs: Jobs, tmp_path: Path, raw: list[oracle.Line]
) -> None:
    """After a day's first rates the revenue is right, and repeating runs and events keeps it so."""
    with pipeline(jobs, tmp_path) as stack:
        stack.advance(to=AFTERNOON.add(minutes=5))
        assert states(stack) == {
            "orders_hourly": {"success"},
            "fx_twice_a_day": {"success"},
            "revenue_daily": {"success"},
            "weekly_report": {"success"},
        }
        wanted = expected(raw, AFTERNOON)
        assert revenue(jobs, tmp_path) == wanted

        for dag in ("orders_hourly", "revenue_daily", "weekly_report"):
            clear_run(dag, stack.runs(dag)[0].run_key)
        for event in AssetEvents.query("orders"):
            # As somebody else would: what sends events refuses the ids of outlets.
            body = {
                "asset": "orders",
                "event_id": event.event_id,
                "extra": {"days": ["1999-01-01"]},
            }
            queues.send("events", [{"MessageBody": json.dumps(body)}])
        stack.advance(minutes=5)
        assert {state for found in states(stack).values() for state in found} == {"success"}
        assert revenue(jobs, tmp_path) == wanted
        require_sound()


@pytest.mark.full
def test_pipeline_agrees_though_every_attempt_fails_once(
    jobs: Jobs, tmp_path: Path, raw: list[oracle.Line]
) -> None:
    """Two days in which each step is run twice give the same tables."""
    # The last afternoon on which the shop knows of new rates, without which no revenue is computed.
    until = AFTERNOON.add(days=1)
    with pipeline(jobs, tmp_path) as stack, every_job_fails_at_first():
        stack.advance(to=until.add(minutes=20))
        assert {state for found in states(stack).values() for state in found} == {"success"}
        tries = [
            step.try_number
            for run in stack.runs("orders_hourly")
            for step in stack.steps(run).values()
        ]
        assert set(tries) == {2}
        assert revenue(jobs, tmp_path) == expected(raw, until)
        require_sound()
