"""Random questions about every timetable, the same ones for the same seed.

Owns: which classes, methods, intervals, bounds and clocks are combined. A last interval is mostly
one that the timetable itself would have announced, and else one that a former schedule left behind.
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.parity import expressions, instants
from tests.parity.answer import Document, Library, Question

_QUESTIONS_PER_TIMETABLE = 5
_METHODS = {
    "next_dagrun_info": 60,
    "next_dagrun_info_v2": 12,
    "infer_manual_data_interval": 20,
    "description": 4,
    "summary": 2,
    "traits": 1,
}
_KEY_FORMATS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%Y%m%dT%H%M%z", "%d/%m/%y %H:%M")


def questions(count: int, seed: str, lamplighter: Library) -> Iterator[Question]:
    """Yield `count` questions."""
    random = Random(seed)
    for number in range(count):
        if number % _QUESTIONS_PER_TIMETABLE == 0:
            zone = instants.zone(random)
            timetable = _timetable(random, zone, _KINDS)
        yield _question(random, timetable, zone, lamplighter)


def _timetable(random: Random, zone: str | int, kinds: Sequence["_Kind"]) -> Document:
    kind = random.choices(kinds, weights=[kind.weight for kind in kinds])[0]
    return {"type": kind.name, "arguments": kind.arguments(random, zone)}


def _cron(random: Random, zone: str | int) -> Document:
    return {"cron": expressions.cron(random), "timezone": zone}


def _delta(random: Random, _zone: str | int) -> Document:
    return {"delta": expressions.delta(random)}


def _cron_trigger(random: Random, zone: str | int) -> Document:
    return {
        **_cron(random, zone),
        "interval": expressions.interval(random),
        "run_immediately": _run_immediately(random),
    }


def _several_crons(random: Random, zone: str | int) -> Document:
    arguments = _cron_trigger(random, zone)
    crons = [expressions.cron(random) for _ in range(random.randint(0, 3))]
    return {"crons": [arguments.pop("cron"), *crons], **arguments}


def _delta_trigger(random: Random, zone: str | int) -> Document:
    return {**_delta(random, zone), "interval": expressions.interval(random)}


def _cron_partition(random: Random, zone: str | int) -> Document:
    return {
        **_cron(random, zone),
        "run_immediately": _run_immediately(random),
        "run_offset": random.choice((None, 0, 0, 1, -1, 2, -3)),
        "key_format": random.choice(_KEY_FORMATS),
    }


def _assets(_random: Random, _zone: str | int) -> Document:
    return {"assets": ["orders", "rates"]}


def _assets_or_time(random: Random, zone: str | int) -> Document:
    return {**_assets(random, zone), "timetable": _timetable(random, zone, _KINDS_OF_TIME)}


def _nothing(_random: Random, _zone: str | int) -> Document:
    return {}


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
        last = _last(random, question, at, lamplighter)
        question["last"] = last
        _move_onto(random, question, last[1])
    return question


def _move_onto(random: Random, question: Question, boundary: str) -> None:
    """Let an instant fall exactly on the end of the last interval, which is a case of its own."""
    for field in ("now", "run_after", "earliest", "latest"):
        if random.random() < 0.12:
            question[field] = boundary


def _turn_to_partitions(random: Random, question: Question, at: datetime.datetime) -> None:
    if question["method"] == "next_dagrun_info" and random.random() < 0.9:
        question["method"] = "next_dagrun_info_v2"
    elif random.random() < 0.3:
        question["method"] = "resolve_partition_date"
        arguments = question["timetable"]["arguments"]
        is_fitting = random.random() < 0.9
        question["key"] = at.strftime(arguments["key_format"]) if is_fitting else "no key"


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


class _Kind(NamedTuple):
    """A class of timetable, how often it is asked about, and how its arguments are made."""

    name: str
    weight: int
    arguments: Callable[[Random, str | int], Document]


_KINDS_OF_TIME = (
    _Kind("CronDataIntervalTimetable", 30, _cron),
    _Kind("DeltaDataIntervalTimetable", 12, _delta),
    _Kind("CronTriggerTimetable", 18, _cron_trigger),
    _Kind("DeltaTriggerTimetable", 6, _delta_trigger),
    _Kind("MultipleCronTriggerTimetable", 8, _several_crons),
    _Kind("CronPartitionTimetable", 8, _cron_partition),
    _Kind("NullTimetable", 1, _nothing),
    _Kind("OnceTimetable", 2, _nothing),
    _Kind("ContinuousTimetable", 3, _nothing),
    _Kind("EventsTimetable", 6, _events),
)
_KINDS = (
    *_KINDS_OF_TIME,
    _Kind("AssetTriggeredTimetable", 1, _assets),
    _Kind("AssetOrTimeSchedule", 5, _assets_or_time),
)
