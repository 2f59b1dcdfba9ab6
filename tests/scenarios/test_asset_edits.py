"""Authors change what a DAG waits for, while events come in."""

from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias
from lamplighter.registry import assets
from lamplighter.registry import register as registering
from lamplighter.scheduler import claim as claiming
from lamplighter.store.assets import consumers_of
from lamplighter.store.models import AssetQueue, Dags
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.scenarios.acts import once, send, taken
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

A, B, C = Asset("a"), Asset("b"), Asset("c")


def wait_for(stack: LocalStack, schedule: Any, **arguments: Any) -> None:
    """Push the DAG with this schedule, and let everything come to rest."""
    register_dags(DAG("dag", schedule=schedule, **arguments))
    stack.run_until_idle()


@pytest.fixture(autouse=True)
def _known_assets(stack: LocalStack) -> None:
    """Let another bundle name all assets, so that their events are never unknown."""
    register_dags(DAG("other", schedule=[A, B, C, AssetAlias("fresh")]), bundle="others")
    stack.run_until_idle()


def queued() -> set[str]:
    """Return the assets of which it is known how far the DAG has consumed them."""
    return {row.asset_id for row in AssetQueue.query("dag", consistent_read=True)}


# Away and back.


@pytest.mark.parametrize("schedule", [None, B], ids=["no assets", "another asset"])
def test_schedule_that_leaves_an_asset_begins_anew(stack: LocalStack, schedule: Any) -> None:
    """What was pending is gone with the reference, and so is what came in between."""
    wait_for(stack, A & C)
    send(stack, "a")
    wait_for(stack, schedule)
    assert queued() == ({"b"} if schedule else set())
    assert "dag" not in set(consumers_of("a"))
    send(stack, "a")
    wait_for(stack, A & C)
    send(stack, "c")
    assert taken(stack) == []
    send(stack, "a")
    assert taken(stack) == [{"a": [2, 3], "c": [0, 1]}]
    require_sound()


def test_noted_condition_leaves_with_the_schedule(stack: LocalStack) -> None:
    """A run that had found no slot is not made up for when the DAG waits for assets no more."""
    wait_for(stack, A, max_active_runs=1)
    send(stack, "a", "a")
    wait_for(stack, None, max_active_runs=1)
    (run,) = stack.runs("dag")
    finish_run("dag", run.run_key, state="success")
    stack.advance(minutes=10)
    assert taken(stack) == [{"a": [0, 1]}]
    assert Dags.get("dag").asset_condition_met_at is None
    require_sound()


def test_reference_that_was_removed_and_added_begins_anew(stack: LocalStack) -> None:
    """Half of `A & B` was there; without B for a while, B's earlier event does not count."""
    wait_for(stack, A & B)
    send(stack, "b")
    wait_for(stack, A & C)
    send(stack, "b", "a")
    wait_for(stack, A & B)
    assert taken(stack) == []
    send(stack, "b")
    assert taken(stack) == [{"a": [0, 1], "b": [2, 3]}]
    require_sound()


# Another condition on the same assets.


@pytest.mark.parametrize(
    ("before", "events", "after", "expected"),
    [
        pytest.param(A & B, "aa", A, [{"a": [0, 2]}], id="smaller"),
        pytest.param(A & B, "a", A | B, [{"a": [0, 1]}], id="or-instead-of-and"),
        pytest.param(A & B & C, "ab", A & (B | C), [{"a": [0, 1], "b": [0, 1]}], id="nested"),
        pytest.param(A & B, "a", A & B & C, [], id="larger"),
        pytest.param(A & B, "b", A, [], id="wrong-half"),
        pytest.param(A & B, "", A | B, [], id="no-events"),
    ],
)
def test_edited_condition_is_looked_at_without_an_event(
    stack: LocalStack, before: Any, events: str, after: Any, expected: list[Any]
) -> None:
    """What is pending may fulfil the new condition, and then the push is enough."""
    wait_for(stack, before)
    send(stack, *events)
    assert taken(stack) == []
    wait_for(stack, after)
    assert taken(stack) == expected
    stack.advance(minutes=5)
    assert taken(stack) == expected
    require_sound()


def test_larger_condition_keeps_what_is_pending(stack: LocalStack) -> None:
    """A is pending; B is awaited too from now on, and one run takes both."""
    wait_for(stack, A & C)
    send(stack, "a", "b")
    wait_for(stack, A & B & C)
    send(stack, "b", "c")
    assert taken(stack) == [{"a": [0, 1], "b": [1, 2], "c": [0, 1]}]
    require_sound()


def test_condition_edited_during_a_pause_is_looked_at_after_it(stack: LocalStack) -> None:
    """The smaller condition is met by what came before; the run comes with the un-pausing."""
    wait_for(stack, A & B)
    send(stack, "a")
    pause("dag")
    wait_for(stack, A)
    assert taken(stack) == []
    unpause("dag")
    stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 1]}]
    require_sound()


def test_condition_edited_without_a_free_slot_is_looked_at_later(stack: LocalStack) -> None:
    """The smaller condition is met while the only run is active."""
    wait_for(stack, A | B, max_active_runs=1)
    send(stack, "a")
    wait_for(stack, A & B, max_active_runs=1)
    send(stack, "a")
    wait_for(stack, A, max_active_runs=1)
    (run,) = stack.runs("dag")
    finish_run("dag", run.run_key, state="success")
    stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 2]}]
    require_sound()


def test_same_assets_written_otherwise_do_not_fire_again(stack: LocalStack) -> None:
    """A condition that is only spelt anew finds nothing pending."""
    wait_for(stack, A | B)
    send(stack, "a")
    wait_for(stack, B | A)
    stack.advance(minutes=5)
    assert taken(stack) == [{"a": [0, 1]}]
    require_sound()


# While events stream in.


def test_new_dag_gets_the_event_between_reference_and_row(stack: LocalStack) -> None:
    """The reference stands before the DAG does: an event in between is the DAG's first."""
    send(stack, "a")
    with once(registering, "query_definitions", lambda: send(stack, "a")):
        wait_for(stack, A)
    assert taken(stack) == [{"a": [1, 2]}]
    send(stack, "a")
    assert taken(stack) == [{"a": [1, 2]}, {"a": [2, 3]}]
    require_sound()


def test_added_reference_misses_no_event_of_a_stream(stack: LocalStack) -> None:
    """Events come before, during and after the push: the DAG takes each from its reference on."""
    wait_for(stack, A)
    send(stack, "a", "b")
    with once(registering, "query_definitions", lambda: send(stack, "b", "a", "b")):
        wait_for(stack, A | B)
    send(stack, "b", "a")
    numbers: dict[str, list[int]] = {"a": [], "b": []}
    for events in taken(stack):
        for asset, (after, until) in events.items():
            numbers[asset] += range(after + 1, until + 1)
    assert numbers == {"a": [1, 2, 3], "b": [2, 3, 4]}
    require_sound()


@pytest.mark.interferes
def test_removed_reference_during_a_claim_takes_nothing(stack: LocalStack) -> None:
    """The push is committed between the claim's decision and its commit: the claim asks again."""
    wait_for(stack, A & B)
    send(stack, "a")
    stack.emit("b")
    with once(claiming, "transact", lambda: register_dags(DAG("dag", schedule=(A & C)))):
        stack.run_until_idle()
    assert taken(stack) == []
    send(stack, "c")
    assert taken(stack) == [{"a": [0, 1], "c": [0, 1]}]
    require_sound()


def test_deleted_dag_harms_no_other_consumer(stack: LocalStack) -> None:
    """Its references lead nowhere, and events of the asset go on."""
    wait_for(stack, A)
    register_dags(DAG("neighbour", schedule=A), bundle="neighbours")
    Dags.get("dag").delete()
    send(stack, "a")
    assert taken(stack) == []
    assert len(stack.runs("neighbour")) == 1
    require_sound()


@pytest.mark.parametrize("before", [AssetAlias("fresh"), None], ids=["alias", "new"])
def test_event_between_a_reference_and_its_row_is_taken_once(
    stack: LocalStack, before: AssetAlias | None
) -> None:
    """It came through an alias, too: a push that adds its asset at this moment makes no second."""
    if before is not None:
        wait_for(stack, before)

    def emit() -> None:
        stack.emit("c", aliases=["fresh"])
        stack.run_until_idle()

    with once(assets, "add_consumers", emit, is_after=True):
        wait_for(stack, AssetAlias("fresh") | C)
    assert len(taken(stack)) == (before is not None)
    send(stack, "c", aliases=["fresh"])
    assert taken(stack)[-1].keys() == {"alias:fresh", "c"}
    require_sound()


def test_reference_of_a_push_that_died_is_dropped_by_the_next(stack: LocalStack) -> None:
    """The row never knew of it; whoever waits for that asset later begins anew."""
    wait_for(stack, A)
    with patch.object(registering, "query_definitions", side_effect=Crash), pytest.raises(Crash):
        wait_for(stack, A | B)
    assert queued() == {"a", "b"}
    send(stack, "b")
    wait_for(stack, A)
    assert queued() == {"a"}
    wait_for(stack, A | B)
    assert taken(stack) == []
    require_sound()
