"""The example timetables at work."""

import datetime

import pendulum

from lamplighter import DAG, SparkTask
from timetables.uneven_intervals import UnevenIntervalsTimetable
from timetables.workday import AfterWorkdayTimetable, SometimeAfterWorkdayTimetable

HOLIDAYS = [datetime.date(2026, 4, 3), datetime.date(2026, 4, 6)]  # Good Friday, Easter Monday

with DAG(
    "uneven_intervals",
    schedule=UnevenIntervalsTimetable("Europe/Zurich"),
    start_date=pendulum.datetime(2026, 1, 1, tz="Europe/Zurich"),
):
    SparkTask("report", job="jobs.report:build")

with DAG(
    "after_workday",
    schedule=AfterWorkdayTimetable(HOLIDAYS),
    start_date=pendulum.datetime(2026, 1, 1),
):
    SparkTask("report", job="jobs.report:build")

with DAG(
    "morning_after_workday",
    schedule=SometimeAfterWorkdayTimetable(datetime.time(8), HOLIDAYS),
    start_date=pendulum.datetime(2026, 1, 1),
):
    SparkTask("report", job="jobs.report:build")
