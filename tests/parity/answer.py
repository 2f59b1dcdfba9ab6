"""Answers questions about timetables with either library: `python answer.py airflow < questions`.

Owns: the written form of a question and of an answer. It runs under two interpreters, so it imports
nothing from its neighbours; what differs between the libraries is the name of the root package and
the way in which their clock is stopped.
"""

import contextlib
import datetime
import importlib
import json
import os
import sys
import time
import types
from collections.abc import Iterator
from typing import Any, TypedDict

import pendulum
from dateutil.relativedelta import relativedelta, weekday

HOMES = {
    "CronDataIntervalTimetable": "interval",
    "DeltaDataIntervalTimetable": "interval",
    "CronTriggerTimetable": "trigger",
    "DeltaTriggerTimetable": "trigger",
    "MultipleCronTriggerTimetable": "trigger",
    "CronPartitionTimetable": "trigger",
    "NullTimetable": "simple",
    "OnceTimetable": "simple",
    "ContinuousTimetable": "simple",
    "AssetTriggeredTimetable": "simple",
    "EventsTimetable": "events",
    "AssetOrTimeSchedule": "assets",
}
_ASSET_HOMES = {"airflow": "airflow.sdk", "lamplighter": "lamplighter.assets"}
_TRAITS = ("periodic", "can_be_scheduled", "run_ordering", "active_runs_limit", "partitioned")

Document = dict[str, Any]


class Question(TypedDict):
    """One question; every instant is ISO text."""

    timetable: Document
    method: str
    now: str
    zone: str
    """The zone in which the instants below reach the timetable."""
    last: list[str] | None
    earliest: str | None
    latest: str | None
    catchup: bool
    run_after: str
    key: str | None


class StoppedClock:
    """A clock that shows the same instant until it is set again."""

    def __init__(self) -> None:
        self.at = datetime.datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=datetime.UTC)

    def now(self) -> datetime.datetime:
        """Return the instant that was set."""
        return self.at


class Library:
    """One of the two libraries, with a stopped clock: builds its timetables and asks them."""

    def __init__(self, root: str, clock: StoppedClock) -> None:
        self.clock = clock
        self._assets = importlib.import_module(_ASSET_HOMES[root])
        self._base = importlib.import_module(f"{root}.timetables.base")
        self._homes = {
            home: importlib.import_module(f"{root}.timetables.{home}")
            for home in set(HOMES.values())
        }
        self._built: tuple[Document, Any] | None = None

    def answer(self, question: Question) -> Any:
        """Return the answer as JSON; a refusal is the name of the exception."""
        try:
            timetable = self._timetable(question["timetable"])
        except Exception as error:  # noqa: BLE001 - whatever is raised is the answer
            return _refusal(error)
        return self.ask(timetable, question)

    def ask(self, timetable: Any, question: Question) -> Any:
        """Return what this very timetable answers, whatever the question says about it."""
        self.clock.at = datetime.datetime.fromisoformat(question["now"])
        try:
            return self._ask(timetable, question)
        except Exception as error:  # noqa: BLE001 - as above
            return _refusal(error)

    def build(self, document: Document) -> Any:
        """Return the timetable that a document describes."""
        name = document["type"]
        arguments = {key: self._argument(key, v) for key, v in document["arguments"].items()}
        crons = arguments.pop("crons", [])
        return getattr(self._homes[HOMES[name]], name)(*crons, **arguments)

    def _timetable(self, document: Document) -> Any:
        # Questions about the same timetable come in a row, as they do in a scheduler.
        if self._built is None or self._built[0] != document:
            self._built = None
            self._built = (document, self.build(document))
        return self._built[1]

    def _argument(self, key: str, value: Any) -> Any:
        if key == "timezone":
            return pendulum.timezone(value) if isinstance(value, int) else value
        if key in ("delta", "interval", "run_immediately"):
            return _delta(value) if isinstance(value, dict) else value
        if key == "event_dates":
            return [_instant(text, value["zone"]) for text in value["at"]]
        if key == "timetable":
            return self.build(value)
        if key == "assets":
            return [self._assets.Asset(name) for name in value]
        return value

    def _ask(self, timetable: Any, question: Question) -> Any:
        method = question["method"]
        if method in ("summary", "description"):
            return getattr(timetable, method)
        if method == "traits":
            return [_plain(getattr(timetable, name)) for name in _TRAITS]
        if method == "resolve_partition_date":
            return _iso(timetable.resolve_partition_date(question["key"]))
        if method == "infer_manual_data_interval":
            run_after = _instant(question["run_after"], question["zone"])
            return _interval(timetable.infer_manual_data_interval(run_after=run_after))
        return _run(self._next_run(timetable, question))

    def _next_run(self, timetable: Any, question: Question) -> Any:
        zone, last = question["zone"], question["last"]
        restriction = self._base.TimeRestriction(
            earliest=_maybe_instant(question["earliest"], zone),
            latest=_maybe_instant(question["latest"], zone),
            catchup=question["catchup"],
        )
        interval = last and self._base.DataInterval(*(_instant(text, zone) for text in last))
        if question["method"] == "next_dagrun_info":
            return timetable.next_dagrun_info(
                last_automated_data_interval=interval, restriction=restriction
            )
        info = interval and self._base.DagRunInfo(interval.end, interval)
        return timetable.next_dagrun_info_v2(last_dagrun_info=info, restriction=restriction)


@contextlib.contextmanager
def library(root: str) -> Iterator[Library]:
    """Give the library with its clock stopped, having seen that every timetable obeys it."""
    clock = StoppedClock()
    with _stopped_lamplighter(clock) if root == "lamplighter" else _stopped_airflow(clock):
        answering = Library(root, clock)
        _require_obedience(answering)
        yield answering


def _stopped_lamplighter(clock: StoppedClock) -> contextlib.AbstractContextManager[object]:
    module = importlib.import_module("lamplighter.runtime")
    stopped: contextlib.AbstractContextManager[object] = module.using(clock=clock)
    return stopped


@contextlib.contextmanager
def _stopped_airflow(clock: StoppedClock) -> Iterator[None]:
    """Replace what Airflow's timetables read the time with; this process asks nothing else."""
    _silence_airflow()

    def utcnow() -> datetime.datetime:
        return clock.at.replace(tzinfo=pendulum.UTC)

    def timestamp() -> float:
        return clock.at.timestamp()

    names = [f"airflow.timetables.{home}" for home in set(HOMES.values())]
    for name in ("airflow._shared.timezones.timezone", *names):
        module: Any = importlib.import_module(name)
        if hasattr(module, "utcnow"):
            module.utcnow = utcnow
        if getattr(module, "time", None) is time:
            module.time = types.SimpleNamespace(time=timestamp)
    yield


def _silence_airflow() -> None:
    # Partitions log at every step, to standard output and slower than they are computed.
    importlib.import_module("airflow.timetables.trigger")
    structlog: Any = importlib.import_module("structlog")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))


def _require_obedience(answering: Library) -> None:
    """Raise unless every timetable that reads the clock reads the stopped one."""
    at = "2001-02-03T04:05:06.000789+00:00"
    daily: Document = {"cron": "0 0 * * *", "timezone": "UTC"}
    hour = {"kind": "timedelta", "hours": 1}
    events = {"at": ["2001-02-03T12:00:00+00:00"], "zone": "UTC"}
    noon_and_six: Document = {"crons": ["0 6 * * *", "0 12 * * *"], "timezone": "UTC"}
    expected: list[tuple[str, Document, list[str] | None, str]] = [
        ("CronDataIntervalTimetable", daily, None, "2001-02-03T00"),
        ("DeltaDataIntervalTimetable", {"delta": hour}, None, "2001-02-03T04"),
        ("CronTriggerTimetable", daily, None, "2001-02-04T00"),
        ("DeltaTriggerTimetable", {"delta": hour}, None, at),
        ("MultipleCronTriggerTimetable", noon_and_six, [at, at], "2001-02-03T06"),
        ("CronPartitionTimetable", daily, None, "2001-02-04T00"),
        ("OnceTimetable", {}, None, at),
        ("ContinuousTimetable", {}, None, at),
        ("EventsTimetable", {"event_dates": events}, None, "2001-02-03T12"),
    ]
    for name, arguments, last, run_after in expected:
        run = answering.answer(
            {
                "timetable": {"type": name, "arguments": arguments},
                "method": "next_dagrun_info_v2",
                "now": at,
                "zone": "UTC",
                "last": last,
                "earliest": None,
                "latest": None,
                "catchup": False,
                "run_after": at,
                "key": None,
            }
        )
        if not run or not str(run.get("run_after")).startswith(run_after):
            raise RuntimeError(f"{name} does not obey the stopped clock: {run}")


def _delta(document: Document) -> datetime.timedelta | relativedelta:
    fields = dict(document)
    kind = fields.pop("kind")
    if kind == "timedelta":
        return datetime.timedelta(**fields)
    if kind == "duration":
        return pendulum.duration(**fields)
    if "weekday" in fields:
        fields["weekday"] = weekday(*fields["weekday"])
    return relativedelta(**fields)


def _instant(text: str, zone: str) -> pendulum.DateTime:
    moment = pendulum.instance(datetime.datetime.fromisoformat(text))
    return moment.in_timezone(zone)


def _maybe_instant(text: str | None, zone: str) -> pendulum.DateTime | None:
    return None if text is None else _instant(text, zone)


def _iso(moment: datetime.datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(datetime.UTC).isoformat()


def _interval(interval: Any) -> list[str | None] | None:
    return None if interval is None else [_iso(interval.start), _iso(interval.end)]


def _run(run: Any) -> Document | None:
    if run is None:
        return None
    return {
        "run_after": _iso(run.run_after),
        "interval": _interval(run.data_interval),
        "partition": [_iso(run.partition_date), run.partition_key],
    }


def _refusal(error: Exception) -> Document:
    return {"error": type(error).__name__}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def main() -> None:
    """Answer every question of standard input with one line of JSON."""
    # Whatever a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with library(sys.argv[1]) as answering, answers:
        for line in sys.stdin:
            answers.write(json.dumps(answering.answer(json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
