"""Nothing that others wrote acts on the terminal of an operator, or shows a secret there.

Names, extras, sources, errors and messages come from producers and authors. The canary holds what
moves a cursor, sets a title, turns writing round, hides, begins a line, and is markup of Rich.
"""

import gzip
import json
import logging
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import ClientError
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask, aws, runtime
from lamplighter.bundles.importer import ImportProblem, ParsedFile
from lamplighter.events import dead_letters
from lamplighter.executors.emr import EmrServerless
from lamplighter.logs import logger_of
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.safe_text import masked
from lamplighter.store.bundles import next_push_number
from lamplighter_cli import console
from lamplighter_cli.app import main
from lamplighter_cli.dev_output import activity_line
from lamplighter_local.dev.activity import Activity
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_local.text_logs import line_of
from lamplighter_operations import pools
from lamplighter_operations.runs import mark_run
from lamplighter_operations.trigger import create_manual_run
from lamplighter_operations.variables import set_variable
from lamplighter_operations.views import view_run
from tests.tools.definitions import register_dags

ACTS = "\x1b[2J\x1b]0;owned\x07\x08\x9b31m\u202e\u2066\u200f\u061c\u200b\ufeff\u2028"
HIDES = "\u202e\u2066\u200f\u061c\u200b\ufeff"
MARKUP = "[red]x[/red][link=http://evil.example]y[/link]"
# Ids and keys are refused with control characters, but not with these.
EVIL_ID = f"canary{HIDES}{MARKUP}"
EVIL = f"canary{ACTS}{MARKUP}"
KEY, PASSWORD = "AKIAIOSFODNN7EXAMPLE", "hunter2-canary"
SECRETS = {"password": PASSWORD, "nested": [{"api_key": PASSWORD}], "note": f"key {KEY}"}
LOGS = "s3://local-logs/"
NOON = datetime(2026, 1, 5, 12)
# What Rich itself writes: colours, and how a live table goes back to its first line. The canary has
# none of these.
_OWN = re.compile(r"\x1b\[(?:[\d;]*m|1A|2K|\?25[lh])|\r(?=\x1b\[)")
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}

Command = Callable[..., str]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs the command, and returns all that it writes."""

    def lamplighter(*arguments: object) -> str:
        with (
            patch.object(sys, "argv", ["lamplighter", *map(str, arguments)]),
            suppress(SystemExit),
        ):
            main()
        out, err = capsys.readouterr()
        return out + err

    return lamplighter


def acting(text: str) -> set[str]:
    """Return the characters of an output that a terminal takes for something else than a text."""
    seen = _OWN.sub("", text)
    return {char for char in seen if char not in "\n\t" and unicodedata.category(char) in _UNSEEN}


@pytest.fixture
def world() -> Iterator[LocalStack]:
    """Yield a deployment in which everything that has a free text holds the canary."""
    emr = FakeEmr()
    with local_stack(at=NOON, on=emr) as stack:
        asset = Asset("prices")
        said = f"{EVIL} password={PASSWORD}"
        start = NOON.subtract(days=1)
        with DAG("sales", schedule=[asset], start_date=start, description=said) as sales:
            SparkTask("load", entry_point="jobs/load.py")
        register_dags(sales)
        push_problem(said)
        set_variable("note", EVIL)
        set_variable("db_password", PASSWORD)
        emr.next_outcome("sales", "load", Outcome.failed(f"{EVIL} password={PASSWORD}"))
        stack.emit(
            "prices",
            event_id=EVIL_ID,
            source=f"{EVIL} https://me:{PASSWORD}@host/",
            partition_key=EVIL_ID,
            extra={EVIL: EVIL, **SECRETS},
        )
        stack.run_until_idle()
        run = create_manual_run("sales", logical_date=None, conf={EVIL: EVIL, **SECRETS})
        stack.run_until_idle()
        mark_run("sales", run.run_key, "success", why=EVIL, by=EVIL)
        pools.set_pool("warehouse", 3, description=EVIL)
        # Nobody knows these: they end as dead letters.
        stack.emit(f"nobody-{EVIL}", extra={EVIL: EVIL, **SECRETS}, source=EVIL)
        stack.emit("nobody", source=json.dumps(SECRETS))
        stack.advance(minutes=5)
        with runtime.using(settings=replace(stack.settings, job_logs_uri=LOGS)):
            yield stack


def push_problem(said: str) -> None:
    """Push a bundle of which one file has an error, which says this."""
    push = Push("noisy", "0" * 64, next_push_number("noisy"))
    problem = ImportProblem("dags/a.py", 1, said, (said,))
    parsed = [ParsedFile("dags/a.py", errors=[problem])]
    with patch.object(Sandbox, "parse", lambda _: iter(parsed)):
        register(push)


LISTINGS = (
    ["dags", "list"],
    ["dags", "show", "sales"],
    ["dags", "errors"],
    ["variables", "list"],
    ["runs", "list"],
    ["runs", "list", "sales"],
    ["runs", "show", "RUN"],
    ["runs", "watch", "RUN"],
    ["runs", "logs", "RUN"],
    ["events", "list"],
    ["events", "list", "prices"],
    ["events", "trace", EVIL_ID],
    ["assets", "list"],
    ["assets", "show", "prices"],
    ["dlq", "list"],
    ["pools", "list"],
    ["watchers", "list"],
    ["doctor"],
    # What does not exist is named in the error.
    ["dags", "show", EVIL],
    ["runs", "show", f"sales/{EVIL}"],
    ["events", "trace", f"no-{EVIL}"],
    ["assets", "show", f"no-{EVIL}"],
    ["dlq", "replay", EVIL],
)


@pytest.mark.parametrize("arguments", LISTINGS, ids=lambda each: " ".join(each[:2]))
@pytest.mark.parametrize("form", ["lines", "terminal", "json"])
def test_listing_of_hostile_texts_does_nothing_to_the_terminal(
    world: LocalStack,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    form: str,
) -> None:
    """No listing writes a character that acts, reads markup, or shows a secret."""
    if form == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")
    failed = next(run for run in world.runs("sales") if run.run_type == "asset_triggered")
    given = [f"sales/{failed.run_id}" if each == "RUN" else each for each in arguments]
    shown = command(*given, *(["--json"] if form == "json" else []))
    assert acting(shown) == set()
    assert PASSWORD not in shown
    assert KEY not in shown
    assert "\x1b]8;" not in shown  # a link
    if "canary" in shown:
        assert any(escape in shown for escape in ("\\x1b", "\\u001b", "\\u202e"))


def test_rows_of_hostile_texts_show_escapes_and_markup(world: LocalStack, command: Command) -> None:
    """Whoever looks sees that something was there."""
    assert world.runs("sales")
    shown = command("events", "list", "prices")
    escapes = HIDES.encode("unicode_escape").decode()
    assert f"canary{escapes}{MARKUP}" in shown


def test_json_of_hostile_texts_has_them_as_they_are(world: LocalStack, command: Command) -> None:
    """Escapes are those of JSON: a program gets what was sent, but for secrets."""
    assert world.runs("sales")
    (event,) = json.loads(command("events", "list", "prices", "--json"))
    assert (event["event_id"], event["partition_key"]) == (EVIL_ID, EVIL_ID)
    assert event["source"] == f"{EVIL} https://me:***@host/"
    masked = {"password": "***", "nested": [{"api_key": "***"}], "note": "key ***"}
    assert event["extra"] == {EVIL: EVIL, **masked}


def test_dead_letter_with_secrets_is_replayed_as_it_was(
    world: LocalStack, command: Command
) -> None:
    """Only what is shown is masked."""
    letters = dead_letters.dead_letters(limit=10)
    assert any(PASSWORD in letter.body for letter in letters)
    dead_letters.make_visible(letters)
    command("dlq", "replay", "--all")
    messages = aws.client("sqs").receive_message(
        QueueUrl=world.settings.queue_url("events"), MaxNumberOfMessages=10
    )["Messages"]
    assert any(PASSWORD in message["Body"] for message in messages)


def test_job_gets_the_conf_that_the_views_mask(world: LocalStack) -> None:
    """Masking is for people: the context of the job, and the row, have what was given."""
    (run,) = [run for run in world.runs("sales") if run.run_type == "manual"]
    assert run.conf == {EVIL: EVIL, **SECRETS}
    assert view_run(run).conf == masked({EVIL: EVIL, **SECRETS})
    keys = aws.client("s3").list_objects_v2(Bucket=world.settings.bucket, Prefix="jobs/")
    names = [each["Key"] for each in keys["Contents"]]
    contexts = [read(name, world) for name in names if name.endswith("/context.json")]
    assert {EVIL: EVIL, **SECRETS} in [context["conf"] for context in contexts]


def read(key: str, world: LocalStack) -> Any:
    """Return a document of the bucket."""
    body = aws.client("s3").get_object(Bucket=world.settings.bucket, Key=key)["Body"]
    return json.loads(body.read())


def test_log_of_a_driver_with_hostile_lines_does_nothing(
    world: LocalStack, command: Command
) -> None:
    """What a program prints is shown line by line, with escapes, and masked."""
    (run,) = [run for run in world.runs("sales") if run.run_type == "manual"]
    (step,) = world.steps(run).values()
    bucket, key = aws.bucket_and_key(EmrServerless().log_uri(step.job_run_id, "stdout"))
    with suppress(ClientError):
        aws.client("s3").create_bucket(Bucket=bucket)
    pem = f"-----BEGIN PRIVATE KEY-----\n{PASSWORD}\n-----END PRIVATE KEY-----"
    body = gzip.compress(f"{EVIL}\rpassword={PASSWORD}\n{pem}\n10 %\r\n".encode())
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    for form in ([], ["--json"]):
        shown = command("runs", "logs", f"sales/{run.run_id}", *form)
        assert (acting(shown), PASSWORD in shown, "canary" in shown) == (set(), False, True)
        assert "10 %" in shown


def test_dev_shows_hostile_activity_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    """The lines of `dev` go through the same console."""
    activity = Activity(NOON, f"sales/{EVIL}", "failed", f"{EVIL}\ud800")
    console.out().print(activity_line(activity, is_short=False), soft_wrap=True)
    shown = capsys.readouterr().out
    assert (acting(shown), "\\ud800" in shown, MARKUP in shown) == (set(), True, True)


def test_log_line_on_this_machine_is_neutralised_and_masked() -> None:
    """Warnings that `dev`, `test` and `simulate` write are safe."""
    record = logging.makeLogRecord({"msg": EVIL, "error": f"password={PASSWORD}"})
    line = line_of(record)
    assert (acting(line), PASSWORD in line, MARKUP in line) == (set(), False, True)


def test_log_line_of_a_function_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields, texts of errors and messages have no secrets, and JSON has no acting characters."""
    library = logging.getLogger("lamplighter")
    before = library.handlers, library.propagate, library.level
    logger = logger_of("hostile-output")
    try:
        error = RuntimeError(f"{EVIL} postgres://me:{PASSWORD}@host/db")
        logger.error("%s %s", EVIL, KEY, exc_info=error, extra={"conf": SECRETS, "error": error})
    finally:
        library.handlers, library.propagate, level = before
        library.setLevel(level)
    shown = capsys.readouterr().err
    line = json.loads(shown)
    assert (acting(shown), PASSWORD in shown, KEY in shown) == (set(), False, False)
    assert line["conf"] == masked(SECRETS)
    assert f"{EVIL} postgres://me:***@host/db" in line["exception"]
