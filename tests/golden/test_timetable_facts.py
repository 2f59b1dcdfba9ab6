"""Facts about each family of timetables: deltas, triggers, events, partitions, assets."""

from datetime import datetime, timedelta
from typing import Any

import pendulum
import pytest
from dateutil.relativedelta import FR, MO, relativedelta
from pendulum import DateTime

from lamplighter import Asset, clock, runtime
from lamplighter.errors import DefinitionError, InvalidTimetableError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
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
from lamplighter.zones import parse_instant

HOUR = timedelta(hours=1)
MONTH = relativedelta(months=1)


def at(text: str) -> DateTime:
    """Return the instant of 2024 that `text` gives without its year."""
    return parse_instant(f"2024-{text}")


def ask(
    timetable: Timetable,
    *,
    now: str = "04-10T12:30",
    last: DataInterval | None = None,
    earliest: str = "",
    latest: str = "",
    catchup: bool = True,
) -> DagRunInfo | None:
    """Return the next run of `timetable` when the clock shows `now`."""
    first, final = (at(bound) if bound else None for bound in (earliest, latest))
    with runtime.using(clock=clock.FixedClock(at(now))):
        return timetable.next_dagrun_info_v2(
            last_dagrun_info=last and DagRunInfo(last.end, last),
            restriction=TimeRestriction(first, final, catchup),
        )


def between(start: str, end: str) -> DagRunInfo:
    """Return the run for the interval between two instants."""
    return DagRunInfo.interval(at(start), at(end))


class TestDelta:
    @pytest.mark.parametrize(
        ("delta", "start", "end"),
        [
            (timedelta(hours=6), "04-10T06", "04-10T12"),
            (timedelta(days=1), "04-09", "04-10"),
            # The epoch was a Thursday.
            (timedelta(weeks=1), "03-28", "04-04"),
            (relativedelta(days=1), "04-09", "04-10"),
            (relativedelta(weeks=1), "03-28", "04-04"),
            (relativedelta(hours=6), "04-10T06", "04-10T12"),
            (timedelta(minutes=45), "04-10T11:15", "04-10T12:00"),
        ],
        ids=repr,
    )
    def test_fixed_delta_skipping_counts_from_epoch(
        self, delta: timedelta, start: str, end: str
    ) -> None:
        """Without catchup, the grid of a fixed delta hangs on the epoch, not on the start date."""
        timetable = DeltaDataIntervalTimetable(delta)
        info = ask(timetable, earliest="01-01T00:07", catchup=False)
        assert info == between(start, end)

    def test_calendar_delta_skipping_walks_from_start(self) -> None:
        """Months are walked one by one from the start date, and the shortest one leaves its day."""
        info = ask(DeltaDataIntervalTimetable(MONTH), earliest="01-31", catchup=False)
        assert info == between("02-29", "03-29")

    def test_calendar_delta_without_start_uses_now(self) -> None:
        """Without a start date, the newest month ends this very moment."""
        info = ask(DeltaDataIntervalTimetable(MONTH), catchup=False)
        assert info == between("03-10T12:30", "04-10T12:30")

    def test_calendar_delta_catching_up_keeps_steps(self) -> None:
        """With catchup, each month starts where the one before has ended."""
        timetable = DeltaDataIntervalTimetable(MONTH)
        first = ask(timetable, earliest="01-31")
        assert first == between("01-31", "02-29")
        assert ask(timetable, last=first.data_interval, earliest="01-31") == between(
            "02-29", "03-29"
        )

    @pytest.mark.parametrize(
        "delta",
        [timedelta(0), -HOUR, relativedelta(), relativedelta(months=-1), relativedelta(day=1)],
        ids=repr,
    )
    def test_delta_standing_still_is_refused(self, delta: timedelta) -> None:
        """A delta that does not lead into the future is not valid."""
        with pytest.raises(InvalidTimetableError, match="must be positive"):
            DeltaDataIntervalTimetable(delta).validate()

    def test_delta_shows_itself_as_summary(self) -> None:
        """The summary of a delta is the delta; there is no description."""
        timetable = DeltaDataIntervalTimetable(timedelta(hours=6))
        assert (timetable.summary, timetable.description) == ("6:00:00", "")

    @pytest.mark.parametrize("timetable", [DeltaDataIntervalTimetable, DeltaTriggerTimetable])
    @pytest.mark.parametrize("delta", ["1h", 3600, None])
    def test_delta_of_other_type_is_refused(self, timetable: Any, delta: object) -> None:
        """Only timedelta and relativedelta are deltas."""
        with pytest.raises(InvalidTimetableError, match="is not a timedelta or relativedelta"):
            timetable(delta)

    def test_trigger_interval_may_be_months(self) -> None:
        """An interval of a month reaches back to the same day of the month before."""
        timetable = CronTriggerTimetable("0 0 31 * *", timezone="UTC", interval=MONTH)
        assert ask(timetable, earliest="03-15") == between("02-29", "03-31")


WRITTEN = [
    (
        CronDataIntervalTimetable("@daily", "UTC"),
        {"expression": "0 0 * * *", "timezone": "UTC"},
    ),
    (
        CronDataIntervalTimetable("@daily", "Europe/Zurich"),
        {"expression": "0 0 * * *", "timezone": "Europe/Zurich"},
    ),
    (
        CronDataIntervalTimetable("@daily", pendulum.FixedTimezone(-5400)),
        {"expression": "0 0 * * *", "timezone": -5400},
    ),
    (DeltaDataIntervalTimetable(HOUR), {"delta": 3600.0}),
    (DeltaDataIntervalTimetable(timedelta(microseconds=1)), {"delta": 1e-06}),
    (
        DeltaDataIntervalTimetable(relativedelta(months=1, hour=6)),
        {"delta": {"months": 1, "hour": 6}},
    ),
    (DeltaDataIntervalTimetable(relativedelta(weekday=MO)), {"delta": {"weekday": [0]}}),
    (DeltaDataIntervalTimetable(relativedelta(weekday=FR(2))), {"delta": {"weekday": [4, 2]}}),
    (DeltaTriggerTimetable(HOUR, interval=HOUR), {"delta": 3600.0, "interval": 3600.0}),
    (
        CronTriggerTimetable("@daily", timezone="UTC", run_immediately=HOUR),
        {
            "expression": "0 0 * * *",
            "timezone": "UTC",
            "interval": 0.0,
            "run_immediately": 3600.0,
        },
    ),
    (
        MultipleCronTriggerTimetable("@daily", "@hourly", timezone="UTC", interval=MONTH),
        {
            "expressions": ["0 0 * * *", "0 * * * *"],
            "timezone": "UTC",
            "interval": {"months": 1},
            "run_immediately": False,
        },
    ),
    (NullTimetable(), {}),
    (OnceTimetable(), {}),
    (ContinuousTimetable(), {}),
]


@pytest.mark.parametrize(("timetable", "document"), WRITTEN, ids=repr)
def test_timetable_written_down_is_agreed(timetable: Timetable, document: dict[str, Any]) -> None:
    """The arguments of a timetable are written under the agreed names."""
    assert timetable.serialize() == document


def test_trigger_written_long_ago_is_read() -> None:
    """A cron trigger that was written without `run_immediately` is read as False."""
    timetable = CronTriggerTimetable.deserialize(
        {"expression": "0 0 * * *", "timezone": "UTC", "interval": 0.0}
    )
    assert timetable == CronTriggerTimetable("@daily", timezone="UTC")


class TestMultipleCron:
    @pytest.mark.parametrize(
        ("now", "first"),
        [
            ("04-10T12:45", "04-10T12:30"),
            ("04-10T12:15", "04-10T12:00"),
            ("04-10T12:30", "04-10T12:30"),
        ],
    )
    def test_several_crons_skipping_take_newest(self, now: str, first: str) -> None:
        """Without catchup, the newest tick of any expression wins."""
        timetable = MultipleCronTriggerTimetable("0 * * * *", "30 12 * * *", timezone="UTC")
        info = ask(timetable, now=now, earliest="01-01", catchup=False)
        assert info == DagRunInfo.exact(at(first))

    def test_several_crons_ahead_take_soonest(self) -> None:
        """When every tick lies ahead, the soonest one wins."""
        timetable = MultipleCronTriggerTimetable("0 0 * * *", "30 12 * * *", timezone="UTC")
        info = ask(timetable, earliest="05-01T06", catchup=False)
        assert info == DagRunInfo.exact(at("05-01T12:30"))

    def test_several_crons_catching_up_take_earliest(self) -> None:
        """With catchup, the earliest tick of any expression comes next."""
        timetable = MultipleCronTriggerTimetable("0 0 * * *", "30 12 * * *", timezone="UTC")
        last = DataInterval.exact(at("04-01"))
        assert ask(timetable, last=last) == DagRunInfo.exact(at("04-01T12:30"))

    def test_several_crons_may_run_out(self) -> None:
        """Past the end date of all expressions there is no run."""
        timetable = MultipleCronTriggerTimetable("0 0 * * *", "30 12 * * *", timezone="UTC")
        assert ask(timetable, earliest="04-01T13", latest="04-01T23") is None

    def test_several_crons_near_end_go_on(self) -> None:
        """An expression whose next tick is past the end does not stop the others."""
        timetable = MultipleCronTriggerTimetable("0 0 * * *", "30 12 * * *", timezone="UTC")
        info = ask(timetable, earliest="04-01T06", latest="04-01T23")
        assert info == DagRunInfo.exact(at("04-01T12:30"))

    def test_no_cron_at_all_is_refused(self) -> None:
        """At least one expression is needed; the error is a ValueError as in Airflow."""
        with pytest.raises(ValueError, match="at least one cron"):
            MultipleCronTriggerTimetable(timezone="UTC")

    def test_several_crons_have_joined_descriptions(self) -> None:
        """The descriptions of all expressions are shown, with commas between them."""
        timetable = MultipleCronTriggerTimetable("@daily", "*/5 * * * *", timezone="UTC")
        assert timetable.description == "At 00:00, Every 5 minutes"

    def test_one_bad_cron_among_several_fails(self) -> None:
        """Every expression is validated, not only the first."""
        with pytest.raises(InvalidTimetableError, match="99"):
            MultipleCronTriggerTimetable("@daily", "99 * * * *", timezone="UTC").validate()


class TestContinuous:
    def test_continuous_run_for_future_keeps_length(self) -> None:
        """A last run made for the future is followed by one of its length at the start date."""
        last = DataInterval(at("04-11"), at("04-11T02"))
        info = ask(ContinuousTimetable(), last=last, earliest="04-12")
        assert info == between("04-12", "04-12T02")

    @pytest.mark.parametrize("catchup", [True, False])
    def test_continuous_run_follows_last_end(self, catchup: bool) -> None:
        """The next run covers the time since the last one, with catchup or without."""
        last = DataInterval(at("04-01"), at("04-02"))
        info = ask(ContinuousTimetable(), last=last, earliest="01-01", catchup=catchup)
        assert info == between("04-02", "04-10T12:30")


ELECTIONS = [at("03-05"), at("01-15"), at("11-05"), at("03-05")]


class TestEvents:
    def test_events_out_of_order_are_sorted(self) -> None:
        """Events may be listed in any order."""
        assert ask(EventsTimetable(ELECTIONS)) == DagRunInfo.exact(at("01-15"))

    def test_events_listed_twice_run_once(self) -> None:
        """An event that is listed twice has one run."""
        last = DataInterval.exact(at("03-05"))
        assert ask(EventsTimetable(ELECTIONS), last=last) == DagRunInfo.exact(at("11-05"))

    def test_event_exactly_at_start_counts(self) -> None:
        """Both bounds include their own instant."""
        timetable = EventsTimetable(ELECTIONS)
        info = ask(timetable, earliest="03-05", latest="03-05")
        assert info == DagRunInfo.exact(at("03-05"))

    def test_event_exactly_now_is_kept(self) -> None:
        """Without catchup, an event at this very moment is not missed."""
        timetable = EventsTimetable(ELECTIONS)
        assert ask(timetable, now="03-05", catchup=False) == DagRunInfo.exact(at("03-05"))

    def test_no_events_have_no_run(self) -> None:
        """An empty list never runs, and a manual run is still possible."""
        timetable = EventsTimetable([], restrict_to_events=True)
        assert ask(timetable) is None
        assert timetable.infer_manual_data_interval(run_after=at("03-01")) == DataInterval.exact(
            at("03-01")
        )

    @pytest.mark.parametrize(
        ("run_after", "event"),
        [
            ("01-01", "01-15"),
            ("01-15", "01-15"),
            ("02-01", "01-15"),
            ("03-05", "03-05"),
            ("12-31", "11-05"),
        ],
    )
    def test_manual_run_restricted_snaps_to_event(self, run_after: str, event: str) -> None:
        """With `restrict_to_events` a manual run is for the newest event, or for the first."""
        timetable = EventsTimetable(ELECTIONS, restrict_to_events=True)
        interval = timetable.infer_manual_data_interval(run_after=at(run_after))
        assert interval == DataInterval.exact(at(event))

    def test_manual_run_unrestricted_is_exact(self) -> None:
        """Without the restriction a manual run is for its own instant."""
        interval = EventsTimetable(ELECTIONS).infer_manual_data_interval(run_after=at("02-01"))
        assert interval == DataInterval.exact(at("02-01"))

    def test_naive_event_is_in_utc(self) -> None:
        """An event without a zone is in UTC."""
        timetable = EventsTimetable([datetime(2024, 3, 5)])
        assert ask(timetable) == DagRunInfo.exact(at("03-05"))

    def test_events_are_a_periodic_schedule(self) -> None:
        """A list of events can be backfilled."""
        assert EventsTimetable(ELECTIONS).periodic


class TestPartitions:
    @pytest.mark.parametrize(
        ("offset", "date", "key"),
        [
            (None, "03-30T23", "2024-03-31T00:00:00"),
            (0, "03-30T23", "2024-03-31T00:00:00"),
            (-1, "03-29T23", "2024-03-30T00:00:00"),
            (-2, "03-28T23", "2024-03-29T00:00:00"),
            (1, "03-31T22", "2024-04-01T00:00:00"),
        ],
    )
    def test_partition_moved_by_ticks_has_key(
        self, offset: int | None, date: str, key: str
    ) -> None:
        """The partition is so many ticks away, its key is written in the schedule's zone."""
        timetable = CronPartitionTimetable("@daily", timezone="Europe/Zurich", run_offset=offset)
        assert ask(timetable, earliest="03-30T12") == DagRunInfo(
            at("03-30T23"), None, at(date), key
        )

    def test_partition_run_has_no_date(self) -> None:
        """A partitioned run has neither data interval nor logical date."""
        info = ask(CronPartitionTimetable("@daily", timezone="UTC"), earliest="03-30T12")
        assert info is not None
        assert info.logical_date is None

    def test_partition_run_follows_last_run(self) -> None:
        """The next run is the tick after the last run, which has no interval to go by."""
        timetable = CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y%m%d")
        info = timetable.next_dagrun_info_v2(
            last_dagrun_info=DagRunInfo(at("03-30"), None, at("03-30"), "20240330"),
            restriction=TimeRestriction(None, None, True),
        )
        assert info == DagRunInfo(at("03-31"), None, at("03-31"), "20240331")

    @pytest.mark.parametrize("offset", [1.0, "1", True])
    def test_partition_offset_of_ticks_is_whole(self, offset: Any) -> None:
        """An offset counts ticks and is a whole number."""
        with pytest.raises(InvalidTimetableError, match="run_offset"):
            CronPartitionTimetable("@daily", timezone="UTC", run_offset=offset)

    def test_partition_key_names_its_date(self) -> None:
        """A key is read back as the partition date it was written from."""
        timetable = CronPartitionTimetable(
            "@daily", timezone="Europe/Zurich", key_format="%d.%m.%Y"
        )
        assert timetable.resolve_partition_date("31.03.2024") == at("03-30T23")

    def test_partition_key_misspelt_is_refused(self) -> None:
        """A key that does not fit the format is an error that quotes both."""
        timetable = CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y%m%d")
        with pytest.raises(DefinitionError, match=r"'yesterday'.*'%Y%m%d'"):
            timetable.resolve_partition_date("yesterday")

    def test_partition_key_of_fold_is_itself(self) -> None:
        """A key made where the clocks go back names the partition it was made for."""
        timetable = CronPartitionTimetable("30 2 * * *", timezone="Europe/Zurich")
        info = ask(timetable, earliest="10-26T12")
        assert info is not None
        assert info.partition_key is not None
        assert timetable.resolve_partition_date(info.partition_key) == info.partition_date

    def test_partition_run_id_changed_by_design(self) -> None:
        """A partitioned run is named by its instant and its key, with nothing random."""
        timetable = CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y%m%d")
        run_id = timetable.generate_run_id(
            run_type="scheduled",
            run_after=at("03-31"),
            data_interval=None,
            partition_key="20240331",
        )
        assert run_id == "scheduled__2024-03-31T00:00:00+00:00~20240331"


LAKE = Asset("lake")


class TestAssetOrTime:
    def schedule(self, timetable: Timetable) -> AssetOrTimeSchedule:
        """Return the schedule on one asset or the times of `timetable`."""
        return AssetOrTimeSchedule(timetable=timetable, assets=[LAKE])

    @pytest.mark.parametrize("catchup", [True, False])
    @pytest.mark.parametrize(
        "inner",
        [
            CronDataIntervalTimetable("@daily", "UTC"),
            CronTriggerTimetable("@daily", timezone="UTC"),
            CronPartitionTimetable("@daily", timezone="UTC"),
            OnceTimetable(),
            NullTimetable(),
        ],
        ids=repr,
    )
    def test_next_run_is_inner_schedules(self, inner: Timetable, catchup: bool) -> None:
        """The time part answers like the timetable it was made of."""
        composed, alone = (
            ask(timetable, earliest="04-01T06", catchup=catchup)
            for timetable in (self.schedule(inner), inner)
        )
        assert composed == alone

    @pytest.mark.parametrize("member", ["periodic", "can_be_scheduled", "active_runs_limit"])
    @pytest.mark.parametrize(
        "inner",
        [CronDataIntervalTimetable("@daily", "UTC"), ContinuousTimetable(), NullTimetable()],
    )
    def test_member_is_inner_schedules(self, inner: Timetable, member: str) -> None:
        """What a schedule allows is decided by its time part."""
        assert getattr(self.schedule(inner), member) == getattr(inner, member)

    def test_manual_interval_is_inner_schedules(self) -> None:
        """A manual run gets the interval of the time part."""
        schedule = self.schedule(CronDataIntervalTimetable("@daily", "UTC"))
        interval = schedule.infer_manual_data_interval(run_after=at("04-10T12"))
        assert interval == DataInterval(at("04-09"), at("04-10"))

    def test_condition_is_all_of_assets(self) -> None:
        """A list of assets means all of them."""
        schedule = self.schedule(OnceTimetable())
        assert list(schedule.asset_condition.leaves()) == [LAKE]
        assert schedule.asset_condition.holds({LAKE}.__contains__)
        assert not schedule.asset_condition.holds(set[object]().__contains__)

    def test_summary_names_both_parts(self) -> None:
        """The summary says that assets or time create runs."""
        schedule = self.schedule(CronDataIntervalTimetable("@daily", "UTC"))
        assert schedule.summary == "Asset or 0 0 * * *"
        assert schedule.run_ordering == ("logical_date",)

    @pytest.mark.parametrize(
        "inner",
        [
            AssetTriggeredTimetable(LAKE),
            AssetOrTimeSchedule(timetable=OnceTimetable(), assets=LAKE),
        ],
        ids=["assets", "assets_or_time"],
    )
    def test_inner_asset_schedule_is_refused(self, inner: Timetable) -> None:
        """The time part cannot be an asset schedule itself."""
        with pytest.raises(InvalidTimetableError, match="time schedule"):
            self.schedule(inner).validate()

    def test_inner_bad_cron_is_refused(self) -> None:
        """The time part is validated, too."""
        with pytest.raises(InvalidTimetableError, match="99"):
            self.schedule(CronDataIntervalTimetable("99 * * * *", "UTC")).validate()

    def test_run_ids_differ_by_part(self) -> None:
        """Timed runs are named by the time part, asset runs by their content."""
        schedule = self.schedule(CronDataIntervalTimetable("@daily", "UTC"))
        timed, triggered = (
            schedule.generate_run_id(run_type=kind, run_after=at("04-10"), data_interval=interval)
            for kind, interval in [
                ("scheduled", DataInterval(at("04-09"), at("04-10"))),
                ("asset_triggered", None),
            ]
        )
        assert timed == "scheduled__2024-04-09T00:00:00+00:00"
        assert triggered.startswith("asset_triggered__2024-04-10T00:00:00+00:00_")


def test_asset_schedule_never_runs_by_time() -> None:
    """A schedule on assets has no next run by time, and manual runs are exact."""
    timetable = AssetTriggeredTimetable([LAKE])
    assert ask(timetable, earliest="01-01") is None
    assert timetable.infer_manual_data_interval(run_after=at("04-10")) == DataInterval.exact(
        at("04-10")
    )
