"""The messages on `registers`: notifications of the bucket, and those that `queues` sends."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote_plus

from lamplighter.registry.bundles import read_announcement
from lamplighter.registry.definition import Source


@dataclass(frozen=True)
class Push:
    """A bundle was pushed."""

    source: Source


@dataclass(frozen=True)
class Refill:
    """An author's timetable must be asked for more runs."""

    dag_id: str


@dataclass(frozen=True)
class Retire:
    """What a push left out must be looked for once more."""

    source: Source


def read_message(body: str) -> Iterator[Push | Refill | Retire]:
    """Yield what a message asks for; the bucket's test message asks for nothing."""
    data = json.loads(body)
    if "refill" in data:
        yield Refill(str(data["refill"]))
    elif "retire" in data:
        yield Retire(Source(str(data["retire"]), "", int(data["push"])))
    for record in data.get("Records", ()):
        bucket, key = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
        yield Push(read_announcement(bucket, unquote_plus(key)))
