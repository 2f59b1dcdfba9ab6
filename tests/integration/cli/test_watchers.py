"""`lamplighter watchers` as a user types it, with triggers that only their bundle defines."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lamplighter import aws, runtime, settings
from lamplighter.store.watchers import count_fired
from lamplighter_local.stack import LocalStack

WriteBundle = Callable[[dict[str, str]], Path]
Command = Callable[..., Any]

TRIGGERS = """
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.sources import QueueTrigger
from lamplighter.triggers.shared_stream import reject_shared_stream_event

class OrderTrigger(QueueTrigger):
    def __init__(self, kind, queue="raw"):
        self.kind, self.queue = kind, queue

    def serialize(self):
        return "triggers.orders.OrderTrigger", {"kind": self.kind, "queue": self.queue}

    @property
    def feed(self):
        return Feed(queue=self.queue)

    def payloads(self, message):
        if message.content["kind"] == "bad":
            reject_shared_stream_event("orders are never bad")
        if message.content["kind"] == "worse" and self.kind == "small":
            raise ValueError("too small for this")
        if message.content["kind"] == self.kind:
            yield message.content
"""
DAGS = """
from lamplighter import DAG, Asset, AssetWatcher
from triggers.orders import OrderTrigger

DAG("large", schedule=Asset("large", watchers=[AssetWatcher("raw", OrderTrigger("large"))]))
DAG("small", schedule=Asset("small", watchers=[AssetWatcher("raw", OrderTrigger("small"))]))
"""
FILES = {"dags/watched.py": DAGS, "triggers/orders.py": TRIGGERS}


def saved(folder: Path, content: object) -> Path:
    """Return a file with what was sent."""
    path = folder / "event.json"
    path.write_text(json.dumps(content))
    return path


def test_list_shows_one_row_per_watcher_with_its_key(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """Siblings show the same stream."""
    stack.push(write_bundle(FILES))
    found = json.loads(lamplighter("watchers", "list", "--json").out)
    assert [each["watcher"] for each in found] == ["large/raw", "small/raw"]
    assert {each["stream"] for each in found} == {"('queue', 'raw')"}
    assert {each["queue"] for each in found} == {"raw"}
    lines = lamplighter("watchers", "list").out.splitlines()
    assert lines[1].split()[:4] == ["large/raw", "OrderTrigger", "queue", "raw"]


def test_list_without_watchers_says_so(lamplighter: Command) -> None:
    """Nothing is a sentence, not an empty table."""
    assert "no watchers yet" in lamplighter("watchers", "list").out


def test_parked_watcher_is_shown_and_resumed(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A watcher that fired too often is seen to be parked until someone resumes it."""
    stack.push(write_bundle(FILES))
    few = replace(settings.current(), watcher_events_per_minute=1)
    url = stack.watched_queue("raw")
    with runtime.using(settings=few):
        for _ in range(2):
            aws.client("sqs").send_message(QueueUrl=url, MessageBody='{"kind": "large"}')
        stack.run_until_idle()
    assert "parked" in lamplighter("watchers", "list").out
    assert lamplighter("watchers", "resume", "large/raw").code == 0
    assert "parked" not in lamplighter("watchers", "list").out


def test_resume_of_another_watcher_names_the_parked(lamplighter: Command) -> None:
    """Who is parked is said, if it was not the one that was named."""
    count_fired({"large/raw/12345678": 2}, limit=1)
    result = lamplighter("watchers", "resume", "small/raw")
    assert (result.code, result.out) == (1, "")
    assert "watcher 'small/raw' is not parked (parked: large/raw)" in result.err


@pytest.mark.parametrize(
    ("kind", "large", "small"),
    [
        ("large", "fire", "skip"),
        ("other", "skip", "skip"),
        ("bad", "reject: orders are never bad", "reject: orders are never bad"),
        ("worse", "skip", "fail: too small for this"),
    ],
)
def test_try_shows_what_each_watcher_would_do(  # noqa: PLR0917 - a row of the table and fixtures
    alone: Command,
    write_bundle: WriteBundle,
    tmp_path: Path,
    kind: str,
    large: str,
    small: str,
) -> None:
    """Authors' triggers are run on a saved message, and no deployment is needed for it."""
    root = write_bundle(FILES)
    result = alone("watchers", "test", root, saved(tmp_path, {"kind": kind}))
    _, *rows = result.out.splitlines()
    assert [row.split(maxsplit=1)[1].partition("  ")[0].strip() for row in rows] == [large, small]


def test_try_takes_lambdas_event_of_sqs(
    alone: Command, write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """What a function was woken with can be saved and tried; the queue is in it."""
    record = {"body": '{"kind": "small"}', "eventSourceARN": "arn:aws:sqs:us-east-1:1:raw"}
    root, path = write_bundle(FILES), saved(tmp_path, {"Records": [record, record]})
    found = json.loads(alone("watchers", "test", root, path, "--json").out)
    assert [len(each["payloads"]) for each in found] == [0, 2]


def test_try_of_an_unread_queue_names_those_that_are_read(
    alone: Command, write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """A mistake in the queue's name is one line with the names there are."""
    path = saved(tmp_path, {"kind": "small"})
    result = alone("watchers", "test", write_bundle(FILES), path, "--queue", "rwa")
    assert result.code == 1
    assert "reads queue 'rwa' (read: raw)" in result.err


def test_try_of_a_missing_file_is_one_line(
    alone: Command, write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """A file that is not there is named."""
    result = alone("watchers", "test", write_bundle(FILES), tmp_path / "none.json")
    assert result.code == 1
    assert "none.json cannot be read" in result.err


def test_push_refuses_a_queue_that_is_not_wired(
    lamplighter: Command, write_bundle: WriteBundle
) -> None:
    """A watcher that would never hear anything is found before anything is sent."""
    wired = replace(settings.current(), watch_queues=("other",))
    with runtime.using(settings=wired):
        result = lamplighter("push", write_bundle(FILES))
    assert result.code == 1
    assert "queue 'raw' is not wired to this deployment (there are: other)" in result.err
    assert "add it to watch_queues of the stage and deploy" in result.err
