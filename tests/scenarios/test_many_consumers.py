"""An event for many consumers when functions die, messages vanish and time runs out."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset
from lamplighter.errors import TransientError
from lamplighter.events import fan_out, ingest
from lamplighter.scheduler import claim
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.store.assets import consumers_of
from lamplighter.store.models import Assets, Runs
from lamplighter.store.models.assets import ITSELF
from lamplighter_local import handlers
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.tools.checked_deployment import LocalDeployment

A, B = Asset("a"), Asset("b")
NOON = datetime(2026, 1, 5, 12, 0, 5)
MANY, FEW = 60, 30


def consumers(number: int, asset: Asset = A) -> list[DAG]:
    """Return so many DAGs that wait for one asset."""
    return [DAG(f"{asset.name}-{at:03}", schedule=asset) for at in range(number)]


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment at noon, whose tables must be sound in the end."""
    with LocalDeployment(at=NOON) as made:
        yield made
        made.check_invariants()


def runs_each(number: int, asset: str = "a") -> set[int]:
    """Return how many runs each consumer has, equal numbers as one."""
    found = Counter(run.dag_id for run in Runs.scan(consistent_read=True))
    return {found[f"{asset}-{at:03}"] for at in range(number)}


def is_open(asset: str = "a") -> bool:
    """Return whether some consumer may not have seen the newest event."""
    return Assets.get(asset, ITSELF, consistent_read=True).open_shard is not None


def replace_function(stack: LocalStack, name: str, instead: Callable[[], Any]) -> None:
    """Let a function do something else whenever it is called."""
    real = stack.call

    def call(function: str, event: dict[str, Any]) -> Any:
        return instead() if function == name else real(function, event)

    stack.call = call


def die() -> None:
    """Answer as a function that was killed: not at all."""


def drop() -> dict[str, list[str]]:
    """Answer as if all messages had been dealt with."""
    return {"batchItemFailures": []}


# More consumers than are claimed where the event is recorded.


@pytest.mark.slow
@pytest.mark.parametrize("instead", [die, drop])
def test_event_without_a_claim_function_reaches_every_consumer(
    lamp: LocalDeployment, instead: Callable[[], Any]
) -> None:
    """The function is dead, or its messages are lost: the sweep claims every consumer, once."""
    lamp.push(consumers(MANY))
    replace_function(lamp.stack, "claim", instead)
    lamp.emit("a")
    lamp.run_until_idle()
    assert (runs_each(MANY), is_open()) == ({0}, True)
    lamp.advance(minutes=10)
    assert (runs_each(MANY), is_open()) == ({1}, False)
    lamp.advance(minutes=30)
    assert runs_each(MANY) == {1}


@pytest.mark.slow
def test_events_that_keep_coming_do_not_hide_an_open_asset(lamp: LocalDeployment) -> None:
    """The sweep goes by the first event that nobody handed on, not by the newest one."""
    lamp.push(consumers(MANY))
    replace_function(lamp.stack, "claim", die)
    for _ in range(10):
        lamp.emit("a")
        lamp.advance(minutes=1)
    assert 0 not in runs_each(MANY)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "operation"),
    [
        (1, "SendMessageBatch"),
        (1, "Query"),
        (1, "BatchGetItem"),
        (2, "BatchGetItem"),
        (3, "BatchGetItem"),
        (4, "BatchGetItem"),
        (1, "TransactWriteItems"),
        (2, "TransactWriteItems"),
    ],
)
def test_denied_call_keeps_the_event_from_nobody(
    lamp: LocalDeployment, number: int, operation: str
) -> None:
    """AccessDenied once, wherever it strikes, delays runs but loses none and doubles none."""
    lamp.push(consumers(MANY))
    lamp.faults.at(number, "throttle", operation, code="AccessDeniedException")
    lamp.emit("a")
    lamp.advance(minutes=30)
    assert lamp.faults.pending == []
    assert (runs_each(MANY), is_open()) == ({1}, False)


@pytest.mark.slow
def test_denied_claims_keep_the_asset_open_until_they_are_allowed(lamp: LocalDeployment) -> None:
    """While no claim is allowed the asset stays open, and then everyone has a run."""
    lamp.push(consumers(MANY))
    with patch.object(claim, "transact", side_effect=TransientError("not now")):
        lamp.emit("a")
        lamp.advance(minutes=20)
        assert (runs_each(MANY), is_open()) == ({0}, True)
    lamp.advance(minutes=40)
    assert (runs_each(MANY), is_open()) == ({1}, False)


@pytest.mark.slow
@pytest.mark.full
def test_event_for_five_hundred_reaches_them_without_a_claim_function(
    lamp: LocalDeployment,
) -> None:
    """The sweep claims a crowd in bulk, once each, and closes the asset."""
    lamp.push(consumers(500))
    replace_function(lamp.stack, "claim", die)
    lamp.emit("a")
    lamp.advance(minutes=10)
    assert (runs_each(500), is_open()) == ({1}, False)


# Time that runs out.


class _Hurried(LambdaContext):
    """An invocation that has time for so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def get_remaining_time_in_millis(self) -> int:
        self._looks -= 1
        return 60_000 if self._looks >= 0 else 0


@pytest.fixture
def _in_tens() -> Iterator[None]:
    """Let ten DAGs be claimed between two looks at the clock."""
    with patch.object(claim, "_AT_ONCE", 10):
        yield


def hurry(stack: LocalStack, name: str, looks: int) -> None:
    """Let a function have time for so many looks at the clock each time."""
    real = stack.call

    def call(function: str, event: dict[str, Any]) -> Any:
        if function != name:
            return real(function, event)
        return handlers.call(function, event, _Hurried(looks))

    stack.call = call


@pytest.mark.slow
@pytest.mark.usefixtures("_in_tens")
def test_time_that_runs_out_in_the_fan_out_loses_nobody(lamp: LocalDeployment) -> None:
    """Whoever was not reached keeps the asset open, also if the hints about them are lost."""
    lamp.push(consumers(FEW))
    hurry(lamp.stack, "ingest", 2)
    replace_function(lamp.stack, "claim", drop)
    lamp.emit("a")
    lamp.run_until_idle()
    assert (runs_each(FEW), is_open()) == ({0, 1}, True)
    lamp.advance(minutes=10)
    assert (runs_each(FEW), is_open()) == ({1}, False)


@pytest.mark.slow
@pytest.mark.usefixtures("_in_tens")
def test_sweep_without_time_gets_further_each_time(lamp: LocalDeployment) -> None:
    """A sweep that always has too little time reaches everyone all the same."""
    lamp.push([*consumers(MANY, A), *consumers(MANY, B)])
    replace_function(lamp.stack, "claim", drop)
    # Six looks while sixty DAGs are claimed in tens, and no more: it ends within the second asset.
    hurry(lamp.stack, "sweep", 8)
    lamp.emit("a")
    lamp.emit("b")
    lamp.advance(minutes=5)
    assert is_open("a") != is_open("b")
    lamp.advance(minutes=10)
    assert [runs_each(MANY, "a"), runs_each(MANY, "b")] == [{1}, {1}]
    assert not is_open("a")
    assert not is_open("b")


# Assets beside each other.


@pytest.mark.slow
def test_asset_whose_consumers_cannot_be_read_holds_up_no_other(lamp: LocalDeployment) -> None:
    """The sweep counts it as failed, goes on with the next, and has it another time."""
    lamp.push([*consumers(2, A), *consumers(2, B)])
    with patch.object(ingest, "fan_out", return_value=ClaimReport()):
        lamp.emit("a")
        lamp.emit("b")
        lamp.run_until_idle()
    lamp.advance(minutes=4, deliver=False)

    def unreadable(asset_id: str) -> Iterator[str]:
        if asset_id == "a":
            raise TransientError("it cannot be read now")
        return consumers_of(asset_id)

    with patch.object(fan_out, "consumers_of", unreadable):
        assert lamp.stack.sweep()["failed_searches"] == 1
    assert [runs_each(2, "a"), runs_each(2, "b")] == [{0}, {1}]
    lamp.advance(minutes=10)
    assert [runs_each(2, "a"), runs_each(2, "b")] == [{1}, {1}]
