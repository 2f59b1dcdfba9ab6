"""Writes of one row that meet a transaction on it."""

from collections.abc import Iterator

import pytest
from pendulum import datetime

from lamplighter import clock
from lamplighter.errors import TransientError
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import Catalog
from lamplighter.store.rows import connection
from lamplighter.store.transactions import delete_if, update, update_if
from lamplighter_local.stack import LocalStack
from tests.tools.faults import Faults

NOW = datetime(2026, 1, 5)
TRIES = 6


@pytest.fixture
def row(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """Return a row; nobody waits for it by the real clock."""
    monkeypatch.setattr(clock, "sleep", lambda _: None)
    made = Catalog("kind", "id", pushed=1)
    made.save()
    return made


@pytest.fixture
def faults(row: Catalog) -> Iterator[Faults]:
    """Return faults in the way of the tables."""
    planned = Faults()
    with planned.on(connection().client):
        yield planned


def conflicts(faults: Faults, operation: str, times: int) -> None:
    """Let the next writes meet a transaction."""
    for call in range(1, times + 1):
        faults.at(call, "conflict", operation)


def stored() -> float | None:
    """Return the number that is stored."""
    return Catalog.get("kind", "id", consistent_read=True).pushed


def test_update_that_meets_a_transaction_is_tried_again(row: Catalog, faults: Faults) -> None:
    """The row changes when the transaction is over."""
    conflicts(faults, "UpdateItem", TRIES - 1)
    assert update_if(row, [Catalog.pushed.set(2)], Catalog.pushed == 1) is True
    assert stored() == 2


def test_update_whose_condition_fails_after_the_transaction_is_refused(
    row: Catalog, faults: Faults
) -> None:
    """What the transaction left decides, and not what was there before it."""
    conflicts(faults, "UpdateItem", 1)
    assert update_if(row, [Catalog.pushed.set(3)], Catalog.pushed == 7) is False
    assert stored() == 1


def test_delete_that_meets_a_transaction_is_tried_again(row: Catalog, faults: Faults) -> None:
    """The row is gone when the transaction is over."""
    conflicts(faults, "DeleteItem", 2)
    assert delete_if(row, Catalog.pushed == 1) is True
    with pytest.raises(Catalog.DoesNotExist):
        stored()


def test_row_that_stays_busy_is_left_for_later(row: Catalog, faults: Faults) -> None:
    """Whoever delivered the work delivers it again; the row is as it was."""
    conflicts(faults, "UpdateItem", TRIES)
    with pytest.raises(TransientError, match=r"row \['kind', 'id'\] of Catalog stayed busy"):
        update(row, [Catalog.pushed.set(2)])
    assert not faults.pending
    assert stored() == 1


def test_push_that_meets_a_registration_gets_its_number(row: Catalog, faults: Faults) -> None:
    """Registering checks the row of the bundle in its transactions."""
    conflicts(faults, "UpdateItem", 2)
    assert next_push_number("shop") == 1
    assert next_push_number("shop") == 2
