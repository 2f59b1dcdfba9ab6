"""The function `task`: one job in a process of its own, whatever its function does there."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import aws
from lamplighter.bundles.archive import build_archive
from lamplighter.executors import job_process
from lamplighter.executors.aws_lambda import LambdaFunction
from lamplighter.executors.base import Job
from lamplighter.executors.python_job import Host, run_job
from lamplighter.identifiers import bundle_key
from lamplighter.store.jobs import cancel_job, request_job
from lamplighter.store.rows import connection
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from tests.patience import LONG_SECONDS
from tests.spark.documents import SECRET, context_document
from tests.tools.faults import Faults
from tests.tools.snapshot import begin_anew

JOB = "orders/first/clean/1#0123456789ab"
FOLDER = "jobs/orders/first/clean/1-0123456789ab"
# What an invocation has beside the time of its job.
END = 30.0


@pytest.fixture(scope="module")
def stack() -> Iterator[LocalStack]:
    """Yield a deployment for a module, since to make one takes longer than most tests."""
    with local_stack(at=datetime(2026, 1, 5), on=FakeEmr()) as made:
        yield made


class Step:
    """A job that is requested, and what comes of it."""

    def __init__(self, stack: LocalStack, root: Path, name: str = JOB) -> None:
        self.root, self.bucket, self.name = root, stack.settings.bucket, name
        self.lines: list[dict[str, Any]] = []
        self.on_line: Callable[[], object] = lambda: None

    def write(self, text: str) -> None:
        """Take a line of the log."""
        self.lines.append(json.loads(text))
        self.on_line()

    def request(
        self, body: str, *, timeout: timedelta | None = None, files: dict[str, str] | None = None
    ) -> None:
        """Request a job whose function has this body."""
        indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
        program = f"import os, sys, time\n\ndef main(context):\n{indented}\n"
        for name, text in {"jobs/x.py": program, "dags/a.py": "", **(files or {})}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        archive = build_archive(self.root)
        key = bundle_key("orders", archive.hash)
        context = context_document(job="jobs.x:main", arguments=["one"])
        self._put(key, archive.data)
        self._put(f"{FOLDER}/context.json", json.dumps(context).encode())
        request_job(
            self.name,
            context_uri=f"s3://{self.bucket}/{FOLDER}/context.json",
            bundle_uri=f"s3://{self.bucket}/{key}",
            timeout=timeout,
        )

    def _put(self, key: str, body: bytes) -> None:
        aws.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def run(
        self, *, seconds: float = LONG_SECONDS, environment: dict[str, str] | None = None
    ) -> Job:
        """Run it as `task` does; return what the executor says of it."""
        run_job(self.name, Host(seconds + END, 1_024, self.write, environment or {}))
        job = LambdaFunction().describe(self.name)
        assert job is not None
        return job

    @property
    def report(self) -> dict[str, Any] | None:
        """What the job has left as its report, once it is over."""
        s3 = aws.client("s3")
        try:
            found = s3.get_object(Bucket=self.bucket, Key=f"{FOLDER}/report.json")
        except s3.exceptions.NoSuchKey:
            return None
        document: dict[str, Any] = json.loads(found["Body"].read())
        return document

    def said(self, stream: str) -> list[str]:
        """Return what the function has written to a stream."""
        return [line["message"] for line in self.lines if line["stream"] == stream]


@pytest.fixture
def step(stack: LocalStack, tmp_path: Path) -> Step:
    """Return a step of a bundle, in a deployment that has none yet."""
    begin_anew(stack, at=datetime(2026, 1, 5))
    return Step(stack, tmp_path / "bundle")


def test_function_gets_context_and_states_facts(step: Step) -> None:
    """It reads its context and arguments; what it says of outlets is in the signed report."""
    step.request("context.outlet('orders').extra['by'] = [context.task_id, *context.arguments]")
    job = step.run()
    assert (job.state, job.details) == ("SUCCESS", "")
    assert step.report is not None
    assert (step.report["state"], step.report["secret"]) == ("success", SECRET)
    assert step.report["outlets"] == {"orders": {"by": ["clean", "one"]}}


def test_bundle_and_its_libraries_are_on_the_path(step: Step) -> None:
    """A function imports its neighbours in jobs/ and packages in lib/, and needs no Spark."""
    files = {"jobs/beside.py": "WORD = 'a'", "lib/deep/__init__.py": "WORD = 'b'"}
    body = "import beside, deep\nprint(beside.WORD, deep.WORD, 'pyspark' in sys.modules)"
    step.request(body, files=files)
    assert step.run().state == "SUCCESS"
    assert step.said("stdout") == ["a b False"]


def test_lines_of_the_log_say_whose_they_are(step: Step) -> None:
    """Each line is JSON with the job, its step and the stream."""
    step.request("print('out')\nsys.stderr.write('without an end')")
    step.run()
    line = next(line for line in step.lines if line["stream"] == "stdout")
    assert line == {
        "job": JOB,
        "dag_id": "orders_hourly",
        "run_id": "scheduled__2026-01-05T00:00:00Z",
        "task_id": "clean",
        "try_number": 1,
        "stream": "stdout",
        "message": "out",
    }
    assert "without an end" in "".join(step.said("stderr"))


@pytest.mark.parametrize(
    ("body", "state", "said"),
    [
        ("from lamplighter_job import SkipStep\nraise SkipStep('no rows')", "SUCCESS", "no rows"),
        ("raise ValueError('no rates')", "FAILED", "ValueError: no rates"),
        ("sys.exit(3)", "FAILED", "sys.exit(3)"),
        ("sys.exit(0)", "SUCCESS", None),
        ("os._exit(0)", "FAILED", "its process ended before its function did (exit code 0)"),
        ("os.abort()", "FAILED", "its process died of Aborted"),
        ("os.kill(os.getpid(), 9)", "FAILED", "probably needed more memory than task_memory_mb"),
        ("import nothing.here", "FAILED", "No module named 'nothing'"),
    ],
)
def test_end_of_a_function_is_that_of_its_step(
    step: Step, body: str, state: str, said: str | None
) -> None:
    """Whatever a function does, its step has an end that says so."""
    step.request(body)
    job = step.run()
    assert job.state == state
    found = job.details if step.report is None else step.report["reason"]
    assert (found is None) if said is None else said in found


def test_step_that_takes_too_long_is_ended(step: Step) -> None:
    """Its own limit ends it, and the text names that."""
    step.request("time.sleep(600)", timeout=timedelta(seconds=1))
    job = step.run()
    assert (job.state, job.details) == ("FAILED", "execution_timeout: it ran for longer than 1 s")


def test_step_is_ended_before_its_invocation(step: Step) -> None:
    """Without a limit of its own, it ends while there is time to say why."""
    step.request("time.sleep(600)", timeout=timedelta(hours=1))
    job = step.run(seconds=1)
    assert job.state == "FAILED"
    assert job.details.startswith("it ran for longer than the 1 s that Lambda has for a step")


def test_cancelled_step_is_ended_within_seconds(step: Step) -> None:
    """Whoever cancels it asks the row, which the invocation looks at."""
    step.request("print('begun', flush=True)\ntime.sleep(600)")
    step.on_line = lambda: cancel_job(JOB)
    with patch.object(job_process, "_SECONDS_BETWEEN_LOOKS", 0.1):
        job = step.run()
    assert (job.state, job.details) == ("CANCELLED", "it was cancelled while it ran")


def test_step_goes_on_while_its_row_cannot_be_read(step: Step) -> None:
    """Whether it is cancelled is unknown for a moment, and that ends no work."""
    step.request("time.sleep(0.5)\nprint('done')")
    faults = Faults()
    faults.probability("GetItem", throttle=1.0)
    with (
        patch.object(job_process, "_SECONDS_BETWEEN_LOOKS", 0.1),
        faults.on(connection().client),
    ):
        run_job(JOB, Host(LONG_SECONDS + END, None, step.write))
    job = LambdaFunction().describe(JOB)
    assert (job is not None and job.state, step.said("stdout")) == ("SUCCESS", ["done"])
    assert any("GetItem" in each for each in faults.injected)


def test_step_cancelled_before_it_begins_never_does(step: Step) -> None:
    """An invocation that comes later finds nothing to do."""
    step.request("print('begun')")
    cancel_job(JOB)
    assert (step.run().state, step.lines) == ("CANCELLED", [])


def test_invocation_that_comes_again_runs_nothing(step: Step) -> None:
    """Neither while a job runs nor after it does another invocation of it do anything."""
    step.request("print('begun', flush=True)")
    answers: list[dict[str, bool]] = []
    step.on_line = lambda: answers.append(handlers.call("task", {"job": JOB}))
    assert step.run().state == "SUCCESS"
    step.on_line()
    assert answers == [{"has_run": False}] * len(answers)
    assert (len(answers) >= 2, step.said("stdout")) == (True, ["begun"])


def test_handler_runs_a_job_once(step: Step) -> None:
    """The handler does all of it, and answers whether it was the one."""
    step.request("pass")
    again = [handlers.call("task", {"job": JOB}) for _ in range(2)]
    assert again == [{"has_run": True}, {"has_run": False}]


def test_flood_of_output_is_cut_off(step: Step) -> None:
    """What is too much for a log is dropped, and the function goes on."""
    step.request("for _ in range(200): print('x' * 1_000)")
    with patch.object(job_process, "_MAX_LOG_BYTES", 10_000):
        job = step.run()
    assert job.state == "SUCCESS"
    assert len(step.said("stdout")) == 11
    assert step.lines[-1]["message"] == "the log ends here: it has 10,000 bytes"


def test_line_without_end_is_cut_into_pieces(step: Step) -> None:
    """A line that never ends takes no memory of the parent's."""
    step.request("print('x' * 200_000)")
    step.run()
    assert max(map(len, step.said("stdout"))) <= 2 * 65_536
    assert sum(map(len, step.said("stdout"))) == 200_000


def test_answer_that_nobody_can_read_fails_the_step(step: Step) -> None:
    """What is written into the pipe of the answer is parsed as what it is: an author's."""
    step.request("os.write(int(sys.argv[1]), b'{\"state\": NaN}\\n')")
    job = step.run()
    assert (job.state, step.report) == ("FAILED", None)
    assert job.details.startswith("its answer cannot be read")


def test_answer_that_is_too_long_fails_the_step(step: Step) -> None:
    """A report is limited, whoever writes it."""
    step.request("os.write(int(sys.argv[1]), b'x' * 50_000)\ntime.sleep(600)")
    with patch.object(job_process, "_MAX_ANSWER_BYTES", 10_000):
        job = step.run(seconds=3)
    assert (job.state, step.report) == ("FAILED", None)


def test_process_left_behind_does_not_outlive_its_step(step: Step) -> None:
    """What a function starts ends with it, and holds nothing up."""
    step.request("import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid)")
    assert step.run().state == "SUCCESS"
    (pid,) = step.said("stdout")
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("it lives")


def test_folder_is_the_steps_own_and_goes_with_it(step: Step) -> None:
    """A step may write where it works, and nothing of it is left."""
    step.request(
        "open('x', 'w').close()\nimport tempfile\nprint(os.getcwd(), tempfile.gettempdir())"
    )
    assert step.run().state == "SUCCESS"
    folder, temporary = step.said("stdout")[0].split()
    assert Path(temporary) == Path(folder) / "tmp"
    assert not Path(folder).exists()


def test_function_has_no_secret_and_no_credentials(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the secret of its report nor anything of the function's environment is there."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-functions-own")
    step.request("print(dict(os.environ), vars(context), open('request.json').read())")
    step.run()
    (said,) = step.said("stdout")
    assert not [text for text in (SECRET, "the-functions-own", "testing") if text in said]


def test_function_has_the_role_of_such_jobs(step: Step, stack: LocalStack) -> None:
    """It has credentials of that role, narrowed to everything but the deployment's bucket."""
    asked: list[dict[str, str]] = []
    credentials = {"AccessKeyId": "key", "SecretAccessKey": "s", "SessionToken": "token"}
    before, role = stack.settings, "arn:aws:iam::1:role/python"
    stack.settings = replace(before, task_job_role_arn=role)
    client = aws.client("sts")

    def answer(**request: Any) -> dict[str, Any]:
        asked.append(request)
        return {"Credentials": credentials}

    step.request("print(os.environ['AWS_ACCESS_KEY_ID'], os.environ['AWS_SESSION_TOKEN'])")
    with patch.object(client, "assume_role", answer):
        assert step.run().state == "SUCCESS"
    stack.settings = before
    assert step.said("stdout") == ["key token"]
    (request,) = asked
    (statement,) = json.loads(request["Policy"])["Statement"]
    assert (request["RoleArn"], statement["NotResource"][0]) == (
        role,
        f"arn:aws:s3:::{stack.settings.bucket}",
    )


def test_secret_is_read_and_shown_nowhere(step: Step) -> None:
    """A secret that the function reads is masked in its report and in the log of the library."""
    given = {"LAMPLIGHTER_SECRETS": json.dumps({"ssm:/key": "hush-hush"})}
    step.request("raise ValueError(context.secret('ssm:/key'))")
    assert step.run(environment=given).state == "FAILED"
    assert "hush-hush" not in json.dumps([step.report, step.lines])


@pytest.mark.parametrize(
    ("lost", "said"),
    [("context.json", "NoSuchKey"), ("bundle", "NoSuchKey"), ("zip", "the archive is not a zip")],
)
def test_step_whose_things_are_not_there_fails(step: Step, lost: str, said: str) -> None:
    """What cannot be had is named, and the try is over."""
    step.request("pass")
    s3 = aws.client("s3")
    keys = [each["Key"] for each in s3.list_objects_v2(Bucket=step.bucket)["Contents"]]
    (key,) = (key for key in keys if ("context" in key) == (lost == "context.json"))
    if lost == "zip":
        s3.put_object(Bucket=step.bucket, Key=key, Body=b"nothing")
    else:
        s3.delete_object(Bucket=step.bucket, Key=key)
    job = step.run()
    assert (job.state, step.report) == ("FAILED", None)
    assert job.details.startswith("what the job needs cannot be had")
    assert said in job.details


def test_memory_killer_takes_the_function_first(step: Step) -> None:
    """The kernel ends the process of the function, and not the one that tells of it."""
    step.request("print(open('/proc/self/oom_score_adj').read().strip())")
    step.run()
    assert step.said("stdout") == ["1000"]
    assert Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip() != "1000"


def test_report_that_cannot_be_put_fails_the_step(step: Step) -> None:
    """Without it nobody would learn what the function stated."""
    step.request("pass")
    faults = Faults()
    faults.probability("PutObject", throttle=1.0)
    with faults.on(aws.client("s3")):
        job = step.run()
    assert job.state == "FAILED"
    assert job.details.startswith("its report could not be stored")


def test_cost_follows_from_duration_and_memory(step: Step) -> None:
    """It is known at the end: time and memory at the list price, and the request."""
    step.request("pass")
    job = step.run()
    assert job.usage is not None
    # The clock of the deployment stands.
    assert job.usage.cost == pytest.approx(0.0000002)
