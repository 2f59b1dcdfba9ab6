"""A session of `lamplighter dev` in this process, whose real time is the test's."""

import http.client
import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from pendulum import datetime, duration

from lamplighter import settings
from lamplighter.bundles import parsing
from lamplighter.bundles.parsing import ask_worker, start_worker
from lamplighter.errors import RefusedError
from lamplighter_local import handlers
from lamplighter_local.dev import session as module
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.session import DevSession, dev_session
from lamplighter_local.movable_clock import MovableClock
from lamplighter_operations.views import AssetProgress

pytestmark = pytest.mark.allow_hosts(["127.0.0.1"])

DAGS = """
import pendulum
from lamplighter import DAG, Asset, SparkTask

orders = Asset("orders")
with DAG("hourly", schedule="0 * * * *", start_date=pendulum.datetime(2026, 1, 1)):
    SparkTask("load", entry_point="jobs/load.py", outlets=[orders])
with DAG("report", schedule=[orders]):
    SparkTask("print", entry_point="jobs/load.py")
"""
FILES = MappingProxyType({"dags/shop.py": DAGS, "jobs/load.py": "print('loaded')\n"})
START = datetime(2026, 1, 5, 12, 58, 30)


class Session:
    """A session, and the hand on its clock."""

    def __init__(self, dev: DevSession) -> None:
        self.dev = dev
        self.root = dev.info.root

    def step(self, **later: float) -> list[str]:
        """Let it be later, and return what a person would read."""
        assert isinstance(module._real_time, MovableClock)
        module._real_time.advance(duration(**later))
        lines = (f"{news.about} {news.state} {news.detail}" for news in self.dev.step())
        return [" ".join(line.split()) for line in lines]

    def steps(self, count: int, **later: float) -> list[str]:
        """Do so several times."""
        return [line for _ in range(count) for line in self.step(**later)]

    def save(self, file: str, text: str) -> list[str]:
        """Save a file, and return what is told of it."""
        (self.root / file).write_text(text, encoding="utf-8")
        self.dev._files.note()
        return self.step()

    def client(self, service: str) -> Any:
        """Return a client of another process, as far as one can see."""
        state = dev_state.read()
        return boto3.client(
            service,
            endpoint_url=state.endpoint_url,
            region_name=state.region,
            aws_access_key_id=state.access_key_id,
            aws_secret_access_key=state.secret_access_key,
        )


@pytest.fixture(scope="module", autouse=True)
def warm_worker() -> Iterator[None]:
    """Let one process import the DAG files of all tests here: each takes long to start."""
    worker = start_worker()
    with patch.object(
        parsing,
        "ask_workers",
        lambda requests, **_: (ask_worker(worker, request) for request in requests),
    ):
        yield
    worker.communicate()


Start = Callable[..., AbstractContextManager[DevSession]]


@contextmanager
def starting(root: Path) -> Iterator[Start]:
    """Yield what starts a session on the example of this module, at `START`."""
    for name, text in FILES.items():
        (root / name).parent.mkdir()
        (root / name).write_text(text, encoding="utf-8")
    with (
        patch.dict(os.environ, LAMPLIGHTER_STATE_DIR=str(root / "state")),
        patch.object(module, "_real_time", MovableClock(START)),
    ):
        yield lambda **options: dev_session(root, bundle="shop", **{"is_instant": True, **options})


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return what starts a session."""
    with starting(tmp_path) as start:
        yield start


@pytest.fixture
def session(start: Start) -> Iterator[Session]:
    """Yield a session that has just begun."""
    with start() as dev:
        yield Session(dev)


@pytest.fixture(scope="class")
def kept_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Yield one for tests that leave the bundle as it is: each takes a while to begin."""
    with starting(tmp_path_factory.mktemp("shop")) as start, start() as dev:
        session = Session(dev)
        session.step()
        yield session


def test_session_at_its_start_tells_what_is_left_out(session: Session) -> None:
    """The bundle is registered, and none of the runs since its start are created."""
    told = session.step()
    assert told[:2] == [
        "bundle shop registered 2 new (hourly, report)",
        "catch-up 108 runs that are already due are skipped (hourly 108); --catchup creates them",
    ]
    assert session.dev.snapshot().running == []
    assert session.dev.info.jobs is None


def test_session_with_catch_up_creates_what_is_owed(start: Start) -> None:
    """As many runs of the past begin as there are slots, and nobody speaks of leaving them out."""
    with start(catch_up=True) as dev:
        told = [(news.about, news.state) for news in dev.step()]
    assert len([about for about, state in told if state == "running"]) == 16
    assert "catch-up" not in dict(told)


def test_time_that_passes_brings_runs_steps_and_events(session: Session) -> None:
    """What is due is run, and what it updates brings the next run: told in that order."""
    session.step()
    told = session.steps(20, seconds=6)
    run = "hourly/scheduled__2026-01-05T12:00:00+00:00"
    assert [line for line in told if line.startswith(("hourly", "asset"))] == [
        f"{run} running",
        f"{run} load success less than 1 s",
        f"{run} success",
        "asset orders event 1 new event",
    ]
    assert told[-1].startswith("report/asset_triggered__")
    assert told[-1].endswith(" success")
    snapshot = session.dev.snapshot()
    assert snapshot.ticked_at == datetime(2026, 1, 5, 13)
    assert snapshot.assets == {"report": AssetProgress(updated=(), missing=("orders",))}


def test_step_that_fails_is_told_with_its_error(session: Session) -> None:
    """The last line of the error stands behind the state, for the step; then its run has failed."""
    session.dev._lamp.fail_next("hourly", "load", error="Traceback\nValueError: no orders")
    told = session.steps(20, seconds=6)
    run = "hourly/scheduled__2026-01-05T12:00:00+00:00"
    assert f"{run} load failed ValueError: no orders" in told
    assert f"{run} failed" in told


class TestQuietSession:
    def test_tick_comes_at_every_minute(self, kept_session: Session) -> None:
        """The timer fires also where nothing is due, for those who look whether it does."""
        for _ in range(2):
            kept_session.step(minutes=1)
            assert kept_session.dev.snapshot().ticked_at == kept_session.dev.snapshot().now

    def test_clock_of_the_machine_set_back_changes_nothing(self, kept_session: Session) -> None:
        """Time stands until the machine's clock has come to where it was."""
        kept_session.step()
        before = kept_session.dev.snapshot().now
        with patch.object(module, "_real_time", MovableClock(before.subtract(hours=1))):
            assert kept_session.step() == []
        assert kept_session.dev.snapshot().now == before

    def test_state_file_leads_others_here(self, kept_session: Session) -> None:
        """It names the endpoint and the settings while the session lasts."""
        found = dev_state.read()
        assert found.endpoint_url == kept_session.dev.info.endpoint_url
        assert settings.Settings(**found.settings) == settings.current()

    def test_save_that_changes_nothing_is_not_registered(self, kept_session: Session) -> None:
        """A file that is written as it was, or lies outside the bundle's folders, is no news."""
        assert kept_session.save("dags/shop.py", DAGS) == []
        assert kept_session.save("notes.txt", "remember the milk") == []

    def test_warning_of_the_library_becomes_a_line(self, kept_session: Session) -> None:
        """What Lambda would log as JSON is told in words, with what it is about."""
        log = logging.getLogger("lamplighter.events.ingest")
        log.warning("the queue is %s", "busy")
        log.warning("it comes again", extra={"queue": "events", "message_id": "m1"})
        assert kept_session.step() == [
            "lamplighter.events.ingest warning the queue is busy",
            "lamplighter.events.ingest warning it comes again (queue events, message_id m1)",
        ]

    def test_second_session_is_refused(self, kept_session: Session) -> None:
        """There is one at a time, because others find it by one file."""
        with (
            pytest.raises(RefusedError, match="is already running: stop it first"),
            dev_session(kept_session.root, is_instant=True),
        ):
            pass


def test_endpoint_has_the_same_tables_and_queues(session: Session) -> None:
    """A row is seen from outside at once, and an event that is sent there makes a run here."""
    session.step()
    rows = session.client("dynamodb").scan(TableName="local-Dags")["Items"]
    assert {row["dag_id"]["S"] for row in rows} == {"hourly", "report"}
    sqs = session.client("sqs")
    url = sqs.get_queue_url(QueueName="local-events")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody='{"asset": "orders"}')
    told = session.step(seconds=1)
    assert told[0] == "asset orders event 1 new event"
    assert told[1].startswith("report/asset_triggered__2026-01-05T12:58:")
    # The clock stands while a request is served: waiting by it would never end.
    assert "Messages" not in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)


def test_file_that_is_broken_and_mended_disturbs_no_other(session: Session) -> None:
    """Its error is told with the line; the DAGs of other files go on; mending is told too."""
    session.step()
    broken = session.save("dags/other.py", "import lamplighter\n\nnonsense\n")
    assert broken == [
        "dags/other.py:3 error NameError: name 'nonsense' is not defined",
        "bundle shop registered 2 unchanged",
    ]
    assert not any(row.has_import_errors for row in session.dev.snapshot().dags)
    mended = session.save("dags/other.py", "import lamplighter\n")
    assert mended == [
        "bundle shop registered 2 unchanged",
        "bundle shop fixed no more errors",
    ]


def test_dag_that_is_new_or_rescheduled_begins_now(session: Session) -> None:
    """Saving a file never brings runs of the past."""
    session.step()
    text = DAGS.replace('"0 * * * *"', '"*/5 * * * *"').replace("SparkTask(", "SparkTask(  ")
    told = session.save("dags/shop.py", text)
    assert told[0] == "bundle shop registered 1 changed (hourly), 1 unchanged"
    assert told[1].startswith("catch-up ")
    told = session.save(
        "dags/more.py", text.replace('"hourly"', '"new"').partition('with DAG("r')[0]
    )
    assert told[0] == "bundle shop registered 1 new (new), 2 unchanged"
    assert not any("running" in line for line in told)
    nexts = {row.dag_id: row.next_run_after for row in session.dev.snapshot().dags}
    assert nexts["hourly"] == nexts["new"] == datetime(2026, 1, 5, 13)


def test_folder_that_is_gone_is_told_and_the_rest_goes_on(session: Session) -> None:
    """What was registered stays, and time goes on."""
    session.step()
    (session.root / "dags").rename(session.root / "elsewhere")
    session.dev._files.note()
    (told,) = session.step()
    assert told.startswith(f"bundle shop error {session.root} is not a bundle: ")
    assert any(line.startswith("hourly/") for line in session.steps(3, minutes=1))


def test_function_that_dies_is_told_and_the_others_go_on(session: Session) -> None:
    """One line, as its log would have it in AWS; its messages come again later."""
    session.step()

    def die(event: object, context: object) -> None:
        raise RuntimeError("out of luck")

    with patch.object(handlers, "handler_of", lambda _: die):
        told = session.step(minutes=2)
    assert "function tick error RuntimeError: out of luck" in told
    assert any(line.startswith("hourly/") for line in session.steps(6, minutes=1))


def test_port_that_is_taken_is_refused(start: Start) -> None:
    """The error names the port and the option, and nothing is left of the session."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(RefusedError, match=f"port {port} on 127.0.0.1 .* --port"),
            start(port=port),
        ):
            pass
    assert not dev_state.path().exists()


def test_state_folder_that_cannot_be_written_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says which folder, and how to name another."""
    monkeypatch.setenv("LAMPLIGHTER_STATE_DIR", "/dev/null/state")
    with pytest.raises(RefusedError, match="/dev/null/state cannot be written: "), start():
        pass


def test_spark_without_java_is_refused(start: Start) -> None:
    """The error names both ways out: a Java, or no jobs."""
    with (
        patch.object(module, "find_java_home", lambda: None),
        pytest.raises(RefusedError, match=r"install JDK 17 .* or use --instant"),
        start(is_instant=False),
    ):
        pass


OWN = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, DataInterval, Timetable

class Daily(Timetable):
    def infer_manual_data_interval(self, *, run_after):
        return DataInterval(run_after.subtract(days=1), run_after)
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(days=1))

DAG("own", schedule=Daily(), start_date=pendulum.datetime(2026, 1, 1, tz="Asia/Tokyo"))
"""


COMMAND = "from lamplighter_cli.app import main; main()"


def in_another_terminal(*arguments: str) -> str:
    """Return what `lamplighter --local` says in a process of its own."""
    others = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from lamplighter_cli.app import main; main()",
            "--local",
            *list(arguments),
        ],
        env=others,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


def test_custom_timetable_is_asked_from_another_terminal(session: Session) -> None:
    """Its manual runs and backfills need the sandbox, which the endpoint invokes."""
    session.save("dags/own.py", OWN)
    plan = json.loads(
        in_another_terminal(
            *("backfill", "plan", "own", "--start", "2026-01-02", "--end", "2026-01-04", "--json")
        )
    )
    assert [each["logical_date"] for each in plan["dates"]] == [
        "2026-01-01T15:00:00+00:00",
        "2026-01-02T15:00:00+00:00",
    ]
    told = in_another_terminal("runs", "trigger", "own", "--logical-date", "2026-01-05")
    assert "2026-01-03 15:00 UTC (2026-01-04 00:00 Asia/Tokyo) to 2026-01-04 15:00 UTC" in told
    assert any(line.startswith("own/manual__2026-01-04T15:00") for line in session.step())
    in_another_terminal("backfill", "create", "own", "--start", "2026-01-02", "--end", "2026-01-04")
    lines = [line for _ in range(3) for line in session.step()]
    for date in ("2026-01-01T15:00", "2026-01-02T15:00"):
        assert any(line.startswith(f"own/backfill__{date}") for line in lines)


def invoke(function: str) -> tuple[int, str | None, str]:
    """Invoke a function over HTTP: the status, the kind of error and the text of the answer.

    Clients of this process would not go through the endpoint.
    """
    state = dev_state.read()
    path = f"/2015-03-31/functions/{function}/invocations"
    signed = AWSRequest("POST", f"{state.endpoint_url}{path}", data=b"{}")
    credentials = Credentials(state.access_key_id, state.secret_access_key)
    SigV4Auth(credentials, "lambda", state.region).add_auth(signed)
    connection = http.client.HTTPConnection(state.endpoint_url.removeprefix("http://"))
    with closing(connection):
        connection.request("POST", path, b"{}", dict(signed.headers))
        answer = connection.getresponse()
        return answer.status, answer.getheader("X-Amz-Function-Error"), answer.read().decode()


@pytest.mark.usefixtures("kept_session")
class TestInvocations:
    def test_sandbox_that_fails_is_told_to_the_caller(self) -> None:
        """As Lambda does: the answer is the error, and a header says that it is one."""
        status, error, text = invoke("local-sandbox")
        assert (status, error) == (200, "Unhandled")
        assert json.loads(text) == {"errorType": "KeyError", "errorMessage": "'key'"}

    def test_other_function_is_not_invoked(self) -> None:
        """Operators may not on AWS either; the name of what is missing is told."""
        status, error, text = invoke("local-tick")
        assert (status, error) == (404, None)
        assert text.endswith(':function:local-tick"}')
