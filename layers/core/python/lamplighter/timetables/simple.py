"""Schedules without a period: never, once, continuously, and on asset events alone."""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.assets.asset import decode_condition, encode_condition
from lamplighter.assets.condition import AssetAll, AssetCondition
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable


class _SimpleTimetable(Timetable):
    """A schedule that a backfill cannot walk; a manual run covers its own instant."""

    periodic = False
    run_ordering = ("logical_date",)

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval.exact(run_after)


class NullTimetable(_SimpleTimetable):
    """`schedule=None`: only people and programs start runs."""

    can_be_scheduled = False
    description = "Never, external triggers only"

    @property
    def summary(self) -> str:
        return "None"

    def next_dagrun_info(
        self,
        *,
        last_automated_data_interval: DataInterval | None,  # noqa: ARG002 - never, whatever was
        restriction: TimeRestriction,  # noqa: ARG002 - nor what is allowed
    ) -> DagRunInfo | None:
        return None


class OnceTimetable(_SimpleTimetable):
    """`schedule="@once"`: one run at the start date, or now without one."""

    description = "Once, as soon as possible"

    @property
    def summary(self) -> str:
        return "@once"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if last_automated_data_interval is not None:
            return None
        at = restriction.earliest or clock.now()
        if restriction.latest is not None and at > restriction.latest:
            return None
        return DagRunInfo.exact(at)


class ContinuousTimetable(_SimpleTimetable):
    """`schedule="@continuous"`: a run as soon as the one before has ended, one at a time."""

    active_runs_limit = 1
    description = "As frequently as possible, but only one run at a time."

    @property
    def summary(self) -> str:
        return "@continuous"

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        now = clock.now()
        start = restriction.earliest or now
        last = last_automated_data_interval
        if last is None:
            end = max(start, now)
        elif last.end > now:  # the last run was made for the future: keep its length
            end = start + (last.end - last.start).as_timedelta()
        else:
            start, end = last.end, now
        if restriction.latest is not None and end > restriction.latest:
            return None
        return DagRunInfo.interval(start, end)


class AssetTriggeredTimetable(NullTimetable):
    """A schedule on assets: a run when the condition on their events holds, never by time."""

    can_be_scheduled = True
    description = "Triggered by assets"

    def __init__(
        self,
        assets: AssetCondition | Collection[AssetCondition],  # A condition, or a list: all of them.
    ) -> None:
        if not isinstance(assets, AssetCondition):
            # A set has no order of its own, and the definition must not change from parse to parse.
            has_order = not isinstance(assets, AbstractSet)
            assets = AssetAll(*(assets if has_order else sorted(assets, key=repr)))
        self.asset_condition = assets

    @property
    def summary(self) -> str:
        return "Asset"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "AssetTriggeredTimetable":
        return cls(decode_condition(data["asset_condition"]))

    def serialize(self) -> dict[str, Any]:
        return {"asset_condition": encode_condition(self.asset_condition)}
