"""Secrets in a real job: given to the deployment of a test, and told by nobody."""

from pathlib import Path

import pytest

from lamplighter_local import LocalDeployment

pytestmark = pytest.mark.slow

CANARY = "canary-of-the-warehouse"
JOB = """
def run(spark, context):
    context.outlet("orders").extra["length"] = len(context.secret("db"))
    raise ValueError(f"cannot connect with {context.secret('db')}")
"""
DAG_FILE = """
from lamplighter import DAG, Asset, SparkTask

with DAG("told", schedule=None):
    SparkTask("load", job="jobs.told:run", outlets=[Asset("orders")])
"""


@pytest.mark.usefixtures("java")
def test_job_on_spark_reads_what_was_given_and_tells_stars(tmp_path: Path) -> None:
    """The value reaches the program, and neither the row of its step nor a file of the job."""
    bundle = tmp_path / "bundle"
    (bundle / "dags").mkdir(parents=True)
    (bundle / "jobs").mkdir()
    (bundle / "jobs" / "told.py").write_text(JOB)
    (bundle / "dags" / "told.py").write_text(DAG_FILE)
    folder = tmp_path / "jobs"
    with LocalDeployment(
        bundle,
        at="2026-01-01T00:00:00Z",
        executor="spark",
        variables={"db": "ssm:/lake/db"},
        secrets={"ssm:/lake/db": CANARY},
        folder=folder,
    ) as lamp:
        lamp.trigger("told")
        lamp.advance(minutes=5)
        (run,) = lamp.runs("told")
    assert "ValueError: cannot connect with ***" in (run.error or "")
    assert CANARY not in repr(run)
    files = [each for each in folder.rglob("*") if each.is_file()]
    assert {"context.json", "report.json", "log.txt"} <= {each.name for each in files}
    assert not [each for each in files if CANARY.encode() in each.read_bytes()]
