"""A schedule on assets or time: whichever comes, each with its own runs."""

from collections.abc import Collection
from typing import Any

from pendulum import DateTime

from lamplighter.assets.asset import decode_condition
from lamplighter.assets.condition import AssetCondition
from lamplighter.errors import InvalidTimetableError
from lamplighter.timetables.base import (
    DagRunInfo,
    DataInterval,
    TimeRestriction,
    Timetable,
    decode_timetable,
    encode_timetable,
)
from lamplighter.timetables.simple import AssetTriggeredTimetable


class AssetOrTimeSchedule(AssetTriggeredTimetable):
    """Runs at the times of `timetable` and also whenever the condition on `assets` holds."""

    def __init__(
        self,
        *,
        timetable: Timetable,  # Any timetable but those on assets.
        assets: AssetCondition | Collection[AssetCondition],  # A condition, or a list: all of them.
    ) -> None:
        super().__init__(assets)
        if not isinstance(timetable, Timetable):
            raise InvalidTimetableError(
                f"AssetOrTimeSchedule: timetable={timetable!r} must be a timetable, such as"
                " CronTriggerTimetable('0 6 * * *', timezone='UTC')"
            )
        self.timetable = timetable
        self.description = f"Triggered by assets or {timetable.description}"
        self.periodic = timetable.periodic
        self.partitioned = timetable.partitioned
        self.can_be_scheduled = timetable.can_be_scheduled
        self.active_runs_limit = timetable.active_runs_limit

    @property
    def summary(self) -> str:
        return f"Asset or {self.timetable.summary}"

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "AssetOrTimeSchedule":
        return cls(
            timetable=decode_timetable(data["timetable"]),
            assets=decode_condition(data["asset_condition"]),
        )

    def serialize(self) -> dict[str, Any]:
        return {**super().serialize(), "timetable": encode_timetable(self.timetable)}

    def validate(self) -> None:
        if isinstance(self.timetable, AssetTriggeredTimetable):
            raise InvalidTimetableError(
                "AssetOrTimeSchedule: the timetable must be a time schedule, not an asset schedule"
            )
        self.timetable.validate()

    def check_limits(self) -> None:
        self.timetable.check_limits()

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return self.timetable.infer_manual_data_interval(run_after=run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        return self.timetable.next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )

    def next_dagrun_info_v2(
        self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        return self.timetable.next_dagrun_info_v2(
            last_dagrun_info=last_dagrun_info, restriction=restriction
        )

    def generate_run_id(self, *, run_type: str, **facts: Any) -> str:
        """Return the id of a run: the inner timetable names its own, assets name theirs."""
        is_from_assets = str(run_type) == "asset_triggered"
        name = super().generate_run_id if is_from_assets else self.timetable.generate_run_id
        return name(run_type=run_type, **facts)
