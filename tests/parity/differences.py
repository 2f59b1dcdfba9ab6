"""The deliberate differences between our timetables and Airflow's, each with its proof.

Owns: when two answers agree, and which reason explains that they do not. A reason never believes
our answer: it works out again what both answers must be, so that it cannot hide a mistake.
"""

import calendar
import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from croniter import croniter

from lamplighter.timetables.cron import PRESETS
from tests.parity.answer import Document, Library, Question
from tests.parity.rules import AirflowTicks, FixedTicks, crons_of, impose, written_out

_OUR_REFUSALS = ("InvalidTimetableError", "NoTickError", "DefinitionError")
_UNKNOWN_TO_AIRFLOW = ("@midnight", "@annually")
# Both libraries refuse it at every use, and describe it with an empty text.
_NO_CRON = "no cron"
_FIELDS_WITH_YEAR = 7
_UNIX_FIELDS = 5


@dataclass(frozen=True)
class Case:
    """A question, what both libraries say to it, and ours, to put further questions to."""

    question: Question
    ours: Any
    theirs: Any
    library: Library

    @property
    def timetable(self) -> Document:
        """The timetable that speaks of time: the inner one of a schedule on assets or time."""
        document = self.question["timetable"]
        inner: Document = document["arguments"].get("timetable", document)
        return inner

    @property
    def method(self) -> str:
        """What was asked."""
        return self.question["method"]

    def asked_with(self, **arguments: Any) -> Any:
        """Return our answer to the same question about a timetable with other arguments."""
        document = self.question["timetable"]
        changed = {**self.timetable, "arguments": {**self.timetable["arguments"], **arguments}}
        if self.timetable is not document:
            outer = {**document["arguments"], "timetable": changed}
            changed = {**document, "arguments": outer}
        return self.library.answer({**self.question, "timetable": changed})

    def asked_with_crons(self, change: Callable[[str], str]) -> Any:
        """Return our answer to the same question with every cron expression changed."""
        crons = [change(cron) for cron in crons_of(self.timetable)]
        if "crons" in self.timetable["arguments"]:
            return self.asked_with(crons=crons)
        return self.asked_with(cron=crons[0])

    def asked_under(self, rule: type[AirflowTicks | FixedTicks]) -> Any:
        """Return our answer with the ticks of one of the rules."""
        timetable = self.library.build(self.question["timetable"])
        impose(timetable, self.question["timetable"], rule)
        return self.library.ask(timetable, self.question)


@dataclass(frozen=True)
class Difference:
    """One deliberate difference: a name, a sentence, and the test whether it explains a case."""

    name: str
    sentence: str
    explains: Callable[[Case], bool]


def is_refusal(answer: Any) -> bool:
    """Return True if the answer was an exception."""
    return _refusal(answer) is not None


def agree(ours: Any, theirs: Any) -> bool:
    """Return True for equal answers; two refusals are equal, if ours is one made on purpose."""
    return bool(ours == theirs) or (_refusal(ours) in _OUR_REFUSALS and bool(_refusal(theirs)))


def explain(case: Case) -> str | None:
    """Return the name of the difference that explains why the answers do not agree."""
    return next((known.name for known in DIFFERENCES if known.explains(case)), None)


def _is_random_field_refused(case: Case) -> bool:
    if not any(_is_random(cron) for cron in crons_of(case.timetable)):
        return False
    if case.method == "description":
        without = case.asked_with_crons(lambda cron: _NO_CRON if _is_random(cron) else cron)
        return bool(case.ours == without)
    return _refusal(case.ours) in _OUR_REFUSALS


def _is_preset_expanded(case: Case) -> bool:
    if not set(_UNKNOWN_TO_AIRFLOW) & set(crons_of(case.timetable)):
        return False
    expanded = case.asked_with_crons(lambda cron: PRESETS.get(cron, cron))
    if case.method == "description":
        unknown = case.asked_with_crons(lambda c: _NO_CRON if c in _UNKNOWN_TO_AIRFLOW else c)
        return bool(case.ours == expanded and case.theirs == unknown)
    return _is_summary_of_written_text(case) and case.ours == expanded


def _is_text_trimmed(case: Case) -> bool:
    if not any(cron != cron.strip() for cron in crons_of(case.timetable)):
        return False
    return _is_summary_of_written_text(case) and case.ours == case.asked_with_crons(str.strip)


def _is_summary_of_written_text(case: Case) -> bool:
    """Return True if Airflow shows the cron text as the author wrote it."""
    written = (
        cron if cron in _UNKNOWN_TO_AIRFLOW else PRESETS.get(cron, cron)
        for cron in crons_of(case.timetable)
    )
    return case.method == "summary" and str(case.theirs).endswith(", ".join(written))


def _does_airflow_assert(case: Case) -> bool:
    """Return True if Airflow's rule takes it past now, and ours is right by our own."""
    if _refusal(case.theirs) != "AssertionError" or not _has_ticks(case):
        return False
    arguments = case.timetable["arguments"]
    ticks = AirflowTicks(arguments["cron"], arguments["timezone"])
    now = datetime.datetime.fromisoformat(case.question["now"]).replace(tzinfo=None)
    return ticks.after(ticks.before(now)) < now and _same(case.asked_under(FixedTicks), case.ours)


def _do_years_begin_or_end(case: Case) -> bool:
    """Return True if Airflow looks for a tick outside the years that the schedule names."""
    if _refusal(case.theirs) != "CroniterBadDateError" or not _has_ticks(case):
        return False
    names_years = any(len(cron.split()) == _FIELDS_WITH_YEAR for cron in crons_of(case.timetable))
    return names_years and _is_by_the_rules(case)


def _are_ticks_fixed(case: Case) -> bool:
    """Return True if both answers follow from the two rules for ticks, and from nothing else."""
    return _has_ticks(case) and _is_by_the_rules(case)


def _is_by_the_rules(case: Case) -> bool:
    is_theirs = agree(case.asked_under(AirflowTicks), case.theirs)
    return is_theirs and _same(case.asked_under(FixedTicks), case.ours)


def _is_missing_day_ignored(case: Case) -> bool:
    """Return True if the day of the month never comes, and we go by the days of the week alone."""
    crons = crons_of(case.timetable)
    if _refusal(case.theirs) != "CroniterBadDateError" or not any(map(_has_missing_day, crons)):
        return False
    return bool(case.ours == case.asked_with_crons(_without_missing_day))


def _without_missing_day(cron: str) -> str:
    if not _has_missing_day(cron):
        return cron
    minute, hour, _, month, weekday = cron.split()
    return f"{minute} {hour} * {month} {weekday}"


def _has_missing_day(cron: str) -> bool:
    """Return True if either day field may match, and the day of the month is in none of them."""
    if not _is_steady(cron) or len(cron.split()) != _UNIX_FIELDS:
        return False
    _, _, days, months, weekdays = croniter.expand(cron)[0]
    if "*" in (*days, *months, *weekdays) or "l" in days:
        return False
    leap_year = 2000
    longest = max(calendar.monthrange(leap_year, int(month))[1] for month in months)
    return min(int(day) for day in days) > longest


def _is_duration_plain(case: Case) -> bool:
    """Return True if we treat a pendulum duration as the plain distance with the same fields."""
    plain = {
        name: {
            **value,
            "kind": "relativedelta" if {"months", "years"} & set(value) else "timedelta",
        }
        for name, value in case.timetable["arguments"].items()
        if name in ("delta", "interval") and value["kind"] == "duration"
    }
    return bool(plain) and bool(case.ours == case.asked_with(**plain))


def _are_events_in_utc(case: Case) -> bool:
    """Return True if both describe the same events, Airflow in the zone they were written in."""
    if case.method != "description" or case.timetable["type"] != "EventsTimetable":
        return False
    events = case.timetable["arguments"]["event_dates"]
    in_utc = case.asked_with(event_dates={**events, "zone": "UTC"})
    return events["zone"] != "UTC" and bool(case.ours == in_utc)


def _is_local_instant_plain(case: Case) -> bool:
    """Return True if an instant given in a local zone means to us what it means in UTC.

    Airflow returns a start date that is a tick as it was given, and counts the interval back on
    its clock. And Python compares the instants of a repeated hour by that clock too.
    """
    question, arguments = case.question, case.timetable["arguments"]
    given = [question["run_after"], question["earliest"], question["latest"]]
    given += question["last"] or []
    is_clock_used = _is_ambiguous(given, question["zone"]) or _is_only_start_different(case)
    in_utc = {}
    if "event_dates" in arguments:
        events = arguments["event_dates"]
        is_clock_used = is_clock_used or _is_ambiguous(events["at"], events["zone"])
        in_utc = {"event_dates": {**events, "zone": "UTC"}}
    twin = replace(case, question={**question, "zone": "UTC"})
    return is_clock_used and bool(case.ours == twin.asked_with(**in_utc))


def _is_only_start_different(case: Case) -> bool:
    if case.question["zone"] == "UTC" or not case.method.startswith("next"):
        return False
    runs = [
        run for run in (case.ours, case.theirs) if run and not _refusal(run) and run["interval"]
    ]
    return len(runs) == 2 and all(
        run["run_after"] == run["interval"][1] == runs[0]["run_after"] for run in runs
    )


def _is_ambiguous(given: Sequence[str | None], zone: str) -> bool:
    moments = (datetime.datetime.fromisoformat(text) for text in given if text is not None)
    local = [moment.astimezone(ZoneInfo(zone)) for moment in moments]
    return any(at.replace(fold=0).utcoffset() != at.replace(fold=1).utcoffset() for at in local)


def _is_partition_kept(case: Case) -> bool:
    """Return True if we announce the inner timetable's partition, and Airflow a plain run."""
    is_inside = case.timetable is not case.question["timetable"]
    if not is_inside or case.timetable["type"] != "CronPartitionTimetable":
        return False
    if case.method == "traits":
        return isinstance(case.theirs, list) and bool(case.ours == [*case.theirs[:-1], True])
    inner = replace(case, question={**case.question, "timetable": case.timetable})
    plain = replace(inner, question={**inner.question, "method": "next_dagrun_info"})
    return bool(
        case.method == "next_dagrun_info_v2"
        and _has_ticks(case)
        and _same(inner.asked_under(FixedTicks), case.ours)
        and agree(plain.asked_under(AirflowTicks), case.theirs)
    )


def _is_key_with_offset(case: Case) -> bool:
    if case.method != "resolve_partition_date" or _refusal(case.theirs) != "ValueError":
        return False
    key_format = case.timetable["arguments"]["key_format"]
    if "%z" not in key_format:
        return False
    moment = datetime.datetime.strptime(str(case.question["key"]), key_format)  # noqa: DTZ007
    return bool(case.ours == moment.astimezone(datetime.UTC).isoformat())


def _same(worked_out: Any, ours: Any) -> bool:
    """Return True if our answer is the one that was worked out; refusals need only be refusals."""
    return agree(ours, worked_out)


def _has_ticks(case: Case) -> bool:
    crons = crons_of(case.timetable)
    is_asked_for_time = case.method.startswith("next") or case.method.startswith("infer")
    return is_asked_for_time and bool(crons) and all(_is_steady(cron) for cron in crons)


def _is_steady(cron: str) -> bool:
    return not _is_random(cron) and croniter.is_valid(written_out(cron))


def _is_random(cron: str) -> bool:
    return any(field.upper().startswith("R") for field in cron.split())


def _refusal(answer: Any) -> str | None:
    return answer.get("error") if isinstance(answer, dict) else None


DIFFERENCES = (
    Difference(
        "random-cron-field-refused",
        "A cron field `R` is refused, because the schedule would change at every parse.",
        _is_random_field_refused,
    ),
    Difference(
        "presets-midnight-annually-described",
        "`@midnight` and `@annually` are expanded and described like the other presets.",
        _is_preset_expanded,
    ),
    Difference(
        "cron-text-trimmed",
        "Spaces around a cron text do not show in its summary.",
        _is_text_trimmed,
    ),
    Difference(
        "skip-to-latest-never-fails",
        "`catchup=False` near a change of the clocks gives a run where Airflow's assertion fails.",
        _does_airflow_assert,
    ),
    Difference(
        "years-of-a-schedule-begin-and-end",
        "A cron expression that names its years has a first run, where Airflow looks in vain for"
        " one before.",
        _do_years_begin_or_end,
    ),
    Difference(
        "ticks-do-not-depend-on-the-question",
        "Where the clocks change, ticks are a fixed set of instants, the same forwards and"
        " backwards.",
        _are_ticks_fixed,
    ),
    Difference(
        "day-that-never-comes-ignored",
        "A day that none of the months has, beside days of the week, leaves those as they are.",
        _is_missing_day_ignored,
    ),
    Difference(
        "pendulum-duration-is-plain",
        "A pendulum duration is the timedelta or relativedelta with the same fields.",
        _is_duration_plain,
    ),
    Difference(
        "events-described-in-utc",
        "The description of listed events shows them in UTC, whatever zone they were written in.",
        _are_events_in_utc,
    ),
    Difference(
        "partition-key-with-offset-resolves",
        "A partition key that holds its offset (`%z`) can be read back.",
        _is_key_with_offset,
    ),
    Difference(
        "asset-or-time-keeps-partitions",
        "A schedule on assets or time announces the partitions of the timetable inside it.",
        _is_partition_kept,
    ),
    Difference(
        "local-instants-count-as-utc",
        "An instant given in a local zone means the same as in UTC, also in a repeated hour.",
        _is_local_instant_plain,
    ),
)
