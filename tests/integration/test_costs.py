"""Costs: what the documentation says is what the calls of the local deployment add up to."""

import re

import pytest

from lamplighter_local import LocalDeployment
from tests.costs import bill, prices
from tests.costs.capacity import Written, read_units, size_of, write_units
from tests.costs.stories import Counted

# In one process, which counts once for all of them.
pytestmark = pytest.mark.xdist_group("costs")

# Costs change a little with every change of the code; the page follows when they change by more.
_TOLERANCE = 0.1
_TOLERANCE_DOLLARS = 0.5

_DAGS = "local-Dags"


@pytest.fixture(scope="module")
def runs() -> list[Counted]:
    """Return what runs use, counted once."""
    return bill.count_runs()


def test_costs_on_the_page_are_those_that_are_counted(runs: list[Counted]) -> None:
    """The table of docs/costs.md has the dollars that `make costs` counts, nearly."""
    counted, written = bill.table(runs), bill.written_table()
    assert [row[0] for row in written] == [row[0] for row in counted]
    assert written[0] == counted[0]
    for said, found in zip(written[1:], counted[1:], strict=True):
        for column, (mine, theirs) in enumerate(zip(said[1:], found[1:], strict=True), start=1):
            close = pytest.approx(float(theirs), rel=_TOLERANCE, abs=_TOLERANCE_DOLLARS)
            about = f"{said[0]}, {written[0][column]}: run `make costs WRITE=1`"
            assert float(mine) == close, about


def test_months_on_the_page_are_those_that_are_counted() -> None:
    """What costs money without runs stays within what docs/costs.md says of it."""
    polls, timers, keys = (
        sum(bill.dollars(each.units, times=1).values()) for each in bill.count_months()
    )
    assert round(polls) == 2
    assert max(timers, keys) < 1


def test_range_at_the_top_of_the_page_is_that_of_its_table() -> None:
    """The page begins with the range of what scheduling a run costs."""
    said = re.search(r"(\d+) to (\d+) per million runs", bill.PAGE.read_text())
    assert said is not None
    (together,) = (row[1:] for row in bill.written_table() if row[0] == "**together**")
    dollars = sorted(float(each) for each in together)
    assert [int(each) for each in said.groups()] == [round(dollars[0]), round(dollars[-1])]


def test_every_unit_has_a_price_and_every_price_a_unit(runs: list[Counted]) -> None:
    """Nothing is counted that costs nothing, and no price is left from something gone."""
    used = {unit for each in (*runs, *bill.count_months()) for unit in each.units}
    assert used == set(prices.PRICES)


@pytest.mark.parametrize(
    ("before", "after", "is_transaction", "units"),
    [
        # A new row that is in no index; in a transaction it is written twice.
        (None, {"dag_id": {"S": "a"}}, False, 1),
        (None, {"dag_id": {"S": "a"}}, True, 2),
        # More than a kilobyte, before or after.
        (None, {"dag_id": {"S": "a"}, "doc": {"S": "x" * 1_500}}, False, 2),
        ({"dag_id": {"S": "a"}, "doc": {"S": "x" * 1_500}}, {"dag_id": {"S": "a"}}, True, 4),
        # Into the index; along it, which deletes and puts; and nothing of it touched.
        ({"dag_id": {"S": "a"}}, "at 1", True, 3),
        ("at 1", "at 2", True, 4),
        ("at 1", "at 1 and more", True, 2),
    ],
)
def test_writes_are_billed_with_their_index_entries(
    before: object, after: object, is_transaction: bool, units: int
) -> None:
    """Rows count by the kilobyte, twice in a transaction, and index entries by what changes."""
    with LocalDeployment(at="2026-01-01T00:00:00Z"):
        written = Written(_DAGS, {"dag_id": {"S": "a"}})
        assert units == write_units(
            written, _item(before), _item(after), is_transaction=is_transaction
        )


def _item(described: object) -> dict[str, dict[str, str]] | None:
    if described is None or isinstance(described, dict):
        return described
    at, _, more = str(described).removeprefix("at ").partition(" ")
    return {
        "dag_id": {"S": "a"},
        "due_shard": {"N": "1"},
        "next_run_create_after": {"S": at},
        **({"doc": {"S": more}} if more else {}),
    }


def test_reads_are_billed_by_consistency_and_size() -> None:
    """A consistent read of up to 4 KB is a unit, another one half; a query adds its items up."""
    item = {"dag_id": {"S": "a" * 3_000}}
    assert size_of(item) == 3_006
    assert read_units("GetItem", {"ConsistentRead": True}, {"Item": item}) == 1
    assert read_units("GetItem", {}, {}) == 0.5
    assert read_units("Query", {}, {"Items": [item, item]}) == 1
    batch = {"RequestItems": {_DAGS: {"Keys": [1, 2], "ConsistentRead": True}}}
    assert read_units("BatchGetItem", batch, {"Responses": {_DAGS: [item]}}) == 2
