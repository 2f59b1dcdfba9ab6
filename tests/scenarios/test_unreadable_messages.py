"""Messages between functions that nobody can read: kept with the reason, and in nobody's way."""

import pytest
from pendulum import datetime

from lamplighter import aws
from lamplighter_local.deployment import LocalDeployment


@pytest.mark.parametrize("body", ["no JSON", "5", '{"dag_ids": ["no/dag"]}'])
def test_unreadable_message_of_any_queue_is_a_dead_letter(body: str) -> None:
    """It is kept among the dead letters of its own queue, and does not come again."""
    queues = ("claims", "submits", "jobstates", "registers")
    if body.startswith("{"):
        queues = queues[:3]  # `registers` takes it for one of the bucket's that asks for nothing
    with LocalDeployment(at=datetime(2026, 1, 5, 12)) as lamp:
        for queue in queues:
            aws.client("sqs").send_message(QueueUrl=lamp.queue_url(queue), MessageBody=body)
        lamp.run_until_idle()
        letters = lamp.dead_letters()
        assert sorted(letter.queue for letter in letters) == sorted(
            f"local-{queue}-dead" for queue in queues
        )
        assert {letter.body for letter in letters} == {body}
        lamp.advance(hours=2)
        assert len(lamp.dead_letters()) == len(queues)
        lamp.check_invariants()
