"""Messages between functions that cannot be read, or whose work fails."""

import json

import pytest
from pendulum import datetime

from lamplighter import DAG, aws
from lamplighter_local.emulator.moto_memory import queue_at
from tests.tools.checked_deployment import LocalDeployment


@pytest.mark.parametrize("body", ["no JSON", "5", '{"dag_ids": ["no/dag"]}'])
def test_unreadable_message_of_any_queue_is_a_dead_letter(body: str) -> None:
    """It is kept among the dead letters of its own queue, and does not come again."""
    queues = ["claims", "submits", "jobstates"]
    if not body.startswith("{"):
        queues.append("registers")  # it takes the other one for the bucket's, which asks nothing
    with LocalDeployment(at=datetime(2026, 1, 5, 12)) as lamp:
        for queue in queues:
            aws.client("sqs").send_message(QueueUrl=lamp.queue_url(queue), MessageBody=body)
        lamp.run_until_idle()
        letters = lamp.dead_letters()
        assert sorted(letter.queue for letter in letters) == sorted(
            f"local-{queue}-dlq" for queue in queues
        )
        assert {letter.body for letter in letters} == {body}
        lamp.advance(hours=2)
        assert len(lamp.dead_letters()) == len(queues)
        lamp.check_invariants()


def test_failed_message_of_any_queue_comes_again() -> None:
    """While writing is denied, each of them is delivered again; then all are done with."""
    runs = {"runs": [["hourly", "2026-01-05T11:00:00+00:00"]]}
    messages = {
        "claims": {"dag_ids": ["hourly"]},
        "submits": runs,
        "jobstates": runs,
        "registers": {"retire": "objects", "push": 2},
    }
    noon = datetime(2026, 1, 5, 12)
    hourly = DAG("hourly", schedule="0 * * * *", start_date=noon.subtract(hours=1))
    with LocalDeployment([hourly], at=noon.subtract(minutes=1)) as lamp:
        lamp.advance(to=noon.subtract(seconds=1))
        lamp.faults.probability("TransactWriteItems", "GetItem", "Query", throttle=1)
        for queue, body in messages.items():
            url = lamp.queue_url(queue)
            aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(body))
        lamp.advance(minutes=1)
        waiting = [queue_at(lamp.queue_url(queue))._messages for queue in messages]
        assert all(found[-1].approximate_receive_count > 1 for found in waiting)
        lamp.faults.stop()
        lamp.advance(minutes=10)
        assert [len(queue_at(lamp.queue_url(queue))._messages) for queue in messages] == [0] * 4
        assert len(lamp.runs("hourly")) == 1
        lamp.check_invariants()
