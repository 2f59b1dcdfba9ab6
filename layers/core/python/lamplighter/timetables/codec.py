"""The written form of any timetable: its type and its arguments.

Owns: the closed list of built-in types. An author's own type is named by its import path, and read
back only where author code may run; elsewhere as a stand-in, if the reader asks for that.
"""

from typing import Any, Never

from lamplighter.assets.asset import decode_condition
from lamplighter.errors import DefinitionError, SerializationError
from lamplighter.loading import is_kept_as_data, json_mapping, load_class
from lamplighter.timetables.base import Timetable

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


def is_foreign(timetable: Timetable) -> bool:
    """Return True for a stand-in, also for one inside an `AssetOrTimeSchedule`."""
    # By attribute, because that class is read with the help of this module and not the reverse.
    return isinstance(getattr(timetable, "timetable", timetable), ForeignTimetable)
