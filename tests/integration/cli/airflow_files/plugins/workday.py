"""A timetable for workdays, as a plugin."""

from datetime import timedelta

from airflow.plugins_manager import AirflowPlugin
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from pendulum import UTC, DateTime, Time


class AfterWorkday(Timetable):
    """Each run covers one workday."""

    description = "after each workday"

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        start = DateTime.combine((run_after - timedelta(days=1)).date(), Time.min, tzinfo=UTC)
        return DataInterval(start=start, end=start + timedelta(days=1))

    def next_dagrun_info(self, *, last_automated_data_interval, restriction: TimeRestriction):
        if last_automated_data_interval is not None:
            start = last_automated_data_interval.start + timedelta(days=1)
        elif restriction.earliest is None:
            return None
        else:
            start = DateTime.combine(restriction.earliest.date(), Time.min, tzinfo=UTC)
            if start < restriction.earliest:
                start += timedelta(days=1)
        while start.weekday() > 4:
            start += timedelta(days=1)
        if restriction.latest is not None and start > restriction.latest:
            return None
        return DagRunInfo.interval(start=start, end=start + timedelta(days=1))


class WorkdayPlugin(AirflowPlugin):
    name = "workday"
    timetables = [AfterWorkday]
