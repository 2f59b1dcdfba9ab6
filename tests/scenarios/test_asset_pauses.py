"""Asset events whose consumer may not run: paused, being redeployed, or broken."""

from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, SparkTask
from lamplighter.bundles.importer import ImportProblem, ParsedFile
from lamplighter.registry import register as registering
from lamplighter.registry.pushes import Push
from lamplighter.registry.sandbox import Sandbox
from lamplighter.scheduler import claim as claiming
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetQueue
from lamplighter_local.stack import LocalStack
from lamplighter_operations import pause as pausing
from lamplighter_operations.pause import pause, unpause
from tests.scenarios.acts import finish_one, once, register, send, taken
from tests.tools.definitions import register_dags
from tests.tools.invariants.tables import require_sound

A, B = Asset("a"), Asset("b")


def dropped(asset: str, dag_id: str = "dag") -> list[list[Any]]:
    """Return the ranges of an asset's events that a DAG gave up, and why."""
    noted = AssetQueue.get(dag_id, asset, consistent_read=True).dropped or []
    return [[after, until, why] for after, until, _, why in noted]


# Paused.


def test_events_while_paused_are_kept_with_catchup(stack: LocalStack) -> None:
    """What came before and during the pause becomes one run at its end, without a new event."""
    register(stack, DAG("dag", schedule=(A & B)))
    send(stack, "a")
    pause("dag")
    send(stack, "a", "b")
    stack.advance(days=1)
    assert taken(stack) == []
    unpause("dag")
    stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 2], "b": [0, 1]}]
    assert dropped("a") == dropped("b") == []
    require_sound()


def test_events_while_paused_are_dropped_without_catchup(stack: LocalStack) -> None:
    """Everything pending goes, also from before the pause; what was dropped can be looked up."""
    register(stack, DAG("dag", schedule=(A & B), catchup=False))
    send(stack, "a")
    pause("dag")
    send(stack, "b", "b", "a")
    unpause("dag")
    stack.advance(minutes=10)
    assert taken(stack) == []
    assert dropped("a") == [[0, 2, "dropped while paused"]]
    assert dropped("b") == [[0, 2, "dropped while paused"]]
    send(stack, "a", "b")
    assert taken(stack) == [{"a": [2, 3], "b": [2, 3]}]
    require_sound()


def test_second_pause_notes_its_own_events(stack: LocalStack) -> None:
    """Each pause adds what it dropped to what is known of earlier ones."""
    register(stack, DAG("dag", schedule=A, catchup=False))
    for _ in range(2):
        pause("dag")
        send(stack, "a")
        unpause("dag")
        send(stack, "a")
    assert taken(stack) == [{"a": [1, 2]}, {"a": [3, 4]}]
    assert dropped("a") == [[0, 1, "dropped while paused"], [2, 3, "dropped while paused"]]
    require_sound()


def test_unpausing_what_runs_drops_nothing(stack: LocalStack) -> None:
    """Without a pause there is nothing to drop: half a condition stays as it is."""
    register(stack, DAG("dag", schedule=(A & B), catchup=False))
    send(stack, "a")
    unpause("dag")
    send(stack, "b")
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]}]
    require_sound()


@pytest.mark.parametrize("is_paused_before", [False, True])
def test_event_during_the_unpausing_is_dropped_or_runs(
    stack: LocalStack, is_paused_before: bool
) -> None:
    """An event just after the pending ones were counted must not lie there unseen."""
    register(stack, DAG("dag", schedule=A, catchup=False))
    pause("dag")
    if is_paused_before:
        send(stack, "a")
    with once(pausing, "pending_of", lambda: send(stack, "a"), is_after=True):
        unpause("dag")
    stack.advance(minutes=10)
    given_up = sum(until - after for after, until, _ in dropped("a"))
    used = sum(until - after for events in taken(stack) for after, until in events.values())
    assert given_up + used == 1 + is_paused_before
    require_sound()


@pytest.mark.parametrize("why", ["paused", "no free slot"])
@pytest.mark.interferes
def test_condition_met_while_another_takes_it_for_unmet_fires_later(
    stack: LocalStack, why: str
) -> None:
    """Of two claims, one saw A only and one saw A and B: the second one's word stands."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    send(stack, "a")
    if why == "paused":
        pause("dag")
        finish_one(stack)
    register_dags(DAG("dag", schedule=(A & B), max_active_runs=1))
    with once(claiming, "pending_of", lambda: send(stack, "b"), is_after=True):
        send(stack, "a")
    if why == "paused":
        unpause("dag")
    else:
        finish_one(stack)
    stack.advance(minutes=10)
    assert taken(stack)[1:] == [{"a": [1, 2], "b": [0, 1]}]
    require_sound()


# Being redeployed.


def test_stale_consumer_is_not_forgotten(stack: LocalStack) -> None:
    """A DAG that left its bundle and came back runs with what it missed, at once."""
    register(stack, DAG("dag", schedule=A))
    register(stack, DAG("other", schedule=A))
    send(stack, "a", "a")
    assert (taken(stack), stack.dag("dag").is_stale) == ([], True)
    require_sound()
    register(stack, DAG("dag", schedule=A))
    assert taken(stack) == [{"a": [0, 2]}]
    require_sound()


def test_consumer_that_moves_to_another_bundle_keeps_its_events(stack: LocalStack) -> None:
    """Between leaving one bundle and coming with the next, nothing is lost."""
    register(stack, DAG("dag", schedule=(A & B)), bundle="old")
    send(stack, "a")
    register(stack, DAG("other", schedule=None), bundle="old")
    send(stack, "b")
    register(stack, DAG("dag", schedule=(A & B)), bundle="new")
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]}]
    require_sound()


def test_events_wait_while_the_file_is_broken(stack: LocalStack) -> None:
    """A file that cannot be imported keeps its DAGs' events until it is mended."""
    register(stack, DAG("dag", schedule=A))
    broken = ParsedFile(
        "dags/objects.py", errors=[ImportProblem("dags/objects.py", 1, "no such name")]
    )
    with patch.object(Sandbox, "parse", lambda _: iter([broken])):
        registering.register(Push("objects", "0" * 64, next_push_number("objects")))
    stack.run_until_idle()
    send(stack, "a", "a")
    assert (taken(stack), stack.dag("dag").has_import_errors) == ([], True)
    register(stack, DAG("dag", schedule=A))
    assert taken(stack) == [{"a": [0, 2]}]
    require_sound()


@pytest.mark.parametrize("catchup", [True, False])
def test_new_version_keeps_half_a_condition(stack: LocalStack, catchup: bool) -> None:
    """A push that changes something else, such as a task, changes nothing about the events."""
    register(stack, DAG("dag", schedule=(A & B), catchup=catchup))
    send(stack, "a")
    changed = DAG("dag", schedule=(A & B), catchup=catchup)
    with changed:
        SparkTask("load", entry_point="jobs/load.py")
    register(stack, changed)
    assert stack.dag("dag").version == "000002"
    send(stack, "b")
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]}]
    require_sound()
