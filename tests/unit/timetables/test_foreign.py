"""Author classes as data: stand-ins that remember everything and answer nothing."""

from typing import TYPE_CHECKING, Any

import pendulum
import pytest

from lamplighter import Asset, AssetWatcher, SparkTask
from lamplighter.assets.asset import decode_condition, encode_condition
from lamplighter.dags.dag import DAG
from lamplighter.errors import DefinitionError, SerializationError
from lamplighter.loading import author_code_allowed, author_code_as_data
from lamplighter.serialization import decode_dag, encode_dag
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import (
    ForeignTimetable,
    Timetable,
    decode_timetable,
    encode_timetable,
    is_foreign,
)
from lamplighter.timetables.simple import AssetTriggeredTimetable, OnceTimetable
from lamplighter.triggers.feeds import ForeignTrigger

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENT = {"type": "timetables.moon.FullMoon", "data": {"phase": 3}}
MONDAY = pendulum.datetime(2026, 1, 5)


class WithoutPeriods(OnceTimetable):
    """An author's timetable that needs no start date."""


class OnAssets(AssetTriggeredTimetable):
    """An author's own kind of asset schedule."""


def read(document: dict[str, Any]) -> Timetable:
    """Read a timetable without its author's code."""
    with author_code_as_data():
        return decode_timetable(document)


def test_authors_timetable_read_as_data_is_foreign() -> None:
    """An author's class is not imported; its stand-in is written as it was read."""
    timetable = read(DOCUMENT)
    assert timetable == ForeignTimetable("timetables.moon.FullMoon", {"phase": 3})
    assert encode_timetable(timetable) == DOCUMENT
    assert timetable.summary == "FullMoon"


def test_foreign_timetables_are_equal_by_content() -> None:
    """Type and arguments tell stand-ins apart, in whatever order arguments were written."""
    one = ForeignTimetable("a.B", {"x": 1, "y": 2})
    other = ForeignTimetable("a.B", {"y": 2, "x": 1})
    assert (one, hash(one)) == (other, hash(other))
    assert one != ForeignTimetable("a.C", {"x": 1, "y": 2})
    assert one != ForeignTimetable("a.B", {"x": 1})
    assert one != OnceTimetable()


def test_foreign_timetable_when_asked_refuses() -> None:
    """Every question about time is sent to the sandbox."""
    dag = DAG("moon", schedule=read(DOCUMENT), start_date=MONDAY)
    words = r"timetables\.moon\.FullMoon is an author's timetable: ask the sandbox"
    with pytest.raises(DefinitionError, match=words):
        dag.next_dagrun_info()
    with pytest.raises(DefinitionError, match=words):
        dag.timetable.infer_manual_data_interval(run_after=MONDAY)


def test_foreign_timetable_beside_assets_is_seen() -> None:
    """A schedule on assets or an author's times is foreign, and its assets are known."""
    orders = Asset("orders")
    real = AssetOrTimeSchedule(timetable=ForeignTimetable("a.B", {}), assets=orders)
    copy = read(encode_timetable(real))
    assert copy == real
    assert is_foreign(copy)
    assert copy.asset_condition == orders
    with pytest.raises(DefinitionError, match="ask the sandbox"):
        DAG("d", schedule=copy, start_date=MONDAY).next_dagrun_info()


def test_built_in_timetable_is_never_foreign() -> None:
    """The library's own classes are themselves, whatever is done with an author's."""
    timetable = read({"type": "OnceTimetable", "data": {}})
    assert timetable == OnceTimetable()
    assert not is_foreign(timetable)
    assert not is_foreign(AssetOrTimeSchedule(timetable=timetable, assets=Asset("a")))


def test_foreign_dag_without_start_is_accepted() -> None:
    """What the real class was accepted with, its stand-in is accepted with too."""
    document = encode_dag(DAG("d", schedule=WithoutPeriods()))
    with author_code_as_data():
        assert is_foreign(decode_dag(document).timetable)


def test_foreign_asset_schedule_keeps_its_assets() -> None:
    """An author's subclass of an asset schedule still says which assets it waits for."""
    orders, fx = Asset("orders"), Asset("fx")
    timetable = read(encode_timetable(OnAssets(orders & fx)))
    assert is_foreign(timetable)
    assert timetable.asset_condition == orders & fx


@pytest.mark.parametrize(
    "document",
    [
        {"type": "HourlyTimetable", "data": {}},
        {"type": "lamplighter.timetables.none.Hourly", "data": {}},
        {"type": "lamplighter.clock.SystemClock", "data": {}},
        {"type": "dags.a.B", "data": [1]},
        {"type": "dags.a.B", "data": {"x": float("nan")}},
    ],
    ids=lambda document: f"{document['type']}-{document['data']}",
)
def test_document_of_no_authors_class_is_refused(document: dict[str, Any]) -> None:
    """Only what an author could have written passes for an author's class."""
    with pytest.raises(SerializationError):
        read(document)


def test_innermost_treatment_of_author_code_counts() -> None:
    """A block inside a block decides, and the outer one counts again after it."""
    document = {"type": f"{__name__}.WithoutPeriods", "data": {}}
    with author_code_as_data():
        with author_code_allowed():
            assert decode_timetable(document) == WithoutPeriods()
        assert is_foreign(decode_timetable(document))
    with pytest.raises(SerializationError, match="author's class"):
        decode_timetable(document)


def test_authors_trigger_read_as_data_is_foreign() -> None:
    """A watcher's trigger is remembered to the letter and watches nothing."""
    trigger = ForeignTrigger("timetables.inbox.Inbox", {"folder": "in"})
    document = encode_condition(Asset("a", watchers=[AssetWatcher("w", trigger)]))
    with author_code_as_data():
        copy = decode_condition(document)
    assert encode_condition(copy) == document
    assert isinstance(copy, Asset)
    assert copy.watchers[0].trigger == trigger
    methods: list[Callable[[], object]] = [
        trigger.run,
        trigger.shared_stream_key,
        lambda: trigger.filter_shared_stream(None),
    ]
    for refuse in methods:
        with pytest.raises(DefinitionError, match=r"timetables\.inbox\.Inbox is an author's"):
            refuse()
    with pytest.raises(SerializationError, match="author's class"):
        decode_condition(document)


def test_watcher_of_an_outlet_is_read_as_data() -> None:
    """Triggers are found wherever an asset stands in a document."""
    outlet = Asset("a", watchers=[AssetWatcher("w", ForeignTrigger("a.B", {}))])
    dag = DAG("d")
    SparkTask("t", dag=dag, entry_point="jobs/a.py", outlets=[outlet])
    document = encode_dag(dag)
    with author_code_as_data():
        assert encode_dag(decode_dag(document)) == document
