"""Law: every timetable is written down and read back as the same timetable."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest
from dateutil.relativedelta import relativedelta, weekday
from hypothesis import given, settings
from hypothesis import strategies as st
from pendulum import DateTime

from lamplighter import Asset, AssetAlias, AssetAll, AssetAny, clock, runtime
from lamplighter.errors import SerializationError
from lamplighter.loading import author_code_allowed
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import (
    DagRunInfo,
    TimeRestriction,
    Timetable,
    decode_timetable,
    encode_timetable,
)
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import (
    AssetTriggeredTimetable,
    ContinuousTimetable,
    NullTimetable,
    OnceTimetable,
)
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)
from lamplighter.zones import as_utc

calmly = settings(deadline=None, derandomize=True, database=None, max_examples=150)

crons = st.sampled_from(
    ["@hourly", "@midnight", "30 2 * * *", "*/7 9-17 * * mon-fri", "0 0 L * *", "5 4 1 1 * 30"]
)
zones = st.sampled_from(
    ["UTC", "Europe/Zurich", "America/St_Johns", "Etc/GMT+5", 0, -12600, 3630]
) | st.sampled_from(["Europe/Zurich", "Africa/Casablanca"]).map(pendulum.timezone)
timedeltas = st.timedeltas(timedelta(microseconds=1), timedelta(days=800))
calendar_deltas = st.builds(
    lambda weeks, **fields: relativedelta(days=7 * weeks, **fields),
    st.integers(0, 3),
    months=st.integers(1, 30),
    hours=st.integers(0, 100),
    seconds=st.integers(0, 5000),
    microseconds=st.integers(0, 10),
    hour=st.none() | st.integers(0, 23),
    weekday=st.none()
    | st.builds(weekday, st.integers(0, 6), st.none() | st.sampled_from([1, 2, 3])),
)
deltas = timedeltas | calendar_deltas
immediately = st.none() | st.booleans() | timedeltas
instants = st.datetimes(datetime(2015, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)).map(
    as_utc
)

leaves = st.sampled_from(
    [
        Asset("a", "s3://b/k", extra={"n": [1, None, "ü"]}, group="g"),
        AssetAlias("x", group=""),
        Asset.ref(name="r"),
        Asset.ref(uri="s3://b/k/"),
    ]
)
conditions = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3).flatmap(
        lambda items: st.sampled_from([AssetAll(*items), AssetAny(*items)])
    ),
    max_leaves=6,
)
timed: st.SearchStrategy[Timetable] = st.one_of(
    st.builds(CronDataIntervalTimetable, crons, zones),
    st.builds(DeltaDataIntervalTimetable, deltas),
    st.builds(
        CronTriggerTimetable, crons, timezone=zones, interval=deltas, run_immediately=immediately
    ),
    st.builds(DeltaTriggerTimetable, deltas, interval=deltas),
    st.lists(crons, min_size=1, max_size=3).flatmap(
        lambda several: st.builds(
            MultipleCronTriggerTimetable,
            *map(st.just, several),
            timezone=zones,
            interval=deltas,
            run_immediately=immediately,
        )
    ),
    st.builds(
        CronPartitionTimetable,
        crons,
        timezone=zones,
        run_offset=st.none() | st.integers(-2, 2),
        run_immediately=immediately,
        key_format=st.sampled_from(["%Y-%m-%d", "%H of %j", ""]),
    ),
    st.builds(
        EventsTimetable,
        st.lists(instants, max_size=4),
        restrict_to_events=st.booleans(),
        description=st.none() | st.just("") | st.just("launches"),
    ),
    st.builds(OnceTimetable),
    st.builds(ContinuousTimetable),
    st.builds(NullTimetable),
)
timetables: st.SearchStrategy[Timetable] = st.one_of(
    timed,
    st.builds(AssetTriggeredTimetable, conditions),
    st.builds(AssetOrTimeSchedule, timetable=timed, assets=conditions),
)
restrictions = st.builds(TimeRestriction, instants, st.none() | instants, st.booleans())


def copy_of(timetable: Timetable) -> Timetable:
    """Return what is read back after a journey through JSON text."""
    return decode_timetable(json.loads(json.dumps(encode_timetable(timetable), allow_nan=False)))


def two_runs(
    timetable: Timetable, now: DateTime, restriction: TimeRestriction
) -> list[DagRunInfo | None]:
    """Return the first run at `now` and the one after it."""
    with runtime.using(clock=clock.FixedClock(now)):
        second = None
        first = timetable.next_dagrun_info_v2(last_dagrun_info=None, restriction=restriction)
        if first is not None:
            second = timetable.next_dagrun_info_v2(last_dagrun_info=first, restriction=restriction)
        return [first, second]


@calmly
@given(timetables)
def test_timetable_read_back_is_equal(timetable: Timetable) -> None:
    """A timetable equals its copy, hashes like it and shows the same to people."""
    copy = copy_of(timetable)
    assert copy == timetable
    assert hash(copy) == hash(timetable)
    assert (copy.summary, copy.description) == (timetable.summary, timetable.description)
    assert encode_timetable(copy) == encode_timetable(timetable)


@calmly
@given(timetables, instants, restrictions)
def test_timetable_read_back_answers_same(
    timetable: Timetable, now: DateTime, restriction: TimeRestriction
) -> None:
    """A copy answers every question like the original, and the original answers twice the same."""
    answers = two_runs(timetable, now, restriction)
    assert two_runs(timetable, now, restriction) == answers
    assert two_runs(copy_of(timetable), now, restriction) == answers


@calmly
@given(timetables, instants)
def test_timetable_read_back_infers_same(timetable: Timetable, run_after: DateTime) -> None:
    """A copy gives manual runs the same interval."""
    interval = timetable.infer_manual_data_interval(run_after=run_after)
    assert copy_of(timetable).infer_manual_data_interval(run_after=run_after) == interval


class OuterTimetable:
    """A class that holds another, as authors like to nest them."""

    class Inner(Timetable):
        """A timetable inside a class."""


class AuthorTimetable(Timetable):
    """A timetable of an author's, with an argument."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def serialize(self) -> dict[str, Any]:
        return {"shift": self.shift}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "AuthorTimetable":
        return cls(data["shift"])


@pytest.mark.parametrize("timetable", [AuthorTimetable(3), OuterTimetable.Inner()], ids=repr)
def test_authors_timetable_is_read_back(timetable: Timetable) -> None:
    """An author's class is found again by its import path, nested or not."""
    with author_code_allowed():
        assert copy_of(timetable) == timetable


def test_authors_timetable_is_refused_elsewhere() -> None:
    """Where author code may not run, an author's class is not even imported."""
    with pytest.raises(SerializationError, match="AuthorTimetable"):
        copy_of(AuthorTimetable())


def test_local_class_is_refused_at_writing() -> None:
    """A class inside a function could never be found again, and is refused when written."""

    class LocalTimetable(Timetable):
        pass

    with pytest.raises(SerializationError, match="LocalTimetable"):
        encode_timetable(LocalTimetable())
