"""Laws of cron expressions on a clock that nobody changes, with croniter as the judge."""

from datetime import datetime, timedelta

import pytest
from croniter import CroniterBadDateError, croniter
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lamplighter import clock, runtime
from lamplighter.errors import InvalidTimetableError
from lamplighter.timetables.base import TimeRestriction
from lamplighter.timetables.cron import CronSchedule, describe, wall_ticks
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter.zones import as_utc, parse_zone

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=150)

MONTHS = ["jan", "feb", "MAR", "apr", "may", "jun", "jul", "aug", "Sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "MON", "tue", "Wed", "thu", "fri", "sat"]


@st.composite
def items(draw: st.DrawFn, least: int, limit: int, names: list[str]) -> str:
    """Draw one item of a field: a number, a range, a step or a name."""
    low, high = sorted([draw(st.integers(least, limit)), draw(st.integers(least, limit))])
    step = draw(st.integers(1, limit))
    return draw(
        st.sampled_from(
            [f"{low}", f"{low}-{high}", f"{low}-{high}/{step}", f"*/{step}", f"{high}-{low}", "*"]
            + ([draw(st.sampled_from(names))] if names else [])
        )
    )


def fields(least: int, limit: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """Return a strategy of whole fields; every second one is a star, as in real life."""
    several = st.lists(items(least, limit, names or []), min_size=1, max_size=3).map(",".join)
    return st.just("*") | several


five_fields = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12, MONTHS), fields(0, 7, WEEKDAYS)
).map(" ".join)
odd_fields = st.sampled_from(
    [
        "0 0 L * *",
        "0 0 * * L5",
        "0 0 * * mon#2",
        "0 12 15W * *",
        "0 0 1 1 * 30",
        "*/15 * * * * */20",
        "0 0 1 1 * 0 2000-2090/2",
    ]
)
walls = st.builds(
    lambda day, fraction: day + fraction,
    st.datetimes(datetime(1972, 1, 1), datetime(2085, 1, 1)),
    st.sampled_from([timedelta(), timedelta(microseconds=1), timedelta(microseconds=-1)]),
) | st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)).map(
    lambda day: day.replace(second=0, microsecond=0)
)


def judged(expression: str, wall: datetime, method: str) -> datetime:
    """Return croniter's answer; leave out the expressions on which it knows none."""
    try:
        answer = getattr(croniter(expression, wall), method)(datetime)
    except CroniterBadDateError:
        assume(False)
    assert isinstance(answer, datetime)
    return answer


@calmly
@given(five_fields, walls)
def test_tick_after_any_instant_is_croniters(expression: str, wall: datetime) -> None:
    """The fast way gives croniter's next tick, down to the microsecond."""
    assume(croniter.is_valid(expression))
    expected = judged(expression, wall, "get_next")
    assert wall_ticks(expression).after(wall) == expected


@calmly
@given(five_fields, walls)
def test_tick_before_any_instant_is_croniters(expression: str, wall: datetime) -> None:
    """The fast way gives croniter's previous tick, down to the microsecond."""
    assume(croniter.is_valid(expression))
    expected = judged(expression, wall, "get_prev")
    assert wall_ticks(expression).before(wall) == expected


@calmly
@given(odd_fields, walls)
def test_tick_of_odd_expression_is_croniters(expression: str, wall: datetime) -> None:
    """Letters, seconds and years are read as croniter reads them."""
    expected = [judged(expression, wall, method) for method in ("get_next", "get_prev")]
    ticks = wall_ticks(expression)
    assert [ticks.after(wall), ticks.before(wall)] == expected


@calmly
@given(five_fields)
def test_expression_is_valid_where_croniters_is(expression: str) -> None:
    """What croniter refuses is refused, and nothing else."""
    try:
        wall_ticks(expression)
    except InvalidTimetableError:
        assert not croniter.is_valid(expression)
    else:
        assert croniter.is_valid(expression)


@calmly
@given(st.text(alphabet="0123456789*/,-LW#?HhRr@ \tabcdeijlmnostuy", max_size=20))
def test_expression_of_noise_is_refused_cleanly(expression: str) -> None:
    """Noise is not valid, has no description, and raises nothing but the one error."""
    timetable = CronDataIntervalTimetable(expression, "UTC")
    try:
        timetable.validate()
    except InvalidTimetableError:
        return
    assert timetable.description == describe(timetable.summary)


@calmly
@given(five_fields, walls, st.sampled_from(["UTC", 3600, -12600, "Etc/GMT+5", "Asia/Kolkata"]))
def test_ticks_of_any_expression_lead_back(expression: str, t: datetime, zone: str | int) -> None:
    """In a zone without changes, one tick back and one forward again cancel each other out."""
    assume(croniter.is_valid(expression))
    schedule = CronSchedule(expression, parse_zone(zone))
    try:
        later, earlier = schedule.after(t), schedule.before(t)
    except InvalidTimetableError:
        assume(False)
    assert earlier < t < later
    assert schedule.after(schedule.before(later)) == later
    assert schedule.before(schedule.after(earlier)) == earlier
    assert schedule.at_or_after(later) == schedule.at_or_before(later) == later
    assert schedule.at_or_before(t) in {t, earlier}
    assert schedule.at_or_after(t) in {t, later}
    assert (schedule.at_or_before(t) == t) == (schedule.at_or_after(t) == t)


@calmly
@given(five_fields, walls, st.booleans())
def test_skipping_any_expression_takes_newest(
    expression: str, now: datetime, has_start: bool
) -> None:
    """Without catchup, the interval has ended by now, and the next one has not."""
    assume(croniter.is_valid(expression))
    timetable = CronDataIntervalTimetable(expression, "UTC")
    earliest = as_utc(now - timedelta(days=36_500)) if has_start else None
    try:
        with runtime.using(clock=clock.FixedClock(now)):
            newest = timetable.next_dagrun_info(
                last_automated_data_interval=None,
                restriction=TimeRestriction(earliest, None, catchup=False),
            )
        assert newest is not None
        following = timetable.next_dagrun_info(
            last_automated_data_interval=newest.data_interval,
            restriction=TimeRestriction(earliest, None, catchup=True),
        )
    except InvalidTimetableError:
        assume(False)
    assert following is not None
    assert newest.data_interval is not None
    assert newest.data_interval.start < newest.run_after == newest.data_interval.end
    assert newest.run_after <= as_utc(now) < following.run_after


@calmly
@given(five_fields, walls, st.booleans())
def test_triggers_asked_in_turn_increase(expression: str, start: datetime, catchup: bool) -> None:
    """Each trigger lies after the one before, with catchup and without."""
    assume(croniter.is_valid(expression))
    timetable = CronTriggerTimetable(expression, timezone="UTC")
    restriction = TimeRestriction(as_utc(start), None, catchup)
    try:
        with runtime.using(clock=clock.FixedClock(start)):
            first = timetable.next_dagrun_info(
                last_automated_data_interval=None, restriction=restriction
            )
            assert first is not None
            second = timetable.next_dagrun_info(
                last_automated_data_interval=first.data_interval, restriction=restriction
            )
    except InvalidTimetableError:
        assume(False)
    assert second is not None
    assert as_utc(start) <= first.run_after < second.run_after


@pytest.mark.parametrize(
    ("expression", "tick"),
    [
        ("0 0 31 4 1", "2024-04-01"),
        ("0 0 30 2 1", "2024-02-05"),
        ("0 0 29 2 *", "2024-02-29"),
    ],
)
def test_weekday_beside_impossible_day_still_ticks(expression: str, tick: str) -> None:
    """Either day field may match, also where croniter gives up because one of them never does."""
    assert wall_ticks(expression).after(datetime(2024, 1, 1)) == datetime.fromisoformat(tick)


@pytest.mark.parametrize("expression", ["R * * * *", "0 r(0-5) * * *", "H * * * *", "0 0 R * *"])
def test_field_of_chance_is_refused(expression: str) -> None:
    """Fields that mean something else at every parse are refused."""
    with pytest.raises(InvalidTimetableError, match="cron "):
        wall_ticks(expression)
