"""The messages on `registers`: notifications of the bucket, and those that `queues` sends."""

import json
from dataclasses import dataclass
from urllib.parse import unquote_plus

from lamplighter import queues
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


def read_message(body: str) -> list[Push | Refill | Retire]:
    """Return what a message asks for; the bucket's test message asks for nothing."""
    with queues.reject_unreadable():
        data = json.loads(body)
        if "refill" in data:
            return [Refill(str(data["refill"]))]
        if "retire" in data:
            return [Retire(Source(str(data["retire"]), "", int(data["push"])))]
        objects = [record["s3"] for record in data.get("Records", ())]
        places = [(each["bucket"]["name"], each["object"]["key"]) for each in objects]
        return [Push(read_announcement(bucket, unquote_plus(key))) for bucket, key in places]
