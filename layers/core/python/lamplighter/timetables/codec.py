"""The written form of any timetable: its type and its arguments.

Owns: the closed list of built-in types. An author's own type is named by its import path, and read
back only where author code may run; elsewhere as a stand-in, if the reader asks for that.
"""

from typing import Any

from lamplighter.errors import SerializationError
from lamplighter.loading import is_kept_as_data, load_class
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
