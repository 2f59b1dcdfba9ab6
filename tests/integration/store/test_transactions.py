"""Transactions: who is told what when one is cancelled, and how long a busy row is waited for."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from pendulum import datetime

from lamplighter import DAG, clock
from lamplighter.errors import RefusedError, TransientError
from lamplighter.store.dags import change_dag, dag_write, read_dag, read_dags, require_dag
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.rows import connection
from lamplighter.store.transactions import (
    Cause,
    Delete,
    Put,
    TransactionCanceled,
    Update,
    Write,
    transact,
    transact_with_retry,
    update_if,
)
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.definitions import store_dags
from tests.tools.faults import Faults

MIDNIGHT = datetime(2026, 1, 1)


@pytest.fixture(name="stack", scope="module")
def make_stack() -> Iterator[LocalStack]:
    """Return a deployment; every test uses ids of its own."""
    with local_stack(at=MIDNIGHT) as stack:
        yield stack


def catalog(name: str, **columns: Any) -> Catalog:
    """Return a row of a kind that only these tests have."""
    return Catalog("test", name, **columns)


def put(name: str) -> Put:
    """Return a write that is refused if there is such a row."""
    return Put(catalog(name, version="1"))


def update(name: str, *, expected: str) -> Update:
    """Return a write that is refused unless the row has a version."""
    return Update(catalog(name), [Catalog.version.set("2")], Catalog.version == expected)


def delete(name: str) -> Delete:
    """Return a write that removes a row."""
    return Delete(catalog(name))


def version(name: str) -> str | None:
    """Return what a row says now."""
    return Catalog.get("test", name, consistent_read=True).version


def verdicts(cancelled: TransactionCanceled) -> list[str]:
    """Return what each write had to do with it, in the order of the writes."""
    return [reason.cause.name for reason in cancelled.reasons]


def dag(dag_id: str) -> Dags:
    """Store a new DAG and return its row."""
    store_dags([DAG(dag_id, schedule="0 * * * *", start_date=MIDNIGHT)])
    return require_dag(dag_id)


@pytest.mark.parametrize("guilty", [0, 1, 2, 3])
def test_refusal_is_told_to_the_write_it_belongs_to(stack: LocalStack, guilty: int) -> None:
    """Reasons come back in the order of the writes, whatever their kinds."""
    name = f"order-{guilty}"
    transact([put(f"{name}-old"), put(f"{name}-two")])
    writes: list[Write] = [
        update(f"{name}-old", expected="wrong" if guilty == 0 else "1"),
        put(f"{name}-two" if guilty == 1 else f"{name}-new"),
        Update(
            catalog(f"{name}-three"),
            [Catalog.version.set("3")],
            Catalog.version == "3" if guilty == 2 else Catalog.version.does_not_exist(),
        ),
        put(f"{name}-old" if guilty == 3 else f"{name}-newer"),
        delete(f"{name}-nobody"),
    ]
    if guilty == 3:
        writes[0] = put(f"{name}-first")

    with pytest.raises(TransactionCanceled) as raised:
        transact(writes)

    expected = ["NONE"] * 5
    expected[guilty] = "CONDITION_FAILED"
    assert verdicts(raised.value) == expected
    row = raised.value.reasons[guilty].row
    assert (row is None) == (guilty == 2)
    assert row is None or row.version == "1"


def test_cancelled_transaction_writes_nothing(stack: LocalStack) -> None:
    """One refusal keeps all other writes from happening."""
    transact([put("all-old")])

    with pytest.raises(TransactionCanceled):
        transact([put("all-new"), update("all-old", expected="wrong")])

    assert version("all-old") == "1"
    with pytest.raises(Catalog.DoesNotExist):
        version("all-new")


def test_conflict_is_busy_only_for_its_members(stack: LocalStack) -> None:
    """A conflict names the writes that met another transaction; the others are innocent."""
    faults = Faults()
    faults.at(1, "conflict", "TransactWriteItems", members=[0])
    writes: list[Write] = [update("meet-a", expected="1"), put("meet-b"), delete("meet-c")]

    with faults.on(connection().client), pytest.raises(TransactionCanceled) as raised:
        transact(writes)

    assert verdicts(raised.value) == ["BUSY", "NONE", "NONE"]


def test_busy_rows_are_tried_again(stack: LocalStack) -> None:
    """A conflict that passes is not the caller's business."""
    faults = Faults()
    for call in (1, 2, 3):
        faults.at(call, "conflict", "TransactWriteItems")

    with faults.on(connection().client):
        transact_with_retry([put("patient")])

    assert version("patient") == "1"
    assert faults.calls == ["TransactWriteItems"] * 4


def test_rows_that_stay_busy_are_given_up(stack: LocalStack) -> None:
    """After some tries, and well within a second, someone else has to try later."""
    faults = Faults()
    faults.probability("TransactWriteItems", conflict=1)
    before = clock.now()

    with faults.on(connection().client), pytest.raises(TransientError, match="busy"):
        transact_with_retry([put("hopeless")])

    assert len(faults.calls) == 6
    assert (clock.now() - before).total_seconds() < 1


def test_refusal_is_not_tried_again(stack: LocalStack) -> None:
    """A condition that does not hold now is not asked a second time."""
    transact([put("refused")])
    faults = Faults()

    with faults.on(connection().client), pytest.raises(TransactionCanceled):
        transact_with_retry([put("refused")])

    assert faults.calls == ["TransactWriteItems"]


@pytest.mark.parametrize("kind", ["throttle", "lost-answer"])
def test_service_in_trouble_is_a_transient_error(stack: LocalStack, kind: Any) -> None:
    """A throttle and a lost answer are both told as what they are: try again later."""
    faults = Faults()
    faults.at(1, kind, "TransactWriteItems")

    with faults.on(connection().client), pytest.raises(TransientError):
        transact([put(f"trouble-{kind}")])


@pytest.mark.parametrize(
    "error",
    [
        ConnectTimeoutError(endpoint_url="there"),
        EndpointConnectionError(endpoint_url="there"),
        ConnectionClosedError(endpoint_url="there"),
        ReadTimeoutError(endpoint_url="there"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_network_in_trouble_is_a_transient_error(stack: LocalStack, error: Exception) -> None:
    """However the connection failed, the same call may succeed later."""
    with (
        patch.object(connection().client, "_make_api_call", side_effect=error),
        pytest.raises(TransientError),
    ):
        transact([put("network")])


@pytest.mark.parametrize("kind", ["throttle", "lost-answer"])
def test_single_write_in_trouble_is_no_refusal(stack: LocalStack, kind: Any) -> None:
    """A write whose answer never came is not said to have been refused."""
    faults = Faults()
    faults.at(1, kind, "UpdateItem")
    row = catalog(f"single-{kind}")

    with faults.on(connection().client), pytest.raises(Exception) as raised:  # noqa: PT011
        update_if(row, [Catalog.version.set("1")], Catalog.version.does_not_exist())

    assert not isinstance(raised.value, AttributeError)


def test_single_write_tells_whether_it_happened(stack: LocalStack) -> None:
    """A row is changed if its condition holds, and whoever asked is told."""
    row = catalog("single")
    absent = Catalog.version.does_not_exist()

    assert update_if(row, [Catalog.version.set("1")], absent) is True
    assert update_if(row, [Catalog.version.set("2")], absent) is False
    assert version("single") == "1"


def test_too_many_writes_are_our_mistake(stack: LocalStack) -> None:
    """A transaction that no repetition mends is not called transient."""
    with pytest.raises(Exception, match="TransactWriteItems") as raised:
        transact([put(f"many-{number}") for number in range(101)])

    assert not isinstance(raised.value, TransientError | TransactionCanceled)


# The row of a DAG.


def test_dag_write_of_changed_row_is_refused(stack: LocalStack) -> None:
    """Whoever read the row before someone else wrote it comes second."""
    first, second = dag("raced"), require_dag("raced")
    first.is_paused = second.is_stale = True
    transact([dag_write(first)])

    with pytest.raises(TransactionCanceled) as raised:
        transact([dag_write(second)])

    (reason,) = raised.value.reasons
    assert reason.cause is Cause.CONDITION_FAILED
    assert (reason.row.is_paused, reason.row.rev) == (True, first.rev)


@pytest.mark.parametrize("flag", ["is_paused", "is_stale", "has_import_errors"])
def test_dag_write_after_an_edit_by_hand_is_refused(stack: LocalStack, flag: str) -> None:
    """A flag that a person set in the console, without raising `rev`, stops a claim too."""
    row = dag(f"console-{flag.replace('_', '-')}")
    attribute = getattr(Dags, flag)
    Dags(row.dag_id).update([attribute.set(True)])
    row.next_run_after = MIDNIGHT

    with pytest.raises(TransactionCanceled):
        transact([dag_write(row)])


def test_dag_write_decides_about_the_index(stack: LocalStack) -> None:
    """A row that is paused leaves the index in the same write, and comes back in another."""
    row = dag("indexed")
    row.is_paused = True
    transact([dag_write(row)])
    paused = require_dag("indexed")
    assert paused.due_shard is None
    assert paused.next_run_create_after == MIDNIGHT.add(hours=1)

    paused.is_paused = False
    transact([dag_write(paused)])

    assert require_dag("indexed").due_shard is not None


def test_change_of_dag_is_asked_again_after_a_race(stack: LocalStack) -> None:
    """A change that came second is made to the row of the moment."""
    dag("changed")
    seen: list[int] = []

    def change(row: Dags) -> list[Any]:
        if not seen:
            other = require_dag("changed")
            other.max_active_runs = 7
            transact([dag_write(other)])
        seen.append(int(row.max_active_runs))
        row.is_paused = True
        return []

    written = change_dag("changed", change)

    assert seen == [16, 7]
    assert written is not None
    assert (written.is_paused, written.max_active_runs, written.rev) == (True, 7, 3)


def test_change_of_dag_that_is_none_writes_nothing(stack: LocalStack) -> None:
    """A change that finds nothing to do does not raise `rev`."""
    before = dag("unchanged").rev

    change_dag("unchanged", lambda _: None)
    change_dag("unchanged", lambda _: [])

    assert require_dag("unchanged").rev == before


def test_change_with_a_refused_companion_is_cancelled(stack: LocalStack) -> None:
    """When another row stands in the way, the DAG's row stays as it was."""
    dag("accompanied")
    transact([put("companion")])

    def change(row: Dags) -> list[Any]:
        row.is_paused = True
        return [put("companion")]

    with pytest.raises(TransactionCanceled):
        change_dag("accompanied", change)

    assert require_dag("accompanied").is_paused is False


def test_dags_that_are_not_there_are_left_out(stack: LocalStack) -> None:
    """Rows come in the order of the ids; ids without a row have none."""
    for dag_id in ("second", "first"):
        dag(dag_id)

    assert [row.dag_id for row in read_dags(["first", "nobody", "second"])] == ["first", "second"]
    assert read_dag("nobody") is None
    assert change_dag("nobody", lambda _: []) is None
    with pytest.raises(RefusedError, match="nobody"):
        require_dag("nobody")
