"""Jobs in a local Spark: what they get, what they report, what they leave behind."""

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import boto3
import pytest
from moto import mock_aws

from lamplighter import aws, runtime
from lamplighter.executors.base import JobRequest, JobState
from tests.spark.documents import SECRET, context_document
from tests.spark.steps import Jobs, write_bundle

pytestmark = pytest.mark.slow


def test_function_job_computes_and_reports(jobs: Jobs) -> None:
    """A function gets a working session, and its facts travel in the report."""
    job = jobs.run("context.outlet('orders').extra['rows'] = spark.range(10).count()")
    assert jobs.report(job) == {
        "version": 1,
        "state": "success",
        "reason": None,
        "outlets": {"orders": {"rows": 10}},
        "aliases": {},
        "outputs": {},
        "secret": SECRET,
    }
    assert jobs.changes == [(job.job_run_id, JobState.RUNNING), (job.job_run_id, JobState.SUCCESS)]
    assert job.started_at is not None


def test_script_job_has_arguments_and_its_session(jobs: Jobs) -> None:
    """A plain PySpark script works unchanged, prints into its log, and may stop its session."""
    script = """
        import sys
        from pyspark.sql import SparkSession
        from lamplighter_job import current_context
        with SparkSession.builder.appName("plain").getOrCreate() as spark:
            spark.range(int(sys.argv[2])).createOrReplaceTempView("numbers")
            rows = spark.sql("select count(*) as n from numbers").first().n
        again = SparkSession.builder.getOrCreate().range(2).count()
        print("counted", rows)
        current_context().outlet("orders").extra.update(rows=rows, again=again)
        spark.stop()
        sys.exit(0)
    """
    job = jobs.run(script, entry_point="jobs/program.py", arguments=["--rows", "7"])
    assert jobs.facts(job) == {"rows": 7, "again": 2}
    assert "counted 7\n" in jobs.log(job)


def test_job_after_a_stop_still_has_spark(jobs: Jobs) -> None:
    """What one job stops is not what the next one uses: the process is the same."""
    tell = "import os; context.outlet('orders').extra['process'] = os.getpid()"
    before = jobs.facts(jobs.run(f"{tell}\nspark.stop()\nspark.sparkContext.stop()"))
    assert jobs.facts(jobs.run(f"{tell}\nspark.range(3).count()")) == before


def test_job_finds_nothing_of_the_job_before(jobs: Jobs) -> None:
    """Views, settings, caches, environment, path and folder are those of a fresh process."""
    look = """
        import logging, os, sys
        context.outlet("orders").extra.update(
            views=[table.name for table in spark.catalog.listTables() if table.isTemporary],
            partitions=spark.conf.get("spark.sql.shuffle.partitions"),
            environment=os.environ.get("LEFT_BEHIND"),
            path=sys.path.count("/left/behind"),
            handlers=len(logging.getLogger().handlers),
            is_own_folder=os.path.exists("context.json"),
            is_default=spark is type(spark).builder.getOrCreate(),
        )
    """
    leave = """
        import logging, os, sys
        logging.getLogger().addHandler(logging.NullHandler())
        os.environ["LEFT_BEHIND"] = "1"
        os.chdir("/")
        sys.path.insert(0, "/left/behind")
        sys.stdout = None
        spark.range(3).cache().createOrReplaceTempView("left_behind")
        type(spark).builder.config("spark.sql.shuffle.partitions", "7").getOrCreate()
    """
    before = jobs.facts(jobs.run(look))
    assert jobs.run(leave).state is JobState.SUCCESS
    assert jobs.facts(jobs.run(look)) == before
    assert before["is_own_folder"]
    assert before["is_default"]
    assert before["views"] == []


def test_settings_of_a_job_hold_for_it_alone(jobs: Jobs) -> None:
    """Settings of a session are used, those of a cluster are passed over, in the log."""
    tell = "context.outlet('orders').extra['n'] = spark.conf.get('spark.sql.shuffle.partitions')"
    conf = {"spark.sql.shuffle.partitions": "5", "spark.executor.instances": "64"}
    job = jobs.run(tell, spark_conf=conf)
    assert jobs.facts(job) == {"n": "5"}
    assert "spark.executor.instances only applies to clusters" in jobs.log(job)
    assert jobs.facts(jobs.run(tell)) == {"n": "2"}


@pytest.mark.parametrize("version", ["one", "two"])
def test_module_of_each_bundle_is_its_own(jobs: Jobs, version: str) -> None:
    """Two bundles have a module of the same name; driver and executors use the right one each."""
    program = """
        from pyspark.sql.functions import udf
        import helper
        from jobs import shared
        seen = spark.range(1).select(udf(helper.version, "string")()).first()[0]
        context.outlet("orders").extra.update(driver=helper.version(), executor=seen, n=shared.N)
    """
    modules = {
        "lib/helper.py": f"def version(): return {version!r}",
        "jobs/shared.py": f"N = {len(version)}; VERSION = {version!r}",
    }
    job = jobs.run(program, modules=modules)
    assert jobs.facts(job) == {"driver": version, "executor": version, "n": 3}


def test_instants_are_in_utc(jobs: Jobs) -> None:
    """A time without a zone means UTC, in Spark and on its way to Python."""
    program = """
        row = spark.sql("select timestamp '2026-07-01 12:00:00' as at").first()
        context.outlet("orders").extra["at"] = row.at.isoformat()
    """
    assert jobs.facts(jobs.run(program)) == {"at": "2026-07-01T12:00:00"}


def test_skip_is_a_success_without_facts(jobs: Jobs) -> None:
    """A skipped step leaves its reason in the report, and its job has succeeded."""
    job = jobs.run("from lamplighter_job import SkipStep\nraise SkipStep('no orders today')")
    assert job.state is JobState.SUCCESS
    assert jobs.report(job)["state"] == "skipped"
    assert jobs.report(job)["reason"] == "no orders today"


def test_alias_and_extras_are_reported(jobs: Jobs) -> None:
    """Assets found at run time are reported through their alias."""
    outlets = [{"kind": "asset", "name": "orders"}, {"kind": "alias", "name": "any_table"}]
    program = """
        context.outlet("orders").extra = {"rows": 1}
        context.outlet("any_table").add(uri="s3://lake/fx", extra={"rows": 2})
    """
    job = jobs.run(program, outlets=outlets)
    assert jobs.facts(job) == {"rows": 1}
    added = {"name": None, "uri": "s3://lake/fx", "extra": {"rows": 2}}
    assert jobs.report(job)["aliases"] == {"any_table": [added]}


@pytest.mark.parametrize(
    ("program", "details"),
    [
        ("raise ValueError('no such day')", "ValueError: no such day"),
        ("import sys; sys.exit(3)", "the program ended itself with sys.exit(3)"),
        ("context.outlet('orders').extra['x'] = 'x' * 40_000", "at most 32,000 are allowed"),
        ("spark.table('absent').count()", "TABLE_OR_VIEW_NOT_FOUND"),
    ],
)
def test_job_that_fails_says_why(jobs: Jobs, program: str, details: str) -> None:
    """The reason is in the job, and with its traceback in report and log."""
    job = jobs.run(program)
    assert job.state is JobState.FAILED
    assert details in job.details
    assert jobs.report(job)["state"] == "failed"
    assert "Traceback" in jobs.report(job)["reason"]
    assert "Traceback" in jobs.log(job)


def test_job_whose_files_are_missing_fails(jobs: Jobs) -> None:
    """A context that is not there fails the job and nothing else."""
    job_run_id = jobs.executor.start(JobRequest("lost", "lost", "/nowhere/c.json", "/nowhere/b"))
    assert jobs.executor.work()
    job = jobs.executor.describe(job_run_id)
    assert job is not None
    assert job.state is JobState.FAILED
    assert "/nowhere/c.json" in job.details


def test_output_of_programs_started_is_in_the_log(jobs: Jobs) -> None:
    """What a job starts prints where the job prints, and cannot read the pipe of the worker."""
    program = "import subprocess; subprocess.run('cat; echo from below; echo err >&2', shell=True)"
    log = jobs.log(jobs.run(program))
    assert "from below\n" in log
    assert "err\n" in log


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Make an empty bucket at moto's."""
    environment = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with patch.dict("os.environ", environment), mock_aws(), runtime.using(new_clients=True):
        boto3.client("s3").create_bucket(Bucket="jobs")
        yield "jobs"


def test_job_in_s3_gets_and_returns_its_files(jobs: Jobs, bucket: str, tmp_path: Path) -> None:
    """Context, bundle and a library come from S3, and the report goes there."""
    program = "import extra_library\ndef run(spark, context): print(extra_library.NAME)"
    document = context_document(job="jobs.program:run")
    objects = {
        "steps/1/context.json": json.dumps(document).encode(),
        "bundles/b.zip": write_bundle(tmp_path, {"jobs/program.py": program}),
        "libraries/extra_library.py": b"NAME = 'from s3'",
    }
    client = aws.client("s3")
    for key, body in objects.items():
        client.put_object(Bucket=bucket, Key=key, Body=body)
    job_run_id = jobs.executor.start(
        JobRequest(
            token="from-s3",  # noqa: S106 - no secret, an id
            name="from s3",
            context_uri=f"s3://{bucket}/steps/1/context.json",
            bundle_uri=f"s3://{bucket}/bundles/b.zip",
            py_files=(f"s3://{bucket}/libraries/extra_library.py",),
        )
    )
    assert jobs.executor.work()
    job = jobs.executor.describe(job_run_id)
    assert job is not None
    assert job.state is JobState.SUCCESS, job.details
    assert "from s3\n" in jobs.log(job)
    answer = client.get_object(Bucket=bucket, Key="steps/1/report.json")
    assert json.loads(answer["Body"].read())["state"] == "success"
