"""Outputs of real jobs: left by one program, read by the next, and never too large."""

from pathlib import Path

import pytest

from tests.tools.checked_deployment import LocalDeployment

pytestmark = pytest.mark.slow

JOBS = """
def load(spark, context):
    context.output["rows"] = spark.range(10).count()
    context.output["password"] = context.secret("db")


def check(spark, context):
    rows = context.input("load")["rows"]
    assert context.arguments == (str(rows), "10")
    context.output["twice"] = 2 * rows


def flood(spark, context):
    context.output["text"] = "x" * 32_001
"""
SCRIPT = """
import sys
from lamplighter_job import current_context

context = current_context()
context.output["got"] = [sys.argv[1], context.input("check")["twice"]]
"""
DAGS = """
from lamplighter import DAG, SparkTask, chain

with DAG("reading", schedule=None):
    load = SparkTask("load", job="jobs.steps:load")
    rows = "{{ outputs.load.rows }}"
    check = SparkTask("check", job="jobs.steps:check", inputs=[load], arguments=[rows, "10"])
    twice = "{{ outputs.check.twice }}"
    last = SparkTask("last", entry_point="jobs/last.py", inputs=["check"], arguments=[twice])
    chain(load, check, last, SparkTask("flood", job="jobs.steps:flood"))
"""


@pytest.mark.usefixtures("java")
def test_programs_on_spark_leave_and_read_outputs(tmp_path: Path) -> None:
    """Functions and scripts do; secrets become stars, and what is too large fails its step."""
    bundle = tmp_path / "bundle"
    for name, text in (
        ("dags/reading.py", DAGS),
        ("jobs/steps.py", JOBS),
        ("jobs/last.py", SCRIPT),
    ):
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_text(text, encoding="utf-8")
    with LocalDeployment(
        bundle,
        at="2026-01-01T00:00:00Z",
        executor="spark",
        variables={"db": "ssm:/lake/db"},
        secrets={"ssm:/lake/db": "canary-of-the-lake"},
    ) as lamp:
        lamp.trigger("reading")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("reading")
        left = {task: lamp.outputs(run, task) for task in ("load", "check", "last", "flood")}
        lamp.check_invariants()
    assert "context.output has 32,013 characters as JSON" in (run.step("flood").error or "")
    assert left == {
        "load": {"rows": 10, "password": "***"},
        "check": {"twice": 20},
        "last": {"got": ["20", 20]},
        "flood": {},
    }
