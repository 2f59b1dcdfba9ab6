"""What the pages show of timetables and triggers: a function for each, whose code they print."""

from datetime import timedelta

import pendulum

from lamplighter import Asset, AssetWatcher
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import Timetable
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
from lamplighter.triggers import EventBridgeTrigger, S3ObjectTrigger, S3PrefixTrigger, SqsTrigger


def cron_data_interval() -> Timetable:
    """Each day from 6:00 to 6:00 in Zurich."""
    return CronDataIntervalTimetable("0 6 * * *", "Europe/Zurich")


def delta_data_interval() -> Timetable:
    """Each six hours, from the start date on."""
    return DeltaDataIntervalTimetable(timedelta(hours=6))


def cron_trigger() -> Timetable:
    """On working days at 7:30 in New York, for the 24 hours before."""
    return CronTriggerTimetable(
        "30 7 * * 1-5", timezone="America/New_York", interval=timedelta(days=1)
    )


def delta_trigger() -> Timetable:
    """Every 90 minutes."""
    return DeltaTriggerTimetable(timedelta(minutes=90))


def multiple_cron_trigger() -> Timetable:
    """On working days at 6:00, and on Saturdays at 10:00."""
    return MultipleCronTriggerTimetable("0 6 * * 1-5", "0 10 * * 6", timezone="UTC")


def cron_partition() -> Timetable:
    """Each night at 2:00, for the partition of the day before."""
    return CronPartitionTimetable(
        "0 2 * * *", timezone="Europe/Zurich", run_offset=-1, key_format="%Y-%m-%d"
    )


def null() -> Timetable:
    """By people and programs only."""
    return NullTimetable()


def once() -> Timetable:
    """A single time."""
    return OnceTimetable()


def continuous() -> Timetable:
    """One after the other."""
    return ContinuousTimetable()


def asset_triggered() -> Timetable:
    """When both assets have new events."""
    return AssetTriggeredTimetable(Asset("orders") & Asset("fx"))


def events() -> Timetable:
    """At the dates that are listed."""
    return EventsTimetable(
        [pendulum.datetime(2026, 3, 31), pendulum.datetime(2026, 6, 30)],
        description="Ends of quarters",
    )


def asset_or_time() -> Timetable:
    """Each day at 6:00, and whenever there are new orders."""
    return AssetOrTimeSchedule(
        timetable=CronTriggerTimetable("0 6 * * *", timezone="UTC"), assets=[Asset("orders")]
    )


TIMETABLES = (
    cron_data_interval,
    delta_data_interval,
    cron_trigger,
    delta_trigger,
    multiple_cron_trigger,
    cron_partition,
    events,
    once,
    continuous,
    null,
    asset_triggered,
    asset_or_time,
)


def sqs() -> AssetWatcher:
    """Messages with a large amount."""
    return AssetWatcher(
        "large", SqsTrigger("shop-orders", match={"amount": [{"numeric": [">", 100]}]})
    )


def event_bridge() -> AssetWatcher:
    """Events of one kind from one sender."""
    return AssetWatcher(
        "paid", EventBridgeTrigger({"source": ["shop.orders"], "detail-type": ["Paid"]})
    )


def s3_object() -> AssetWatcher:
    """New CSV files, as soon as they are there."""
    return AssetWatcher("files", S3ObjectTrigger("landing", prefix="orders/", suffix=".csv"))


def s3_prefix() -> AssetWatcher:
    """New CSV files in a bucket that tells nobody."""
    return AssetWatcher("files", S3PrefixTrigger("landing", prefix="orders/", suffix=".csv"))


TRIGGERS = (sqs, event_bridge, s3_object, s3_prefix)
