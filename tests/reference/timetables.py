"""The page about timetables, with the next runs of each."""

from collections.abc import Callable, Iterator

from pendulum import DateTime

from lamplighter import clock
from lamplighter.timetables.base import DagRunInfo, TimeRestriction, Timetable, next_run
from lamplighter.timetables.cron import PRESETS
from lamplighter.zones import UTC
from tests.reference import examples
from tests.reference.code_of import block_of
from tests.reference.markdown import Page, code, paragraphs
from tests.reference.source import definition
from tests.reference.tables_of_definitions import arguments, class_section, fields, methods

START = DateTime(2026, 1, 1, tzinfo=UTC)
_RUNS = 5
_BASE = "lamplighter.timetables.base"


def page() -> Page:
    """Return the page."""
    made = Page(
        "Timetables",
        "What `schedule=` of a [DAG](authoring.md#dag) may be. The next runs below are computed"
        " by the code for a DAG"
        f" with `start_date` {START:YYYY-MM-DD HH:mm} UTC and `catchup=True` at ten past"
        " midnight, when none of its runs exists yet.",
    )
    _short_forms(made)
    for example in examples.TIMETABLES:
        _timetable(made, example)
    made.heading("Writing your own")
    made.text(paragraphs(definition(f"{_BASE}.Timetable").doc))
    made.text(
        "The [contract test](testing.md#check_timetable) says whether the scheduler can rely on it."
    )
    made.table(
        ("attribute", "default"),
        (
            (code(each.name), code(each.default))
            for each in definition(f"{_BASE}.Timetable").fields()
        ),
    )
    methods(made, definition(f"{_BASE}.Timetable"))
    for name in ("DagRunInfo", "DataInterval", "TimeRestriction"):
        found = definition(f"{_BASE}.{name}")
        made.heading(name)
        made.text(paragraphs(found.doc))
        fields(made, found.fields())
    return made


def _short_forms(made: Page) -> None:
    made.heading("Short forms")
    cron = code("CronDataIntervalTimetable")
    presets = ", ".join(f"{code(name)} ({code(text)})" for name, text in PRESETS.items())
    made.table(
        ("schedule", "means"),
        (
            (
                "a cron expression of five fields",
                f"{cron} in the time zone of `start_date`, UTC without one",
            ),
            (presets, f"{cron} of that expression"),
            ("a `timedelta` or `relativedelta`", code("DeltaDataIntervalTimetable")),
            (
                "an asset, a condition such as `a & b`, or a list of assets",
                code("AssetTriggeredTimetable"),
            ),
            ("`@once`", code("OnceTimetable")),
            ("`@continuous`", code("ContinuousTimetable")),
            ("`None`", code("NullTimetable")),
        ),
    )


def _timetable(made: Page, example: Callable[[], Timetable]) -> None:
    timetable = example()
    kind = type(timetable)
    path = f"{kind.__module__}.{kind.__name__}"
    if "__init__" in vars(kind) or kind.__init__ is object.__init__:
        class_section(made, path)
    else:
        found = definition(path)
        made.heading(found.name)
        made.text(paragraphs(found.doc))
        made.text(code(f"from {kind.__module__} import {kind.__name__}"))
        parent = next(each for each in kind.__mro__ if "__init__" in vars(each))
        arguments(made, definition(f"{parent.__module__}.{parent.__name__}").arguments())
    made.text(example.__doc__ or "")
    made.block("python", block_of(example, "schedule"))
    runs = list(next_runs(timetable))
    if not runs:
        made.text("Time alone creates no run.")
        return
    if len(runs) < _RUNS:
        made.text(f"Its runs end with the {'one' if len(runs) == 1 else 'last'} shown.")
    made.table(
        ("run after (UTC)", "data interval (UTC)", "partition key"),
        ((shown_at(run.run_after), _interval(run), code(run.partition_key or "")) for run in runs),
    )


def next_runs(timetable: Timetable) -> Iterator[DagRunInfo]:
    """Yield the next five runs; each of them takes ten minutes, which counts for `@continuous`."""
    info, now = None, START.add(minutes=10)
    for _ in range(_RUNS):
        with clock.at(now):
            info = next_run(timetable, info, TimeRestriction(START, None, catchup=True))
        if info is None:
            return
        yield info
        now = max(now, info.run_after).add(minutes=10)


def shown_at(instant: DateTime) -> str:
    """Return an instant as people read it."""
    return instant.in_timezone(UTC).format("ddd YYYY-MM-DD HH:mm")


def _interval(run: DagRunInfo) -> str:
    if run.data_interval is None:
        return "none"
    start, end = run.data_interval
    return shown_at(start) if start == end else f"{shown_at(start)} to {shown_at(end)}"
