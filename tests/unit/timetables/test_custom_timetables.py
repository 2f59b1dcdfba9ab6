"""Custom timetables: what the library refuses to believe, and the older spellings it names."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Any

import pendulum
import pytest
from pendulum import DateTime

from lamplighter import DAG
from lamplighter.errors import DefinitionError, InvalidTimetableError
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    manual_interval,
    next_run,
)

DAY = timedelta(days=1)
MONDAY = pendulum.datetime(2024, 1, 1)
NAIVE = datetime(2024, 1, 1)

Answer = Callable[[DataInterval | None, TimeRestriction], Any]


class AuthorTimetable(Timetable):
    """A timetable that answers whatever it was told to."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,
        restriction: TimeRestriction,
    ) -> DagRunInfo | None:
        answer: DagRunInfo | None = self.answer(last_automated_data_interval, restriction)
        return answer


def dag(answer: Answer) -> DAG:
    """Return a DAG on a timetable that gives `answer`."""
    return DAG("moon", schedule=AuthorTimetable(answer), start_date=MONDAY)


def always(info: Any) -> Answer:
    """Return an answer that is the same to every question."""
    return lambda _last, _restriction: info


def daily(last: DataInterval | None, restriction: TimeRestriction) -> DagRunInfo:
    """Answer one day after another, from the start date on."""
    start = restriction.earliest if last is None else last.end
    assert start is not None
    return DagRunInfo.interval(start, start.add(days=1))


NOT_RUNS = {
    "naive": (DagRunInfo.exact(NAIVE), "run_after=2024-01-01 00:00:00 without a time zone"),  # type: ignore[arg-type]
    "naive_start": (
        DagRunInfo(MONDAY, DataInterval(NAIVE, MONDAY)),  # type: ignore[arg-type]
        "data_interval.start=2024-01-01 00:00:00 without a time zone",
    ),
    "naive_end": (
        DagRunInfo(MONDAY, DataInterval(MONDAY, NAIVE)),  # type: ignore[arg-type]
        "data_interval.end=2024-01-01 00:00:00 without a time zone",
    ),
    "date": (DagRunInfo.exact(date(2024, 1, 1)), "not a DateTime"),  # type: ignore[arg-type]
    "nothing": (DagRunInfo(None, None), "run_after=None"),  # type: ignore[arg-type]
    "interval": (DataInterval(MONDAY, MONDAY), "not a DagRunInfo"),
    "datetime": (MONDAY, "not a DagRunInfo"),
    "text": ("2024-01-01", "not a DagRunInfo"),
    "reversed": (DagRunInfo.interval(MONDAY + DAY, MONDAY), "ends before it starts"),
}


@pytest.mark.parametrize(("info", "problem"), NOT_RUNS.values(), ids=NOT_RUNS)
def test_answer_that_is_no_run_is_named(info: Any, problem: str) -> None:
    """An answer that is no run is an error that names DAG, argument, timetable and field."""
    with pytest.raises(DefinitionError) as error:
        dag(always(info)).next_dagrun_info()
    assert str(error.value).startswith("DAG 'moon': schedule: AuthorTimetable ")
    assert problem in str(error.value)


@pytest.mark.parametrize(("info", "problem"), NOT_RUNS.values(), ids=NOT_RUNS)
def test_answer_while_iterating_is_named_too(info: Any, problem: str) -> None:
    """The same error comes from a walk over many runs, and names the DAG there as well."""
    runs = dag(always(info)).iter_dagrun_infos_between(None, MONDAY.add(days=9))
    with pytest.raises(DefinitionError, match="DAG 'moon': schedule: ") as error:
        list(runs)
    assert problem in str(error.value)


def test_answer_with_plain_tuple_is_refused() -> None:
    """An interval that is a plain tuple has no start, and is refused at the first question."""
    info = DagRunInfo(MONDAY, (MONDAY, MONDAY + DAY))  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="DAG 'moon': schedule: "):
        dag(always(info)).next_dagrun_info()


@pytest.mark.parametrize(
    "info",
    [
        DagRunInfo.exact(MONDAY - DAY),
        DagRunInfo(MONDAY + DAY, DataInterval(MONDAY - DAY, MONDAY)),
        DagRunInfo(MONDAY - DAY, DataInterval(MONDAY + DAY, MONDAY + 2 * DAY)),
    ],
    ids=["both", "logical_date", "run_after"],
)
def test_answer_going_backwards_is_refused(info: DagRunInfo) -> None:
    """Neither the logical date nor the run-after may lie before those of the last run."""
    with pytest.raises(DefinitionError, match=r"DAG 'moon': schedule: .*went backwards"):
        dag(always(info)).next_dagrun_info(DagRunInfo.exact(MONDAY))


def test_answer_standing_still_is_refused() -> None:
    """A timetable that repeats a run would be walked without end."""
    runs = dag(always(DagRunInfo.exact(MONDAY))).iter_dagrun_infos_between(None, MONDAY + 9 * DAY)
    with pytest.raises(DefinitionError, match="DAG 'moon': schedule: "):
        list(islice(runs, 3))


@pytest.mark.parametrize(
    "info",
    [
        DagRunInfo.interval(MONDAY + 5 * DAY, MONDAY + 6 * DAY),
        DagRunInfo.interval(MONDAY + DAY / 2, MONDAY + 3 * DAY / 2),
        DagRunInfo(MONDAY + 9 * DAY, DataInterval(MONDAY + DAY, MONDAY + 2 * DAY)),
    ],
    ids=["hole", "overlap", "delay"],
)
def test_answer_with_hole_or_overlap_is_believed(info: DagRunInfo) -> None:
    """Holes, overlaps and delays are an author's choice."""
    last = DagRunInfo.interval(MONDAY, MONDAY + DAY)
    assert dag(always(info)).next_dagrun_info(last) == info


def test_answer_in_other_zone_is_believed() -> None:
    """Any aware datetime is an instant, from whatever library it comes."""
    info = DagRunInfo.exact(datetime(2024, 1, 2, tzinfo=UTC))  # type: ignore[arg-type]
    assert dag(always(info)).next_dagrun_info(DagRunInfo.exact(MONDAY)) == info


def test_answer_none_ends_the_walk() -> None:
    """A timetable that has no further run ends every walk."""
    assert dag(always(None)).next_dagrun_info() is None
    assert list(dag(always(None)).iter_dagrun_infos_between(None, MONDAY)) == []


def test_walk_over_runs_includes_both_ends() -> None:
    """Every run between two instants is listed, whatever `catchup` says."""

    def bounded(last: DataInterval | None, restriction: TimeRestriction) -> DagRunInfo | None:
        assert restriction.catchup
        info = daily(last, restriction)
        assert restriction.latest is not None
        return info if info.data_interval.start <= restriction.latest else None  # type: ignore[union-attr]

    made = DAG("moon", schedule=AuthorTimetable(bounded), start_date=MONDAY, catchup=False)
    starts = [run.logical_date for run in made.iter_dagrun_infos_between(None, MONDAY + 2 * DAY)]
    assert starts == [MONDAY, MONDAY + DAY, MONDAY + 2 * DAY]


def test_walk_without_start_is_refused() -> None:
    """A walk needs an instant to begin at."""
    made = DAG("moon", schedule=AuthorTimetable(daily), catchup=False)
    with pytest.raises(DefinitionError, match="DAG 'moon': start_date: "):
        list(made.iter_dagrun_infos_between(None, MONDAY))


def test_timetable_is_asked_with_bounds() -> None:
    """A timetable sees the bounds of its DAG and the interval of the last run."""
    asked: list[object] = []

    def remember(last: DataInterval | None, restriction: TimeRestriction) -> None:
        asked.extend([last, restriction])

    made = DAG(
        "moon",
        schedule=AuthorTimetable(remember),
        start_date=MONDAY,
        end_date=MONDAY + 9 * DAY,
        catchup=False,
    )
    made.next_dagrun_info(DagRunInfo.interval(MONDAY, MONDAY + DAY))
    assert asked == [
        DataInterval(MONDAY, MONDAY + DAY),
        TimeRestriction(MONDAY, MONDAY + 9 * DAY, False),
    ]
    assert all(isinstance(bound, DateTime) for bound in made.restriction()[:2])


def test_timetable_that_fails_names_dag() -> None:
    """A timetable that refuses a question does so in the name of the DAG."""

    def refuse(last: DataInterval | None, restriction: TimeRestriction) -> None:
        raise ValueError("the moon is new")

    with pytest.raises(DefinitionError, match="DAG 'moon': schedule: the moon is new"):
        dag(refuse).next_dagrun_info()


def test_timetable_that_is_invalid_names_dag() -> None:
    """What `validate` of an author's timetable raises is told in the name of the DAG."""

    class InvalidTimetable(Timetable):
        def validate(self) -> None:
            raise InvalidTimetableError("there is no moon")

    with pytest.raises(DefinitionError, match="DAG 'moon': schedule: there is no moon"):
        DAG("moon", schedule=InvalidTimetable())


def test_timetable_limit_of_runs_is_obeyed() -> None:
    """An author's timetable may limit the active runs of its DAGs."""

    class NarrowTimetable(Timetable):
        active_runs_limit = 3

    with pytest.raises(DefinitionError, match=r"DAG 'moon': max_active_runs: .*3"):
        DAG("moon", schedule=NarrowTimetable(), start_date=MONDAY, max_active_runs=4)
    made = DAG("moon", schedule=NarrowTimetable(), start_date=MONDAY, max_active_runs=3)
    assert made.max_active_runs == 3


@pytest.mark.parametrize("inner", [None, "0 0 * * *", 5], ids=repr)
def test_timetable_may_keep_anything_inside(inner: object) -> None:
    """An attribute that happens to be called `timetable` is the author's own business."""

    class KeepingTimetable(AuthorTimetable):
        timetable = inner

    made = DAG("moon", schedule=KeepingTimetable(daily), start_date=MONDAY)
    assert made.next_dagrun_info() == DagRunInfo.interval(MONDAY, MONDAY + DAY)
    with pytest.raises(DefinitionError, match="DAG 'moon': start_date: "):
        DAG("moon", schedule=KeepingTimetable(daily)).validate()


FIRST_TWO_THIRTY = pendulum.datetime(2026, 10, 25, 0, 30).in_timezone("Europe/Zurich")
SECOND_TWO = pendulum.datetime(2026, 10, 25, 1).in_timezone("Europe/Zurich")


def test_interval_in_the_repeated_hour_is_believed() -> None:
    """From the first 02:30 to the second 02:00 is half an hour, whatever clocks show."""
    info = DagRunInfo.interval(FIRST_TWO_THIRTY, SECOND_TWO)
    assert dag(always(info)).next_dagrun_info() == info


def test_run_in_the_repeated_hour_follows_the_one_before() -> None:
    """The second 02:00 comes after the first 02:30."""
    timetable = AuthorTimetable(always(DagRunInfo.exact(SECOND_TWO)))
    restriction = TimeRestriction(MONDAY, None, catchup=True)
    last = DagRunInfo.exact(FIRST_TWO_THIRTY)
    assert next_run(timetable, last, restriction) == DagRunInfo.exact(SECOND_TWO)


class ManualTimetable(Timetable):
    """A timetable that infers whatever it was told to."""

    def __init__(self, interval: Any) -> None:
        self.interval = interval

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:  # noqa: ARG002 - an author's
        interval: DataInterval = self.interval
        return interval


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (None, "data_interval=None, not a DataInterval"),
        ((MONDAY, MONDAY), "not a DataInterval"),
        (DataInterval("today", MONDAY), "data_interval.start='today', not a DateTime"),  # type: ignore[arg-type] # is the point
        (DataInterval(MONDAY, NAIVE), "data_interval.end=2024-01-01 00:00:00 without a time zone"),  # type: ignore[arg-type] # is the point
        (DataInterval(MONDAY, MONDAY - DAY), "an interval that ends before it starts"),
    ],
)
def test_manual_interval_that_is_none_is_refused(interval: Any, words: str) -> None:
    """The error names the timetable, its method and what is wrong with the answer."""
    timetable = ManualTimetable(interval)
    with pytest.raises(InvalidTimetableError) as raised:
        manual_interval(timetable, run_after=MONDAY)
    said = str(raised.value)
    assert said.startswith("ManualTimetable.infer_manual_data_interval returned ")
    assert words in said


def test_older_method_name_is_refused() -> None:
    """`infer_data_interval` is an error that names the class and the new method."""
    with pytest.raises(DefinitionError, match=r"Older.*'infer_manual_data_interval'"):

        class OlderTimetable(Timetable):
            def infer_data_interval(self, run_after: DateTime) -> DataInterval:
                return DataInterval.exact(run_after)


@pytest.mark.parametrize("star", [False, True])
def test_older_argument_name_is_refused(star: bool) -> None:
    """`last_automated_dagrun` is an error that names the class and the new argument."""

    def positional(self: Any, last_automated_dagrun: Any, restriction: Any) -> None: ...

    def keyword(self: Any, *, last_automated_dagrun: Any, restriction: Any) -> None: ...

    with pytest.raises(DefinitionError, match=r"Older.*'last_automated_data_interval'"):
        type("OlderTimetable", (Timetable,), {"next_dagrun_info": keyword if star else positional})


def test_older_name_of_local_is_allowed() -> None:
    """The older name of the argument may still name a variable."""

    class MovedTimetable(Timetable):
        def next_dagrun_info(
            self,
            *,
            last_automated_data_interval: DataInterval | None,
            restriction: TimeRestriction,  # noqa: ARG002 - part of the signature
        ) -> DagRunInfo | None:
            last_automated_dagrun = last_automated_data_interval
            return last_automated_dagrun and DagRunInfo.exact(last_automated_dagrun.end)

    info = next_run(
        MovedTimetable(),
        DagRunInfo.interval(MONDAY, MONDAY + DAY),
        TimeRestriction(None, None, True),
    )
    assert info == DagRunInfo.exact(MONDAY + DAY)


@pytest.mark.parametrize("argument", ["schedule_interval", "timetable"])
@pytest.mark.parametrize("value", ["@daily", AuthorTimetable(daily), None])
def test_older_argument_of_dag_is_refused(argument: str, value: Any) -> None:
    """`schedule_interval=` and `timetable=` are errors that name the DAG and `schedule`."""
    with pytest.raises(DefinitionError, match=f"DAG 'moon': {argument}: .*'schedule'"):
        DAG("moon", **{argument: value})
