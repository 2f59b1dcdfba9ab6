"""What handlers share: reports as metrics, as CloudWatch reads them from a log; batches."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import aws, runtime
from lamplighter.entry import metrics_of, publish
from lamplighter.events.dead_letters import dead_letters, replay
from lamplighter.settings import Settings
from lamplighter.store.rows import connection
from lamplighter_local.deliveries import next_delivery
from lamplighter_local.handlers import LambdaContext, handler_of
from lamplighter_local.stack import LocalStack, local_stack
from tests.integration.events.batches import received
from tests.tools.faults import Faults


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Return an empty deployment."""
    with local_stack(at=datetime(2026, 1, 1, 12)) as made:
        yield made


@dataclass
class Report:
    """A report with all kinds of numbers."""

    claimed_runs: int = 3
    backlog_seconds: float = 1.5
    lateness_seconds: list[float] = field(default_factory=lambda: [0.5, 2.0])
    skipped: Counter[str] = field(default_factory=lambda: Counter(paused=2))
    owed: dict[str, int] = field(default_factory=lambda: {"a": 1, "b": 4})
    failed: set[str] = field(default_factory=lambda: {"x"})


def _published(capsys: pytest.CaptureFixture[str], report: Any) -> dict[str, Any]:
    with runtime.using(settings=Settings(table_prefix="lamplighter-dev-")):
        publish(metrics_of("tick"), report)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_report_becomes_metrics_of_its_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers are metrics, reasons are metrics each, groups are counted, measures are kept."""
    found = _published(capsys, Report())
    expected = {
        "ClaimedRuns": [3],
        "BacklogSeconds": [1.5],
        "LatenessSeconds": [0.5, 2.0],
        "Skipped: paused": [2],
        "Owed": [5],
        "Failed": [1],
    }
    assert {name: found[name] for name in expected} == expected
    (directive,) = found["_aws"]["CloudWatchMetrics"]
    units = {metric["Name"]: metric["Unit"] for metric in directive["Metrics"]}
    assert (units["LatenessSeconds"], units["ClaimedRuns"]) == ("Seconds", "Count")


def test_metrics_are_told_apart_by_deployment(capsys: pytest.CaptureFixture[str]) -> None:
    """Two deployments in one account, and two reports of one function, do not mix."""
    for _ in range(2):
        found = _published(capsys, Report())
        (directive,) = found["_aws"]["CloudWatchMetrics"]
        assert directive["Namespace"] == "Lamplighter"
        assert {*directive["Dimensions"][0]} == {"stack", "service"}
        assert (found["stack"], found["service"]) == ("lamplighter-dev", "tick")


def test_what_did_not_happen_is_no_metric(capsys: pytest.CaptureFixture[str]) -> None:
    """A count of nothing is not written, a measure of nothing is; without any, nothing is said."""
    found = _published(capsys, Report(claimed_runs=0, backlog_seconds=0.0, failed=set()))
    assert found["BacklogSeconds"] == [0.0]
    assert not {"ClaimedRuns", "Failed"} & set(found)

    @dataclass
    class Nothing:
        woken_runs: int = 0

    publish(metrics_of("sweep"), Nothing())
    assert capsys.readouterr().out == ""


def test_report_without_measures_has_no_metric_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Where nothing was late because nothing was claimed, there is nothing to average."""
    assert "LatenessSeconds" not in _published(capsys, Report(lateness_seconds=[]))


@dataclass
class Latenesses:
    """A report of nothing but measures."""

    lateness_seconds: list[float]


def test_hundred_measures_are_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    """As many values as one record takes are written by themselves, and nothing after them."""
    found = _published(capsys, Latenesses([1.0] * 100))
    assert found["LatenessSeconds"] == [1.0] * 100


MESSAGES = {
    "registers": '{"refill": "dag"}',
    "submits": '{"runs": [["dag", "2026-01-01T00:00:00+00:00"]]}',
    "jobstates": '{"runs": [["dag", "2026-01-01T00:00:00+00:00"]]}',
}


def send(url: str, body: str) -> str:
    """Send a message to an empty queue, and return its id."""
    aws.client("sqs").purge_queue(QueueUrl=url)
    sent: str = aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)["MessageId"]
    return sent


@contextmanager
def no_tables() -> Iterator[None]:
    """Let DynamoDB refuse everything."""
    planned = Faults()
    planned.probability(throttle=1)
    with planned.on(connection().client):
        yield


@pytest.mark.parametrize(
    ("function", "queue"),
    [("register", "registers"), ("submit", "submits"), ("settle", "jobstates")],
)
def test_message_that_fails_comes_again_soon(
    stack: LocalStack, capsys: pytest.CaptureFixture[str], function: str, queue: str
) -> None:
    """It is not hidden for as long as its queue would: that is an hour and a half for pushes."""
    url = stack.settings.queue_url(queue)
    failing = send(url, MESSAGES[queue])
    with no_tables():
        answer = handler_of(function)({"Records": received(url)}, LambdaContext())

    assert answer == {"batchItemFailures": [{"itemIdentifier": failing}]}
    shown_at = next_delivery(url)
    assert shown_at is not None
    assert round((shown_at - stack.clock.now()).total_seconds()) == 10
    # Partial failures are no errors of the function: nobody else counts them.
    told = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (told["service"], told["Failed"]) == (function, [1])


@pytest.mark.parametrize(
    ("function", "queue"),
    [
        ("register", "registers"),
        ("claim", "claims"),
        ("submit", "submits"),
        ("settle", "jobstates"),
    ],
)
def test_message_that_cannot_be_read_is_a_dead_letter_at_once(
    stack: LocalStack, capsys: pytest.CaptureFixture[str], function: str, queue: str
) -> None:
    """It could not be read the next time either; it is kept with the reason, and acknowledged."""
    url = stack.settings.queue_url(queue)
    send(url, "no JSON")
    answer = handler_of(function)({"Records": received(url)}, LambdaContext())

    assert answer == {"batchItemFailures": []}
    (letter,) = dead_letters(limit=10)
    assert letter.queue_url == stack.settings.queue_url(f"{queue}-dlq")
    assert (letter.body, letter.reason[:27]) == ("no JSON", "the message cannot be read:")
    told = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (told["service"], told["Rejected"]) == (function, [1])


@pytest.mark.parametrize(
    ("function", "queue"),
    [("register", "registers"), ("submit", "submits"), ("settle", "jobstates")],
)
def test_message_that_fails_after_a_day_is_given_up_and_can_be_replayed(
    stack: LocalStack, function: str, queue: str
) -> None:
    """It is kept before it is acknowledged; sent again, it is new and not given up at once."""
    url = stack.settings.queue_url(queue)
    send(url, MESSAGES[queue])
    hour = timedelta(hours=1)
    with no_tables():
        for _ in range(25):
            assert len(handler_of(function)({"Records": received(url)}, LambdaContext())) == 1
            stack.clock.advance(hour)
        assert dead_letters(limit=10) == []
        answer = handler_of(function)({"Records": received(url)}, LambdaContext())
        (letter,) = dead_letters(limit=10)
        replay(letter)
        again = received(url)
        answers = [answer, handler_of(function)({"Records": again}, LambdaContext())]
    assert [len(each["batchItemFailures"]) for each in answers] == [0, 1]
    assert letter.body == again[0]["body"] == MESSAGES[queue]
    assert letter.reason.startswith("it failed for more than 24 hours: ")


def test_message_that_cannot_be_kept_is_not_acknowledged(stack: LocalStack) -> None:
    """Where the dead letters are out of reach, an old message is delivered again."""
    url = stack.settings.queue_url("submits")
    failing = send(url, MESSAGES["submits"])
    received(url)
    stack.clock.advance(timedelta(hours=25))
    planned = Faults()
    planned.probability(throttle=1)
    batch = received(url)
    with no_tables(), planned.on(aws.client("sqs")):
        answer = handler_of("submit")({"Records": batch}, LambdaContext())
    assert answer == {"batchItemFailures": [{"itemIdentifier": failing}]}
