"""The objects of a bucket, for triggers that look at them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pendulum

from lamplighter import aws
from lamplighter.streams.memory import MAX_SIGHTINGS
from lamplighter.triggers.offered import Sighting


def list_objects(bucket: str, prefix: str) -> Sequence[Sighting]:
    """Return the objects whose keys begin with a prefix; of too many, one more than is allowed."""
    found: list[Sighting] = []
    for content in _contents(bucket, prefix):
        found.append(_sighting(bucket, content))
        if len(found) > MAX_SIGHTINGS:
            break
    return found


def _contents(bucket: str, prefix: str) -> Iterator[Mapping[str, Any]]:
    pages = aws.client("s3").get_paginator("list_objects_v2")
    for page in pages.paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", [])


def _sighting(bucket: str, content: Mapping[str, Any]) -> Sighting:
    key, etag = content["Key"], content["ETag"].strip('"')
    changed_at = pendulum.instance(content["LastModified"])
    return Sighting(
        f"s3://{bucket}/{key}",
        # The same content may be put again, which is news.
        f"{etag} {changed_at.isoformat()}",
        {
            "bucket": bucket,
            "key": key,
            "uri": f"s3://{bucket}/{key}",
            "size": content["Size"],
            "etag": etag,
        },
        changed_at,
    )
