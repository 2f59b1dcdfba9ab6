"""The timetable contract: what a schedule answers, with which values, and how it is written.

Names, fields and keyword arguments are Airflow's, so that a custom timetable moves here by changing
the import root. Owns: the closed list of built-in types.
"""

import datetime
from typing import Any, NamedTuple, Never, Self

from pendulum import DateTime

from lamplighter.assets.asset import decode_condition
from lamplighter.assets.condition import NO_ASSETS, AssetCondition
from lamplighter.errors import (
    DefinitionError,
    InvalidTimetableError,
    NoTickError,
    SerializationError,
)
from lamplighter.identifiers import MAX_ID_LENGTH, run_id
from lamplighter.loading import is_kept_as_data, json_mapping, load_class
from lamplighter.zones import as_utc


class DataInterval(NamedTuple):
    """The period of data that a run works on; both ends are aware instants."""

    start: DateTime  # Included.
    end: DateTime  # Excluded.

    @classmethod
    def exact(cls, at: DateTime) -> Self:
        """Return the interval of length zero at one instant."""
        return cls(start=at, end=at)


class TimeRestriction(NamedTuple):
    """The bounds of a DAG, both inclusive, and whether missed runs are made up for."""

    earliest: DateTime | None  # The earliest start date of the DAG and its tasks.
    latest: DateTime | None  # The end date.
    catchup: bool  # Whether missed runs are created.


class DagRunInfo(NamedTuple):
    """One run as a timetable announces it: when it may be created, and for which data."""

    run_after: DateTime  # It may be created from this instant on.
    data_interval: DataInterval | None  # Its start is the logical date of the run.
    partition_date: DateTime | None = None  # What the key of a partition is made of.
    partition_key: str | None = None  # Which partition it builds.

    @classmethod
    def exact(cls, at: DateTime) -> Self:
        """Return a run at one instant, with an interval of length zero."""
        return cls(run_after=at, data_interval=DataInterval.exact(at))

    @classmethod
    def interval(cls, start: DateTime, end: DateTime) -> Self:
        """Return a run that may start as soon as its data is complete."""
        return cls(run_after=end, data_interval=DataInterval(start, end))

    @property
    def logical_date(self) -> DateTime | None:
        """The start of the data interval; a run without an interval has none."""
        return None if self.data_interval is None else self.data_interval.start


def place(info: DagRunInfo) -> DateTime:
    """Return where a run stands in time: its logical date, or of a partition its instant."""
    return info.logical_date or info.run_after


class Timetable:
    """A rule that says when runs happen. Subclass it to write your own."""

    description: str = ""
    """What people read about the schedule."""

    periodic: bool = True
    """False means that no backfill makes sense."""

    can_be_scheduled: bool = True
    """False means that time alone never creates a run."""

    run_ordering: tuple[str, ...] = ("data_interval_end", "logical_date")
    """The fields by which runs of this schedule are listed."""

    active_runs_limit: int | None = None
    """The largest `max_active_runs` that a DAG with this schedule may have."""

    asset_condition: AssetCondition = NO_ASSETS
    """The assets that create runs; false when there are none."""

    partitioned: bool = False
    """True when runs are told apart by a partition key instead of a logical date."""

    def __init_subclass__(cls) -> None:
        """Refuse method and argument names that Airflow no longer has either."""
        super().__init_subclass__()
        if "infer_data_interval" in vars(cls):
            raise DefinitionError(
                f"timetable {cls.__name__}: rename 'infer_data_interval' to"
                " 'infer_manual_data_interval'"
            )
        code = getattr(vars(cls).get("next_dagrun_info"), "__code__", None)
        count = code.co_argcount + code.co_kwonlyargcount if code else 0
        if code and "last_automated_dagrun" in code.co_varnames[:count]:
            raise DefinitionError(
                f"timetable {cls.__name__}: rename the argument 'last_automated_dagrun' of"
                " 'next_dagrun_info' to 'last_automated_data_interval'"
            )

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, Timetable):
            return NotImplemented
        mine, theirs = (self.type_name, self.serialize()), (other.type_name, other.serialize())
        return mine == theirs

    def __hash__(self) -> int:
        return hash((type(self), repr(self.serialize())))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.summary!r}>"

    @property
    def summary(self) -> str:
        """A few words for lists of DAGs."""
        return type(self).__name__

    @property
    def type_name(self) -> str:
        """The name this timetable is stored under."""
        cls = type(self)
        if cls.__module__.startswith("lamplighter.timetables."):
            return cls.__qualname__
        return f"{cls.__module__}.{cls.__qualname__}"

    def serialize(self) -> dict[str, Any]:
        """Return the constructor's arguments as JSON values."""
        return {}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "Timetable":  # noqa: ARG003 - for subclasses
        """Return the timetable that `serialize` described."""
        return cls()

    def validate(self) -> None:
        """Raise `InvalidTimetableError` if this schedule can never work."""

    def check_limits(self) -> None:
        """Raise `InvalidTimetableError` if no new DAG may have this schedule.

        DAGs that have had it since before there was the limit keep it.
        """

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        """Return the interval of a run that a person starts at `run_after`."""
        raise NotImplementedError(f"{type(self).__name__} must define infer_manual_data_interval")

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the run that follows the given interval, or None when there is none."""
        raise NotImplementedError(f"{type(self).__name__} must define next_dagrun_info")

    def next_dagrun_info_v2(
        self, *, last_dagrun_info: DagRunInfo | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """Return the run that follows the given run: what the scheduler really asks."""
        last = None if last_dagrun_info is None else last_dagrun_info.data_interval
        return self.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)

    def generate_run_id(
        self,
        *,
        run_type: str,
        run_after: DateTime,
        data_interval: DataInterval | None,
        **extra: Any,
    ) -> str:
        """Return the id of a run; the same arguments always give the same id."""
        partition_key = extra.pop("partition_key", None)
        return run_id(
            str(run_type),
            run_after=run_after,
            logical_date=None if data_interval is None else data_interval.start,
            partition_key=partition_key,
            content=extra,
        )


class TickTimetable(Timetable):
    """A timetable that goes from tick to tick, such as those of a cron expression."""

    def _get_next(self, current: DateTime) -> DateTime:
        raise NotImplementedError

    def _get_prev(self, current: DateTime) -> DateTime:
        raise NotImplementedError

    def _align_to_next(self, current: DateTime) -> DateTime:
        raise NotImplementedError

    def _align_to_prev(self, current: DateTime) -> DateTime:
        raise NotImplementedError


# An author's timetable may be wrong, so every run that one returns is checked.


def next_run(
    timetable: Timetable, last: DagRunInfo | None, restriction: TimeRestriction
) -> DagRunInfo | None:
    """Return the run after `last`; raise if the result is not a run that can follow it.

    Holes and overlaps between intervals are an author's choice; going backwards is not.
    """
    info = ask(timetable, last, restriction)
    if info is not None and last is not None:
        _require_forward(type(timetable).__name__, last, info)
    return info


def ask(
    timetable: Timetable, last: DagRunInfo | None, restriction: TimeRestriction
) -> DagRunInfo | None:
    """Return the next run of a timetable; raise if it is not a run. `last` may be another's run."""
    try:
        info = timetable.next_dagrun_info_v2(last_dagrun_info=last, restriction=restriction)
    except NoTickError:
        return None  # a cron expression may name its years, and they end
    if info is not None:
        _require_valid(f"{type(timetable).__name__} returned", info)
    return info


def manual_interval(timetable: Timetable, *, run_after: DateTime) -> DataInterval:
    """Return the interval of a run that a person starts; raise if the result is not an interval."""
    interval = timetable.infer_manual_data_interval(run_after=run_after)
    name = f"{type(timetable).__name__}.infer_manual_data_interval"
    _require_interval(f"{name} returned", interval)
    return interval


def _require_valid(returned: str, info: object) -> None:
    if not isinstance(info, DagRunInfo):
        raise InvalidTimetableError(f"{returned} {info!r}, not a DagRunInfo")
    _require_aware(returned, "run_after", info.run_after)
    interval, key = info.data_interval, info.partition_key
    if interval is not None:
        _require_interval(returned, interval)
    if key is not None and (not isinstance(key, str) or len(key) > MAX_ID_LENGTH):
        raise InvalidTimetableError(
            f"{returned} a partition key that is not a string of at most {MAX_ID_LENGTH}"
            f" characters: {str(key)[:40]!r}"
        )


def _require_interval(returned: str, interval: object) -> None:
    if not isinstance(interval, DataInterval):
        raise InvalidTimetableError(f"{returned} data_interval={interval!r}, not a DataInterval")
    _require_aware(returned, "data_interval.start", interval.start)
    _require_aware(returned, "data_interval.end", interval.end)
    # In UTC: times of one zone compare by the clock on the wall, which is set back once a year.
    if as_utc(interval.end) < as_utc(interval.start):
        raise InvalidTimetableError(f"{returned} an interval that ends before it starts")


def _require_aware(returned: str, field: str, value: object) -> None:
    if not isinstance(value, datetime.datetime):
        raise InvalidTimetableError(f"{returned} {field}={value!r}, not a DateTime")
    if value.tzinfo is None:
        raise InvalidTimetableError(
            f"{returned} {field}={value} without a time zone: add one, such as tz='UTC'"
        )


def _require_forward(timetable: str, last: DagRunInfo, info: DagRunInfo) -> None:
    before, after = as_utc(place(last)), as_utc(place(info))
    if after == before:
        raise InvalidTimetableError(f"{timetable} did not advance: it returned {before} again")
    if after < before or as_utc(info.run_after) < as_utc(last.run_after):
        raise InvalidTimetableError(
            f"{timetable} went backwards: from {before} to {after}, run after {info.run_after}"
        )


# The written form: its type and its arguments. An author's own type is named by its import path,
# and read back only where author code may run; elsewhere as a stand-in, if the reader asks for it.

_BUILT_IN = {
    "CronDataIntervalTimetable": "interval",
    "DeltaDataIntervalTimetable": "interval",
    "CronTriggerTimetable": "trigger",
    "DeltaTriggerTimetable": "trigger",
    "MultipleCronTriggerTimetable": "trigger",
    "CronPartitionTimetable": "trigger",
    "NullTimetable": "simple",
    "OnceTimetable": "simple",
    "ContinuousTimetable": "simple",
    "AssetTriggeredTimetable": "simple",
    "EventsTimetable": "events",
    "AssetOrTimeSchedule": "assets",
}


def encode_timetable(timetable: Timetable) -> dict[str, Any]:
    """Return the JSON value that `decode_timetable` reads back."""
    if "<locals>" in timetable.type_name:
        raise SerializationError(
            f"timetable {timetable.type_name}: define the class at the top of a module, so that it"
            " can be found again"
        )
    return {"type": timetable.type_name, "data": timetable.serialize()}


def decode_timetable(document: dict[str, Any]) -> Timetable:
    """Return the timetable that was written.

    An author's type needs `author_code_allowed`, or `author_code_as_data` for a `ForeignTimetable`.
    """
    name = document["type"]
    if is_kept_as_data(name):
        return ForeignTimetable(name, document["data"])
    if name in _BUILT_IN:
        name = f"lamplighter.timetables.{_BUILT_IN[name]}.{name}"
    return load_class(name, Timetable).deserialize(document["data"])


class ForeignTimetable(Timetable):
    """A timetable that is only remembered: the name of its class, and its arguments."""

    # The written form does not say whether the real one has periods. A DAG without a start date
    # was accepted with it, so the stand-in must not ask for one.
    periodic = False

    def __init__(self, type_name: str, data: dict[str, Any]) -> None:
        self._type_name = type_name
        try:
            self._data = json_mapping(data)
        except TypeError as error:
            raise SerializationError(f"timetable {type_name}: its arguments {error}") from error
        # An author's subclass of an asset schedule writes its assets down where that one does.
        if isinstance(self._data.get("asset_condition"), dict):
            self.asset_condition = decode_condition(self._data["asset_condition"])

    def __hash__(self) -> int:
        return hash(self._type_name)

    @property
    def summary(self) -> str:
        return self._type_name.rpartition(".")[2]

    @property
    def type_name(self) -> str:
        return self._type_name

    def serialize(self) -> dict[str, Any]:
        return self._data

    def infer_manual_data_interval(self, **_question: object) -> Never:
        raise DefinitionError(f"{self._type_name} is an author's timetable: ask the sandbox")

    next_dagrun_info = infer_manual_data_interval


def is_custom(timetable: Timetable) -> bool:
    """Return True for a timetable of an author's, also inside an `AssetOrTimeSchedule`."""
    is_built_in = timetable.type_name in _BUILT_IN
    return not is_built_in or getattr(timetable, "timetable", timetable).type_name not in _BUILT_IN


def is_foreign(timetable: Timetable) -> bool:
    """Return True for a stand-in, also for one inside an `AssetOrTimeSchedule`."""
    # By attribute, because that class is read with the help of this module and not the reverse.
    return isinstance(getattr(timetable, "timetable", timetable), ForeignTimetable)
