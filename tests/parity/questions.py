"""Random questions about every timetable, the same ones for the same seed.

Owns: which classes, methods, intervals, bounds and clocks are combined. A last interval is mostly
one that the timetable itself would have announced, and else one that a former schedule left behind.
"""

import datetime
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.parity import expressions, instants
from tests.parity.answer import Document, Library, Question, library

_QUESTIONS_PER_TIMETABLE = 5
_WEIGHTS = {
    "CronDataIntervalTimetable": 30,
    "DeltaDataIntervalTimetable": 12,
    "CronTriggerTimetable": 18,
    "DeltaTriggerTimetable": 6,
    "MultipleCronTriggerTimetable": 8,
    "CronPartitionTimetable": 8,
    "NullTimetable": 1,
    "OnceTimetable": 2,
    "ContinuousTimetable": 3,
    "EventsTimetable": 6,
    "AssetTriggeredTimetable": 1,
    "AssetOrTimeSchedule": 5,
}
_METHODS = {
    "next_dagrun_info": 60,
    "next_dagrun_info_v2": 12,
    "infer_manual_data_interval": 20,
    "description": 4,
    "summary": 2,
    "traits": 1,
}
_KEY_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%Y%m%dT%H%M%z", "%d/%m/%y %H:%M")


def questions(count: int, seed: int) -> Iterator[Question]:
    """Yield `count` questions."""
    random = Random(seed)
    with library("lamplighter") as lamplighter:
        for number in range(count):
            if number % _QUESTIONS_PER_TIMETABLE == 0:
                zone = instants.zone(random)
                timetable = _timetable(random, zone)
            yield _question(random, timetable, zone, lamplighter)


def _timetable(random: Random, zone: str | int, *, names: tuple[str, ...] = ()) -> Document:
    choices = {name: _WEIGHTS[name] for name in names or _WEIGHTS}
    name = random.choices(list(choices), weights=list(choices.values()))[0]
    return {"type": name, "arguments": _arguments(random, name, zone)}


def _arguments(random: Random, name: str, zone: str | int) -> Document:
    if name == "AssetOrTimeSchedule":
        return {"assets": ["orders", "rates"], "timetable": _inner(random, zone)}
    if name == "AssetTriggeredTimetable":
        return {"assets": ["orders"]}
    if name == "EventsTimetable":
        return _events(random, zone)
    if name.startswith("Delta"):
        arguments: Document = {"delta": expressions.delta(random)}
    elif name == "MultipleCronTriggerTimetable":
        arguments = {"crons": [expressions.cron(random) for _ in range(random.randint(1, 4))]}
    elif "Cron" in name:
        arguments = {"cron": expressions.cron(random)}
    else:
        return {}
    if "Cron" in name:
        arguments["timezone"] = zone
    if "Trigger" in name:
        arguments["interval"] = expressions.interval(random)
    if name.startswith(("CronTrigger", "MultipleCron", "CronPartition")):
        arguments["run_immediately"] = _run_immediately(random)
    if name == "CronPartitionTimetable":
        arguments["run_offset"] = random.choice((None, 0, 0, 1, -1, 2, -3))
        arguments["key_format"] = random.choice(_KEY_FORMATS)
    return arguments


def _inner(random: Random, zone: str | int) -> Document:
    names = tuple(name for name in _WEIGHTS if "Asset" not in name)
    return _timetable(random, zone, names=names)


def _run_immediately(random: Random) -> Any:
    minutes = random.choice((0, 3, 30, 600))
    return random.choice((False, True, None, {"kind": "timedelta", "minutes": minutes}))


def _events(random: Random, zone: str | int) -> Document:
    middle = instants.anchor(random, zone)
    at = [_iso(instants.nearby(random, middle)) for _ in range(random.randint(0, 12))]
    is_presorted = random.random() < 0.3
    if is_presorted:
        at.sort()
    return {
        "event_dates": {"at": at, "zone": _zone_of_instants(random, zone)},
        "restrict_to_events": random.random() < 0.5,
        "presorted": is_presorted,
        "description": random.choice((None, None, "matches", "")),
    }


def _question(
    random: Random, timetable: Document, zone: str | int, lamplighter: Library
) -> Question:
    at = instants.anchor(random, zone)
    question: Question = {
        "timetable": timetable,
        "method": random.choices(list(_METHODS), weights=list(_METHODS.values()))[0],
        "now": _iso(instants.nearby(random, at)),
        "zone": _zone_of_instants(random, zone),
        "last": None,
        "earliest": _iso(_before(random, at)) if random.random() < 0.6 else None,
        "latest": _iso(instants.nearby(random, at)) if random.random() < 0.15 else None,
        "catchup": random.random() < 0.5,
        "run_after": _iso(instants.nearby(random, at)),
        "key": None,
    }
    if timetable["type"] == "CronPartitionTimetable":
        _turn_to_partitions(random, question, at)
    if random.random() < 0.75:
        question["last"] = _last(random, question, at, lamplighter)
    return question


def _turn_to_partitions(random: Random, question: Question, at: datetime.datetime) -> None:
    if question["method"] == "next_dagrun_info" and random.random() < 0.9:
        question["method"] = "next_dagrun_info_v2"
    elif random.random() < 0.3:
        question["method"] = "resolve_partition_date"
        arguments = question["timetable"]["arguments"]
        question["key"] = at.strftime(arguments["key_format"])


def _last(
    random: Random, question: Question, at: datetime.datetime, lamplighter: Library
) -> list[str]:
    if random.random() < 0.65:
        interval = _announced(random, question, at, lamplighter)
        if interval is not None:
            return interval
    end = instants.nearby(random, at)
    hours = random.choice((0, 0, 1, 1, 24, 24, 168, 720, random.uniform(0, 100)))
    return [_iso(end - datetime.timedelta(hours=hours)), _iso(end)]


def _announced(
    random: Random, question: Question, at: datetime.datetime, lamplighter: Library
) -> list[str] | None:
    """Return the interval of a run that the timetable announces somewhere after `at`."""
    asked: Question = {
        **question,
        "method": "next_dagrun_info",
        "last": None,
        "earliest": _iso(at),
        "latest": None,
        "catchup": True,
        "zone": "UTC",
    }
    for _ in range(random.randint(1, 3)):
        run = lamplighter.answer(asked)
        if not run or "error" in run:
            break
        asked["last"] = run["interval"]
    return asked["last"]


def _before(random: Random, at: datetime.datetime) -> datetime.datetime:
    """Return a start date: usually long past, now and then close to everything else or to come."""
    if random.random() < 0.5:
        return instants.nearby(random, at)
    days = random.choice((1, 7, 30, 400))
    return (at - datetime.timedelta(days=days)).replace(hour=0, minute=0, second=0, microsecond=0)


def _zone_of_instants(random: Random, zone: str | int) -> str:
    return zone if isinstance(zone, str) and random.random() < 0.1 else "UTC"


def _iso(moment: datetime.datetime) -> str:
    return moment.isoformat()
