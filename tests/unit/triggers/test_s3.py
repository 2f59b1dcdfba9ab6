"""Triggers on buckets: those that are told, and those that look."""

from collections.abc import Callable
from typing import Any

import pytest
from pendulum import datetime

from lamplighter.errors import DefinitionError
from lamplighter.events.message import CreatedObject
from lamplighter.triggers import S3ObjectTrigger, S3PrefixTrigger
from lamplighter.triggers.feeds import SOURCES, Feed
from lamplighter.triggers.sources import SourceItem
from tests.unit.triggers.made_up import message, play


def created(key: str, bucket: str = "landing", **facts: Any) -> CreatedObject:
    """Return an object as S3 tells of it."""
    known = {"size": None, "etag": None, "version_id": None, "sequencer": None, **facts}
    return CreatedObject(bucket=bucket, key=key, created_at=datetime(2026, 1, 5), **known)


def seen(key: str) -> SourceItem:
    """Return an object as a listing shows it."""
    return SourceItem(key, version="etag-1", payload={"key": key})


def test_object_that_fits_fires_with_its_facts() -> None:
    """The payload tells where the object is and what S3 says of it."""
    item = created("in/orders 1.csv", size=9, etag="abc", version_id="v2", sequencer="01")
    assert play(S3ObjectTrigger("landing"), messages=[message(objects=(item,))]).payloads == [
        [
            {
                "bucket": "landing",
                "key": "in/orders 1.csv",
                "uri": "s3://landing/in/orders 1.csv",
                "size": 9,
                "etag": "abc",
                "version_id": "v2",
            }
        ]
    ]


def test_object_elsewhere_is_skipped() -> None:
    """Bucket, beginning and end of the key must all fit; a message may have several objects."""
    trigger = S3ObjectTrigger("landing", prefix="in/", suffix=".csv")
    keys = ["in/a.csv", "out/a.csv", "in/a.json", "in/b.csv"]
    messages = [
        message(objects=tuple(map(created, keys))),
        message(objects=(created("in/c.csv", bucket="other"),)),
        message({"kind": "not of S3"}),
    ]
    played = play(trigger, messages=messages)
    assert [payload["key"] for payload in played.payloads[0]] == ["in/a.csv", "in/b.csv"]
    assert [outcome.is_clean for outcome in played.outcomes] == [True, True, True]


def test_triggers_on_all_buckets_share_the_queue_of_sources() -> None:
    """What S3 tells comes over one queue, whatever it is about."""
    first, second = S3ObjectTrigger("landing", "a/"), S3ObjectTrigger("archive")
    assert first.feed == Feed(queue=SOURCES, bucket="landing")
    played = play(first, second, messages=[message(objects=(created("x", bucket="archive"),))])
    assert [len(payloads) for payloads in played.payloads] == [0, 1]
    assert played.opened == ["stream"]


def test_siblings_with_one_prefix_share_its_listing() -> None:
    """The bucket is listed once for all endings; what does not fit is done with."""
    triggers = [S3PrefixTrigger("landing", "in/", suffix) for suffix in (".csv", ".json", "")]
    played = play(*triggers, objects=[seen("in/a.csv"), seen("in/b.json")])
    assert played.opened == ["bucket landing in/", "stream"]
    assert played.payloads == [
        [{"key": "in/a.csv"}],
        [{"key": "in/b.json"}],
        [{"key": "in/a.csv"}, {"key": "in/b.json"}],
    ]
    assert {outcome.acked for outcome in played.outcomes} == {3}


def test_prefixes_apart_have_listings_of_their_own() -> None:
    """A listing is known by bucket and prefix; the bucket must be wired for it to be read."""
    trigger = S3PrefixTrigger("landing", "in/", ".csv")
    assert trigger.shared_stream_key() == ("s3-prefix", "landing", "in/")
    assert trigger.shared_stream_key() != S3PrefixTrigger("landing").shared_stream_key()
    assert trigger.feed == Feed(bucket="landing")


@pytest.mark.parametrize("kind", [S3ObjectTrigger, S3PrefixTrigger])
@pytest.mark.parametrize("bucket", ["s3://landing", "landing/in", "Landing", "ab", "", None])
def test_bucket_that_cannot_be_is_refused(kind: Callable[..., Any], bucket: Any) -> None:
    """A bucket is given by its name alone; the error shows one, and names the trigger."""
    with pytest.raises(DefinitionError, match=r"^S3\w+Trigger: bucket must be the name alone"):
        kind(bucket)


@pytest.mark.parametrize("kind", [S3ObjectTrigger, S3PrefixTrigger])
@pytest.mark.parametrize("argument", ["prefix", "suffix"])
def test_key_that_is_no_text_is_refused(kind: Callable[..., Any], argument: str) -> None:
    """A key begins and ends with texts; None is none."""
    with pytest.raises(DefinitionError, match=f"Trigger: {argument} must be a string, not None"):
        kind("landing", **{argument: None})
