"""Law: a document is read without its author's code and written again to the letter."""

import json
from typing import Any

import pendulum
from hypothesis import given, settings
from hypothesis import strategies as st

from lamplighter import DAG, Asset, AssetAlias, AssetWatcher, SparkTask
from lamplighter.assets import AssetCondition
from lamplighter.dags.arguments import Schedule
from lamplighter.loading import author_code_as_data
from lamplighter.serialization import content_hash, decode_dag, encode_dag, to_json
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import Timetable, is_foreign
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.simple import OnceTimetable
from lamplighter.triggers.base import BaseEventTrigger

paths = st.from_regex(r"(dags|timetables)\.[a-z-]{1,8}(\.[A-Z][a-z]{0,5}){1,2}", fullmatch=True)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=5,
)
arguments = st.dictionaries(st.text(max_size=9), json_values, max_size=3).filter(
    lambda data: "asset_condition" not in data
)


class AuthorsTimetable(Timetable):
    """A timetable that is nowhere to be imported from."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        self.path = path
        self.data = data

    @property
    def type_name(self) -> str:
        return self.path

    def serialize(self) -> dict[str, Any]:
        return self.data


class AuthorsTrigger(BaseEventTrigger):
    """A trigger that is nowhere to be imported from."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        super().__init__()
        self.path = path
        self.data = data

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self.path, self.data


triggers = st.builds(AuthorsTrigger, paths, arguments)
watchers = st.lists(st.builds(AssetWatcher, st.just("inbox"), triggers), max_size=2)
assets: st.SearchStrategy[Asset | AssetAlias] = st.builds(
    Asset, st.sampled_from(["orders", "fx"]), st.just("s3://lake/x"), watchers=watchers
) | st.just(AssetAlias("any"))
conditions: st.SearchStrategy[AssetCondition] = assets | st.builds(
    lambda one, other: one & other | one, assets, assets
)
timed = (
    st.builds(AuthorsTimetable, paths, arguments)
    | st.just(CronDataIntervalTimetable("@daily", "Europe/Zurich"))
    | st.just(OnceTimetable())
)
schedules: st.SearchStrategy[Schedule] = (
    timed
    | conditions
    | st.builds(AssetOrTimeSchedule, timetable=timed, assets=conditions)
    | st.sampled_from([None, "@continuous", "0 6 * * *"])
)


def has_authors_timetable(schedule: Schedule) -> bool:
    """Return whether a schedule is, or holds, an author's timetable."""
    return isinstance(getattr(schedule, "timetable", schedule), AuthorsTimetable)


@settings(deadline=None)
@given(schedules, st.lists(assets, max_size=2), st.booleans())
def test_any_document_without_its_code_is_exact(
    schedule: Schedule, outlets: list[Asset | AssetAlias], catchup: bool
) -> None:
    """Reading author classes as data and writing them again gives the same text and hash."""
    start = pendulum.datetime(2026, 1, 1, tz="Europe/Zurich")
    dag = DAG("d", schedule=schedule, start_date=start, catchup=catchup, max_active_runs=1)
    SparkTask("t", dag=dag, entry_point="jobs/a.py", outlets=outlets)
    document = json.loads(to_json(encode_dag(dag)))
    with author_code_as_data():
        copy = decode_dag(document)
        assert copy == decode_dag(document)
    assert to_json(encode_dag(copy)) == to_json(document)
    assert content_hash(encode_dag(copy)) == content_hash(document)
    assert is_foreign(copy.timetable) == has_authors_timetable(schedule)
    assert list(copy.timetable.asset_condition.leaves()) == list(
        dag.timetable.asset_condition.leaves()
    )
