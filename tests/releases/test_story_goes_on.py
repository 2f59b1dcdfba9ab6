"""What a release has left in the middle of a story goes on with the code of today."""

from collections import Counter
from pathlib import Path

from lamplighter import aws
from lamplighter.store.models import AssetEvents, Runs
from lamplighter_operations.runs import clear_run
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.releases import fixture, story


def unfinished(lamp: LocalDeployment) -> set[str]:
    """Return the runs that are not over."""
    return {
        f"{run.dag_id}/{run.run_key}"
        for run in Runs.scan()
        if run.state in {"queued", "running"} and run.dag_id not in {"again", "edited"}
    }


def test_story_of_a_release_goes_on(release: Path) -> None:
    """Runs under way finish, waiting ones begin, pending events are consumed, each once."""
    with story.put_back(release) as lamp:
        before = unfinished(lamp)
        assert len(before) > 10
        lamp.check_invariants()
        (failed,) = [run for run in lamp.runs("chained") if run.state == "failed"]
        clear_run("chained", failed.run_key)
        lamp.advance(hours=9)

        assert before & unfinished(lamp) == set()
        lamp.check_invariants()
        letters = {letter.body for letter in lamp.dead_letters()}
        assert letters == {'{"asset": "nobody_knows_it"}'}
        recorded = Counter(row.event_id for row in AssetEvents.query("fx") if row.seq)
        assert recorded["fx-2"] == recorded["fx-3"] == 1
        consumed = [event.event_id for run in lamp.runs("revenue") for event in run.events]
        assert consumed.count("fx-2") == consumed.count("orders-2") == 1


def test_messages_of_a_release_are_understood(release: Path) -> None:
    """One of every kind that was on a queue, delivered again, harms nothing and is not refused."""
    with story.put_back(release) as lamp:
        before = len(lamp.dead_letters())
        for sample in fixture.read(release, "samples"):
            if sample["record"]["body"] != '{"asset": "nobody_knows_it"}':
                _send(lamp, sample["queue"], sample["record"]["body"])
        lamp.run_until_idle()
        lamp.advance(minutes=20)
        assert len(lamp.dead_letters()) == before
        lamp.check_invariants()


def _send(lamp: LocalDeployment, queue: str, body: str) -> None:
    is_others = queue == "web-orders"
    url = lamp.stack.watched_queue(queue) if is_others else lamp.queue_url(queue)
    aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)
