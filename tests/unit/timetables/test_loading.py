"""Finding classes by name, the gate before author code, and the plugin class for moved files."""

import contextvars
import sys
import threading
import warnings

import pytest

from lamplighter.errors import DefinitionError, SerializationError
from lamplighter.loading import author_code_allowed, load_class
from lamplighter.plugins_manager import AirflowPlugin
from lamplighter.timetables.base import Timetable
from lamplighter.timetables.interval import CronDataIntervalTimetable

OWN = "lamplighter.timetables.interval.CronDataIntervalTimetable"
STRANGE = f"{__name__}.StrangeTimetable"


class StrangeTimetable(Timetable):
    """A timetable that is not the library's."""


def test_class_of_library_is_always_found() -> None:
    """The library's own classes are found with the gate shut."""
    assert load_class(OWN, Timetable) is CronDataIntervalTimetable


def test_class_of_author_needs_open_gate() -> None:
    """An author's class is refused with the gate shut, and the error names it."""
    with pytest.raises(SerializationError, match="StrangeTimetable"):
        load_class(STRANGE, Timetable)


def test_class_of_author_passes_open_gate() -> None:
    """An author's class is found with the gate open."""
    with author_code_allowed():
        assert load_class(STRANGE, Timetable) is StrangeTimetable


def test_gate_after_block_is_shut() -> None:
    """The gate is shut when the block ends, by an error too."""
    with pytest.raises(RuntimeError), author_code_allowed():
        raise RuntimeError
    with pytest.raises(SerializationError):
        load_class(STRANGE, Timetable)


def test_gate_after_inner_block_stays_open() -> None:
    """An inner block does not shut the gate of the outer one."""
    with author_code_allowed():
        with author_code_allowed():
            pass
        assert load_class(STRANGE, Timetable) is StrangeTimetable


def test_gate_of_other_thread_stays_shut() -> None:
    """A gate that one thread has opened is shut for another."""
    refused: list[bool] = []

    def attempt() -> None:
        try:
            load_class(STRANGE, Timetable)
        except SerializationError:
            refused.append(True)

    with author_code_allowed():
        thread = threading.Thread(target=contextvars.Context().run, args=(attempt,))
        thread.start()
        thread.join()
    assert refused == [True]


def test_module_behind_shut_gate_is_untouched() -> None:
    """With the gate shut, a module is not even imported: importing is running."""
    with pytest.raises(SerializationError, match="antigravity"):
        load_class("antigravity.Timetable", Timetable)
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        ".",
        ".relative.Class",
        "no.such.Class",
        f"{__name__}.Missing",
        f"{__name__}.OWN",
        "os.path.join",
        "builtins.dict",
        "lamplighter.clock.SystemClock",
        "lamplighter..timetables.base.Timetable",
    ],
)
def test_path_to_no_timetable_is_refused(path: str) -> None:
    """A path that leads to no subclass is one clear error, gate open or not."""
    with author_code_allowed(), pytest.raises(SerializationError):
        load_class(path, Timetable)


@pytest.mark.parametrize("path", ["lamplighter_evil.X", "Lamplighter.X", " lamplighter.X", "os.X"])
def test_path_like_the_library_is_refused(path: str) -> None:
    """Only names below the library itself pass a shut gate."""
    with pytest.raises(SerializationError, match="author's class"):
        load_class(path, Timetable)


def test_plugin_class_when_subclassed_warns() -> None:
    """Subclassing the plugin class warns, names the subclass and says what to do instead."""
    with pytest.warns(UserWarning, match=r"'MoonPlugin' has no effect.*importable") as caught:

        class MoonPlugin(AirflowPlugin):
            name = "moon"
            timetables = (StrangeTimetable,)

    assert [warning.filename for warning in caught] == [__file__]
    assert MoonPlugin.timetables == (StrangeTimetable,)


def test_plugin_class_when_imported_is_silent() -> None:
    """The import alone, and an instance of the empty class, do not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AirflowPlugin()


def test_serialization_error_is_a_definition_error() -> None:
    """Everything an author can mend is one family, and a ValueError."""
    assert issubclass(SerializationError, DefinitionError)
    assert issubclass(DefinitionError, ValueError)
