"""Names of DAGs, tasks and runs."""

from datetime import UTC, datetime
from typing import Any

import pendulum
import pytest

from lamplighter import DAG, SparkTask
from lamplighter.errors import DefinitionError
from lamplighter.identifiers import require_id, run_id

GOOD_IDS = ["a", "A", "0", "_", ".", "~", "-", "orders.daily-v2_~", "a" * 200]
BAD_IDS = ["a b", " a", "a/b", "a:b", "a\n", "\n", "é", "日", "a+b", "a\0b", "٣", "a,b", "{a}"]


@pytest.mark.parametrize("name", GOOD_IDS, ids=lambda name: name[:20])
def test_id_of_allowed_characters_is_kept(name: str) -> None:
    """Letters, digits and four signs may name a DAG and a task."""
    with DAG(name) as dag:
        task = SparkTask(name, job="jobs.a:run")
    assert (dag.dag_id, task.task_id) == (name, name)


@pytest.mark.parametrize("name", BAD_IDS, ids=repr)
def test_dag_id_of_other_characters_is_refused(name: str) -> None:
    """Any other character is an error that quotes the id."""
    with pytest.raises(DefinitionError, match="DAG ") as error:
        DAG(name)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize("name", BAD_IDS, ids=repr)
def test_task_id_of_other_characters_is_refused(name: str) -> None:
    """In a task, the error names the DAG as well."""
    with pytest.raises(DefinitionError, match="DAG 'd': task ") as error:
        SparkTask(name, dag=DAG("d"), job="jobs.a:run")
    assert repr(name) in str(error.value)


def test_dag_id_of_many_characters_is_refused() -> None:
    """An id has at most 200 characters; the error is short and gives the number."""
    with pytest.raises(DefinitionError, match="201 characters, at most 200") as error:
        DAG("x" * 201)
    assert len(str(error.value)) < 150


def test_task_id_of_many_characters_is_refused() -> None:
    """The same holds for a task, and the error names the DAG."""
    with pytest.raises(DefinitionError, match=r"DAG 'd': task .*201 characters"):
        SparkTask("x" * 201, dag=DAG("d"), job="jobs.a:run")


@pytest.mark.parametrize("name", ["", None, 5, b"a", ["a"]], ids=repr)
def test_id_that_is_no_text_is_refused(name: Any) -> None:
    """An id is a text that is not empty."""
    with pytest.raises(DefinitionError, match="DAG: an id must be a non-empty string"):
        require_id(name, what="DAG")


MONDAY = pendulum.datetime(2024, 1, 1)


def test_run_id_with_microseconds_shows_them() -> None:
    """Microseconds are part of a run id when there are any."""
    late = MONDAY.add(microseconds=5)
    assert run_id("manual", run_after=late, logical_date=late) == (
        "manual__2024-01-01T00:00:00.000005+00:00"
    )


@pytest.mark.parametrize("logical_date", [True, False], ids=["dated", "undated"])
def test_run_id_of_instant_is_one(logical_date: bool) -> None:
    """One instant gives one run id, in whatever zone it is written."""
    moments = [MONDAY, MONDAY.in_timezone("Europe/Zurich"), datetime(2024, 1, 1, tzinfo=UTC)]
    ids = {
        run_id(
            "scheduled",
            run_after=moment,  # type: ignore[arg-type]
            logical_date=moment if logical_date else None,  # type: ignore[arg-type]
        )
        for moment in moments
    }
    assert len(ids) == 1
    assert ids.pop().startswith("scheduled__2024-01-01T00:00:00+00:00")


def test_run_id_of_content_ignores_order() -> None:
    """The order in which content was gathered does not change the id; content does."""
    one, other, third = (
        run_id("asset_triggered", run_after=MONDAY, logical_date=None, content=content)
        for content in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    )
    assert one == other
    assert one != third


def test_run_id_of_type_tells_runs_apart() -> None:
    """Two types of run at one instant never share an id, dated or not."""
    kinds = ["scheduled", "manual", "backfill", "asset_triggered"]
    ids = {
        run_id(kind, run_after=MONDAY, logical_date=date)
        for kind in kinds
        for date in (None, MONDAY)
    }
    assert len(ids) == 2 * len(kinds)


def test_run_id_with_key_prefers_date() -> None:
    """A dated run is named by its date even if it carries a partition key."""
    assert run_id("manual", run_after=MONDAY, logical_date=MONDAY, partition_key="k") == (
        "manual__2024-01-01T00:00:00+00:00"
    )
