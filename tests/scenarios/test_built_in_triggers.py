"""Each built-in trigger on a deployment: something happens at its source, and a run comes of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from lamplighter import DAG, Asset, AssetWatcher, aws
from lamplighter.triggers import (
    EventBridgeTrigger,
    S3ObjectTrigger,
    S3PrefixTrigger,
    SqsTrigger,
)
from lamplighter.triggers.base import BaseEventTrigger
from tests.tools.checked_deployment import LocalDeployment

ARN = "arn:aws:sqs:us-east-1:000000000000:shop"


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment without DAGs."""
    with LocalDeployment(at="2026-01-05T12:00:00Z") as lamp:
        yield lamp


def watched(name: str, trigger: BaseEventTrigger) -> DAG:
    """Return a DAG that runs when a trigger fires."""
    return DAG(name, schedule=Asset(name, watchers=[AssetWatcher("watcher", trigger)]))


def told(lamp: LocalDeployment, dag_id: str) -> list[Any]:
    """Return the payloads that the runs of a DAG have consumed."""
    lamp.run_until_idle()
    return [event.extra["payload"] for run in lamp.runs(dag_id) for event in run.events]


def object_created(key: str) -> dict[str, Any]:
    """Return what EventBridge says when S3 has a new object."""
    return {
        "id": f"event-{key}",
        "source": "aws.s3",
        "detail-type": "Object Created",
        "time": "2026-01-05T11:59:00Z",
        "detail": {"bucket": {"name": "landing"}, "object": {"key": key, "size": 3, "etag": "e"}},
    }


def test_message_of_queue_starts_the_runs_that_want_it(lamp: LocalDeployment) -> None:
    """Two watchers of one queue, spelled in two ways, each take what fits."""
    lamp.push(
        [
            watched("orders", SqsTrigger("shop", match={"kind": ["order"]})),
            watched("everything", SqsTrigger(ARN)),
        ]
    )
    lamp.send("shop", {"kind": "order", "amount": 7})
    lamp.send("shop", "a plain text")
    assert told(lamp, "orders") == [{"kind": "order", "amount": 7}]
    everything = told(lamp, "everything")
    assert len(everything) == 2
    assert {"kind": "order", "amount": 7} in everything
    assert "a plain text" in everything
    assert lamp.dead_letters() == []


def test_created_object_is_heard_by_both_kinds_of_trigger(lamp: LocalDeployment) -> None:
    """S3 tells through EventBridge; told twice, it starts one run of each."""
    lamp.push(
        [
            watched("landed", S3ObjectTrigger("landing", prefix="in/", suffix=".csv")),
            watched("other", S3ObjectTrigger("elsewhere")),
            watched(
                "event",
                EventBridgeTrigger({"source": ["aws.s3"], "detail": {"object": {"size": [3]}}}),
            ),
        ]
    )
    for _ in range(2):
        lamp.send("sources", object_created("in/a.csv"))
    assert told(lamp, "landed") == [
        {
            "bucket": "landing",
            "key": "in/a.csv",
            "uri": "s3://landing/in/a.csv",
            "size": 3,
            "etag": "e",
        }
    ]
    assert told(lamp, "other") == []
    assert [payload["id"] for payload in told(lamp, "event")] == ["event-in/a.csv"]


def put_object(name: str) -> None:
    """Put an object below a prefix."""
    aws.client("s3").put_object(Bucket="landing", Key=f"in/{name}", Body=b"xyz")


def test_source_that_is_polled_fires_once_for_what_is_new(lamp: LocalDeployment) -> None:
    """What was there before is no news; what comes is, to those whose ending it has, and once."""
    aws.client("s3").create_bucket(Bucket="landing")
    put_object("old.csv")
    lamp.advance(minutes=5)
    tables, texts = (S3PrefixTrigger("landing", "in/", suffix) for suffix in (".csv", ".txt"))
    lamp.push([watched("tables", tables), watched("texts", texts)])
    lamp.advance(minutes=2)
    put_object("new.csv")
    lamp.advance(minutes=3)
    assert [payload["size"] for payload in told(lamp, "tables")] == [3]
    assert told(lamp, "texts") == []
    lamp.check_invariants()
