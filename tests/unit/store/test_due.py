"""Whether a DAG is in the due index, and under which instant: decided from its row alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pendulum import DateTime, datetime

from lamplighter.store.models import Dags
from lamplighter.store.slots import Entry, free_slots, index_entry, shard_of, waiting_entry

NINE, TEN, ELEVEN = (datetime(2026, 1, 1, hour) for hour in (9, 10, 11))
SHARD = shard_of("dag", 16)


def row(**columns: Any) -> Dags:
    """Return the row of an open DAG with one free slot, due at ten."""
    return Dags("dag", **{"max_active_runs": 1, "next_run_after": TEN, **columns})


def entry(**columns: Any) -> Entry:
    """Return the entry of such a row."""
    return index_entry(row(**columns), shards=16)


def test_entry_of_open_dag_is_its_next_run() -> None:
    """A DAG with a free slot is in the index under the instant of its next run."""
    assert entry() == Entry(TEN, SHARD)


@pytest.mark.parametrize("flag", ["is_paused", "is_stale", "has_import_errors"])
def test_entry_of_closed_dag_has_no_shard(flag: str) -> None:
    """A DAG that may have no runs keeps its instant and leaves the index."""
    assert entry(**{flag: True}) == Entry(TEN, None)


@pytest.mark.parametrize("active", [{"a"}, {"a", "b"}])
def test_entry_of_full_dag_has_no_shard(active: set[str]) -> None:
    """At the limit, and above one that was lowered, the due time is kept outside the index."""
    assert entry(active=active) == Entry(TEN, None)


def test_entry_of_dag_without_anything_is_empty() -> None:
    """A DAG that nothing will ever start is in no index."""
    assert entry(next_run_after=None) == Entry(None, None)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"asset_condition_met_at": NINE}, NINE),
        ({"asset_condition_met_at": ELEVEN}, TEN),
        ({"waiting": {waiting_entry(NINE, "x")}}, NINE),
        ({"waiting": {waiting_entry(ELEVEN, "x")}}, TEN),
        ({"waiting": {waiting_entry(ELEVEN, "a"), waiting_entry(NINE, "z")}}, NINE),
        ({"next_run_after": None, "asset_condition_met_at": ELEVEN}, ELEVEN),
        ({"asset_start_at": NINE}, NINE),
        (
            {"next_run_after": None, "asset_start_at": ELEVEN, "asset_condition_met_at": NINE},
            ELEVEN,
        ),
        ({"next_run_after": None, "waiting": {waiting_entry(ELEVEN, "x")}}, ELEVEN),
    ],
)
def test_entry_key_is_the_earliest_reason(columns: dict[str, Any], expected: DateTime) -> None:
    """Of a due time, an asset condition and a run that waits, the earliest counts."""
    assert entry(**columns) == Entry(expected, SHARD)


def test_free_slots_above_a_lowered_limit_are_none() -> None:
    """More active runs than the limit leave no negative number of slots."""
    assert free_slots(row(active={"a", "b", "c"}, max_active_runs=2)) == 0


def test_shard_of_a_dag_is_the_same_everywhere() -> None:
    """The shard depends on the id alone: another process finds what this one wrote."""
    assert [shard_of(dag_id, 16) for dag_id in ("orders", "revenue", "fx")] == [14, 5, 0]


@given(st.text(min_size=1), st.integers(1, 64))
def test_shard_of_any_id_is_within_the_shards(dag_id: str, shards: int) -> None:
    """No id falls outside of what a tick reads."""
    assert 0 <= shard_of(dag_id, shards) < shards


@given(st.lists(st.tuples(st.datetimes(), st.text(min_size=1)), min_size=1))
def test_waiting_entries_sort_by_when_they_began(waits: list[tuple[Any, str]]) -> None:
    """The smallest of the texts is the run that has waited longest."""
    entries = {waiting_entry(DateTime.instance(since, tz="UTC"), key) for since, key in waits}

    found = index_entry(row(waiting=entries, next_run_after=None), shards=1)

    assert found.next_run_create_after == min(
        DateTime.instance(since, tz="UTC") for since, _ in waits
    )
