"""The handlers of `tick`, `claim` and `register`, called with the envelopes that Lambda sends."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.events.dead_letters import dead_letters
from lamplighter.store.rows import connection
from lamplighter_local import handlers
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.definitions import store_dags
from tests.tools.faults import Faults

NOW = datetime(2026, 1, 1, 12, 0, 30)


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Return a deployment with one DAG that owes two runs."""
    with local_stack(at=NOW) as made:
        with DAG("hourly", schedule="0 * * * *", start_date=datetime(2026, 1, 1, 10)) as dag:
            SparkTask("only", entry_point="jobs/only.py")
        store_dags([dag])
        yield made


def message(number: int, body: str) -> dict[str, Any]:
    """Return one record of a batch."""
    return {
        "messageId": f"message-{number}",
        "receiptHandle": "handle",
        "body": body,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:claims",
        "awsRegion": "us-east-1",
    }


def printed_metrics(text: str) -> dict[str, Any]:
    """Return the metrics that a handler wrote in CloudWatch's embedded format."""
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def test_tick_of_the_timers_event_claims_and_answers(stack: LocalStack) -> None:
    """The event of the minute timer claims what is due and answers with numbers."""
    answer = handlers.call("tick", {"source": "aws.events", "time": "2026-01-01T12:00:00Z"})

    assert answer == {"claimed_runs": 2, "sent_ahead": 0}
    assert [run.state for run in stack.runs("hourly")] == ["queued", "queued"]


def test_tick_reports_its_numbers_as_metrics(
    stack: LocalStack, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report of a tick is written to stdout as metrics of its own service."""
    handlers.handler_of("tick")({"time": "2026-01-01T12:00:00Z"}, handlers.LambdaContext())

    metrics = printed_metrics(capsys.readouterr().out)
    assert metrics["service"] == "tick"
    assert metrics["ClaimedRuns"] == [2.0]
    assert metrics["BacklogSeconds"] == [3630.0]
    assert metrics["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Lamplighter"


@pytest.mark.parametrize("bad", ["no JSON", '{"dag_ids": 5}', '{"backfill_ids": ["a/b"]}'])
def test_claim_of_a_batch_with_a_bad_message_claims_the_others(stack: LocalStack, bad: str) -> None:
    """A message that cannot be read is a dead letter; what the others name is claimed."""
    bodies = ['{"dag_ids": ["hourly"]}', '{"a": 1}', '{"dag_ids": ["gone", "hourly"]}', bad]
    batch = {"Records": [message(number, body) for number, body in enumerate(bodies)]}

    answer = handlers.call("claim", batch)

    assert answer == {"batchItemFailures": []}
    assert {letter.body for letter in dead_letters(limit=10)} == {'{"a": 1}', bad}
    assert len(stack.runs("hourly")) == 2


def test_claim_that_fails_as_a_whole_lets_its_messages_come_again(stack: LocalStack) -> None:
    """When nothing can be read, the function answers, and the messages come back after a pause."""
    batch = {"Records": [message(1, '{"dag_ids": ["hourly"]}'), message(2, '{"dag_ids": []}')]}
    faults = Faults()
    faults.at(1, "throttle", "BatchGetItem", code="ProvisionedThroughputExceededException")
    with faults.on(connection().client):
        answer = handlers.call("claim", batch)

    assert answer == {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
    assert handlers.call("claim", batch) == {"batchItemFailures": []}
    assert len(stack.runs("hourly")) == 2


def test_empty_batch_is_answered_without_failures(stack: LocalStack) -> None:
    """A batch without messages is fine."""
    assert handlers.call("claim", {"Records": []}) == {"batchItemFailures": []}


def test_register_rejects_only_the_message_that_it_cannot_read(stack: LocalStack) -> None:
    """Messages about DAGs that do not exist are done; one that is no JSON is a dead letter."""
    bodies = ['{"refill": "gone"}', "no JSON", '{"Event": "s3:TestEvent"}']
    batch = {"Records": [message(number, body) for number, body in enumerate(bodies)]}

    answer = handlers.call("register", batch)

    assert answer == {"batchItemFailures": []}
    assert [letter.body for letter in dead_letters(limit=10)] == ["no JSON"]
