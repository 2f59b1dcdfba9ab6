"""Runs as a user watches them, and reads their logs."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask, aws, runtime
from lamplighter.executors.emr import EmrServerless
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import register_dags

Command = Callable[..., Any]

ONE = datetime(2026, 1, 5, 1)


@pytest.fixture
def emr() -> FakeEmr:
    """Return an EMR Serverless that pretends."""
    return FakeEmr()


@pytest.fixture
def stack(emr: FakeEmr) -> Iterator[LocalStack]:
    """Return a deployment with a DAG of one task, two runs of which are due."""
    with local_stack(at=ONE.add(minutes=5), on=emr) as made:
        with DAG("sales", schedule="0 * * * *", start_date=ONE.subtract(hours=2)) as dag:
            SparkTask("load", entry_point="jobs/load.py", retries=1)
        register_dags(dag)
        yield made


@pytest.fixture
def logged(stack: LocalStack) -> Iterator[LocalStack]:
    """Return a deployment that keeps the logs of its jobs."""
    place = f"s3://{stack.settings.bucket}/logs/"
    with runtime.using(settings=replace(stack.settings, job_logs_uri=place)):
        yield stack


def put_log(job_run_id: str, stream: str, text: str) -> None:
    """Put what a driver wrote where EMR Serverless does."""
    bucket, key = aws.bucket_and_key(EmrServerless().log_uri(job_run_id, stream))
    body = gzip.compress(text.encode())
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)


class TestWatch:
    @pytest.fixture(autouse=True)
    def time_that_passes(self, stack: LocalStack) -> Iterator[None]:
        """Let the deployment go on while the command waits."""
        with patch.object(stack.clock, "sleep", lambda seconds: stack.advance(seconds=seconds)):
            yield

    @pytest.mark.interferes
    def test_watch_ends_with_the_run(self, lamplighter: Command, stack: LocalStack) -> None:
        """A line for each change, and exit code 0 for a success."""
        stack.run_until_idle()
        name = f"sales/{stack.runs('sales')[0].run_id}"
        result = lamplighter("runs", "watch", name, "--every", "1")
        lines = [line.split("  ")[1:] for line in result.out.splitlines()]
        assert result.code == 0
        assert lines[0][:2] == [name, "load"]
        assert lines[-1] == [name, "success"]

    @pytest.mark.interferes
    def test_watch_of_a_failing_run_exits_one(
        self, lamplighter: Command, stack: LocalStack, emr: FakeEmr
    ) -> None:
        """A script can wait for a run; JSON is one value on each line."""
        emr.fail_next("sales", "load", times=4)
        stack.run_until_idle()
        name = f"sales/{stack.runs('sales')[0].run_id}"
        result = lamplighter("runs", "watch", name, "--every", "60", "--json")
        assert result.code == 1
        assert json.loads(result.out.splitlines()[-1]) == {
            "at": json.loads(result.out.splitlines()[-1])["at"],
            "run": name,
            "task_id": None,
            "state": "failed",
        }

    @pytest.mark.parametrize("what", [["sales"], []])
    @pytest.mark.interferes
    def test_watch_of_dags_ends_with_the_interrupt(
        self, lamplighter: Command, stack: LocalStack, what: list[str]
    ) -> None:
        """Until then, each change of a run is a line; what was over before is not news."""
        stack.advance(minutes=5)
        waits = iter([3600, 5])

        def wait(_: float) -> None:
            seconds = next(waits, None)
            if seconds is None:
                raise KeyboardInterrupt
            stack.advance(seconds=seconds)

        with patch.object(stack.clock, "sleep", wait):
            result = lamplighter("runs", "watch", *what)
        assert result.code == 0
        (line,) = result.out.splitlines()
        assert line.endswith("sales/scheduled__2026-01-05T01:00:00+00:00  success")


class TestLogs:
    def test_logs_are_those_of_the_last_attempts(
        self, lamplighter: Command, logged: LocalStack, emr: FakeEmr
    ) -> None:
        """Both streams, and an earlier attempt on demand."""
        emr.next_outcome("sales", "load", Outcome.failed("no"))
        logged.advance(minutes=15)
        run, _ = logged.runs("sales")
        name = f"sales/{run.run_id}"
        (step,) = logged.steps(run).values()
        first, second = (attempt["job_run_id"] for attempt in step.tries or ())
        put_log(first, "stderr", "Traceback: no")
        put_log(second, "stdout", "10 rows\n")
        put_log(second, "stderr", "WARN\n")
        result = lamplighter("runs", "logs", name)
        assert (result.code, result.err) == (0, "")
        assert result.out.splitlines() == [
            "==> load, try 2, stdout <==",
            "10 rows",
            "==> load, try 2, stderr <==",
            "WARN",
        ]
        result = lamplighter("runs", "logs", name, "--task", "load", "--try", "1")
        assert result.out == "==> load, try 1, stderr <==\nTraceback: no\n"
        assert result.err.startswith("no log at s3://")
        shown = json.loads(lamplighter("runs", "logs", name, "--json").out)
        assert [(log["stream"], log["text"]) for log in shown] == [
            ("stdout", "10 rows\n"),
            ("stderr", "WARN\n"),
        ]

    def test_logs_that_are_not_there_say_what_is(
        self, lamplighter: Command, logged: LocalStack
    ) -> None:
        """Where they will be, which steps there are: one line, and exit code 1."""
        logged.advance(minutes=5)
        name = f"sales/{logged.runs('sales')[0].run_id}"
        result = lamplighter("runs", "logs", name)
        assert (result.code, result.out) == (1, "")
        assert "/logs/applications/00local/jobs/" in result.err
        assert result.err.splitlines()[-1].startswith("error: logs appear some time after")
        result = lamplighter("runs", "logs", name, "--task", "loading")
        assert "has not started a step 'loading' (started: load)" in result.err
        result = lamplighter("runs", "logs", name, "--try", "7")
        assert "has no job of try 7, so there is no log" in result.err

    @pytest.mark.interferes
    def test_logs_that_are_followed_end_with_the_run(
        self, lamplighter: Command, logged: LocalStack, emr: FakeEmr
    ) -> None:
        """Each new line comes once, of every attempt, and half a line when it is whole."""
        emr.takes("sales", "load", minutes=1)
        emr.next_outcome("sales", "load", Outcome.failed("no"))
        logged.run_until_idle()
        name = f"sales/{logged.runs('sales')[0].run_id}"

        def write(seconds: float) -> None:
            logged.advance(seconds=60 * seconds)
            (step,) = logged.steps(logged.runs("sales")[0]).values()
            if step.job_run_id:
                text = f"try {step.try_number:.0f}\n"
                put_log(
                    step.job_run_id, "stdout", text + ("ov" if step.ended_at is None else "over\n")
                )

        with patch.object(logged.clock, "sleep", write):
            result = lamplighter("runs", "logs", name, "--follow")
        assert (result.code, result.err) == (0, "")
        assert result.out.splitlines() == [
            "==> load, try 1, stdout <==",
            "try 1",
            "over",
            "==> load, try 2, stdout <==",
            "try 2",
            "over",
        ]

    def test_logs_that_are_followed_are_text(
        self, lamplighter: Command, logged: LocalStack
    ) -> None:
        """Options that make no sense together are refused."""
        logged.advance(minutes=5)
        name = f"sales/{logged.runs('sales')[0].run_id}"
        result = lamplighter("runs", "logs", name, "--follow", "--json")
        assert (result.code, "omit --json and --try" in result.err) == (1, True)

    def test_logs_that_nobody_keeps_say_how_to_keep_them(
        self, lamplighter: Command, logged: LocalStack
    ) -> None:
        """The setting is named, for a run whose jobs were all on Spark."""
        logged.advance(minutes=5)
        name = f"sales/{logged.runs('sales')[0].run_id}"
        with runtime.using(settings=replace(logged.settings, job_logs_uri="")):
            result = lamplighter("runs", "logs", name)
        assert (result.code, "set job_logs_uri" in result.err) == (1, True)


class TestOpen:
    def test_open_prints_the_address_of_the_last_job(
        self, lamplighter: Command, stack: LocalStack, emr: FakeEmr
    ) -> None:
        """One address, made for this request, of the attempt that is asked for."""
        emr.next_outcome("sales", "load", Outcome.failed("no"))
        stack.advance(minutes=15)
        run, _ = stack.runs("sales")
        (step,) = stack.steps(run).values()
        first, second = (attempt["job_run_id"] for attempt in step.tries or ())
        result = lamplighter("runs", "open", f"sales/{run.run_id}")
        assert result.code == 0
        assert result.out.startswith(f"https://{second}.emrappui-prod.")
        assert result.out.count("\n") == 1
        shown = lamplighter("runs", "open", f"sales/{run.run_id}", "--try", "1", "--json")
        answer = json.loads(shown.out)
        assert answer.pop("url").startswith(f"https://{first}.emrappui-prod.")
        assert answer == {
            "task_id": "load",
            "try_number": 1,
            "job_run_id": first,
            "executor": "emr-serverless",
        }

    def test_open_of_several_jobs_asks_for_a_task(
        self, lamplighter: Command, stack: LocalStack
    ) -> None:
        """Addresses are scarce: one at a time."""
        with DAG("both", schedule=None) as dag:
            SparkTask("a", entry_point="jobs/load.py")
            SparkTask("b", entry_point="jobs/load.py")
        register_dags(dag)
        create_manual_run("both", logical_date=None, run_id="first")
        stack.advance(minutes=5)
        name = f"both/{stack.runs('both')[0].run_id}"
        result = lamplighter("runs", "open", name)
        assert (result.code, "add --task (one of a, b)" in result.err) == (1, True)
        assert lamplighter("runs", "open", name, "--task", "b").code == 0
