"""Start and end date of a DAG that waits for assets: which events cause runs, and which do not."""

from datetime import timedelta
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, Asset
from lamplighter.events.lineage import trace_event
from lamplighter.store.models import AssetQueue
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.scenarios.acts import finish_one, register, send, taken
from tests.tools.invariants.tables import require_sound

A, B = Asset("a"), Asset("b")
ONE, TWO = datetime(2026, 1, 5, 13), datetime(2026, 1, 5, 14)


def dag(schedule: Any = A, **arguments: Any) -> DAG:
    """Return a DAG that waits for assets."""
    return DAG("dag", schedule=schedule, **arguments)


def dropped(asset: str) -> list[list[Any]]:
    """Return the ranges of an asset's events that were dropped, and why."""
    noted = AssetQueue.get("dag", asset, consistent_read=True).dropped or []
    return [[after, until, why] for after, until, _, why in noted]


def created(stack: LocalStack) -> list[DateTime]:
    """Return when the runs that events caused were created."""
    runs = sorted(stack.runs("dag"), key=lambda run: run.created_at)
    return [run.created_at for run in runs if run.run_type == "asset_triggered"]


def status(event_id: str) -> tuple[str, str]:
    """Return the status of an event for the DAG, and the reason."""
    (found,) = trace_event(event_id)
    (consumer,) = found.consumers
    return consumer.state, consumer.reason


# The start date.


def test_events_before_the_start_date_become_one_run_at_it(stack: LocalStack) -> None:
    """With catchup, what came before counts, and the DAG is due in the second of its start date."""
    register(stack, dag(A & B, start_date=ONE))
    send(stack, "a", "a", "b")
    stack.advance(minutes=30)
    assert taken(stack) == []
    assert stack.dag("dag").next_run_create_after == ONE
    stack.advance(minutes=30)
    assert taken(stack) == [{"a": [0, 2], "b": [0, 1]}]
    (at,) = created(stack)
    assert at - ONE < timedelta(seconds=1)
    send(stack, "a", "b")
    assert taken(stack)[1:] == [{"a": [2, 3], "b": [1, 2]}]
    require_sound()


def test_events_before_the_start_date_are_dropped_without_catchup(stack: LocalStack) -> None:
    """At the start date everything pending goes, also half a condition, and says why."""
    register(stack, dag(A & B, start_date=ONE, catchup=False))
    send(stack, "a", event_id="early")
    assert status("early") == (
        "pending", "until the start date 2026-01-05T13:00:00+00:00; dropped then"
    )  # fmt: skip
    send(stack, "b", "a")
    assert dropped("a") == []
    stack.advance(hours=1)
    assert dropped("a") == [[0, 2, "dropped before the start date"]]
    assert dropped("b") == [[0, 1, "dropped before the start date"]]
    assert status("early") == (
        "dropped", "dropped before the start date, at 2026-01-05T13:00:00+00:00"
    )  # fmt: skip
    send(stack, "b")
    assert taken(stack) == []
    send(stack, "a")
    assert taken(stack) == [{"a": [2, 3], "b": [1, 2]}]
    require_sound()


@pytest.mark.parametrize("is_kept", [True, False], ids=["catchup", "no catchup"])
def test_event_after_the_start_date_is_never_dropped(stack: LocalStack, is_kept: bool) -> None:
    """Nobody saw the start date; the first event after it is the first of its asset that counts."""
    register(stack, dag(A | B, start_date=ONE, catchup=is_kept))
    send(stack, "a")
    stack.clock.move(to=ONE.add(minutes=5))
    stack.emit("b")
    stack.run_until_idle()
    stack.advance(minutes=5)
    assert taken(stack) == [{"a": [0, 1], "b": [0, 1]} if is_kept else {"b": [0, 1]}]
    assert dropped("a") == ([] if is_kept else [[0, 1, "dropped before the start date"]])
    require_sound()


def test_start_date_that_is_pushed_earlier_begins_at_once(stack: LocalStack) -> None:
    """Events since the new start date count, those before it do not."""
    register(stack, dag(A | B, start_date=TWO, catchup=False))
    send(stack, "a")
    stack.advance(minutes=30)
    now = stack.clock.now()
    send(stack, "b")
    register(stack, dag(A | B, start_date=now, catchup=False))
    stack.advance(minutes=1)
    assert taken(stack) == [{"b": [0, 1]}]
    assert dropped("a") == [[0, 1, "dropped before the start date"]]
    require_sound()


def test_start_date_that_is_pushed_later_makes_events_wait_again(stack: LocalStack) -> None:
    """A DAG that had begun begins again, with what it has not consumed."""
    register(stack, dag())
    send(stack, "a")
    register(stack, dag(start_date=ONE))
    send(stack, "a")
    assert taken(stack) == [{"a": [0, 1]}]
    stack.advance(hours=1)
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 2]}]
    require_sound()


def test_start_date_during_a_pause_waits_for_its_end(stack: LocalStack) -> None:
    """A paused DAG does not begin; when it is unpaused, events from before the start count."""
    register(stack, dag(start_date=ONE))
    pause("dag")
    send(stack, "a")
    stack.advance(hours=2)
    assert taken(stack) == []
    unpause("dag")
    stack.advance(minutes=1)
    assert taken(stack) == [{"a": [0, 1]}]
    require_sound()


# The end date.


@pytest.mark.parametrize("catchup", [True, False])
def test_events_after_the_end_date_are_dropped(stack: LocalStack, catchup: bool) -> None:
    """An event up to the end date has its run, later ones are recorded as dropped."""
    register(stack, dag(end_date=ONE, catchup=catchup))
    stack.advance(to=ONE)
    stack.emit("a")
    stack.run_until_idle()
    send(stack, "a", event_id="late")
    send(stack, "a")
    assert taken(stack) == [{"a": [0, 1]}]
    assert dropped("a") == [
        [1, 2, "dropped after the end date"],
        [2, 3, "dropped after the end date"],
    ]
    assert status("late") == (
        "dropped", "dropped after the end date, at 2026-01-05T13:00:01+00:00"
    )  # fmt: skip
    assert stack.dag("dag").due_shard is None
    require_sound()


def test_run_that_is_owed_at_the_end_date_is_created_after_it(stack: LocalStack) -> None:
    """Events in time wait for a slot beyond the end date; what comes after them is over."""
    register(stack, dag(max_active_runs=1, end_date=ONE))
    send(stack, "a", "a")
    stack.advance(hours=1)
    finish_one(stack)
    stack.run_until_idle()
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 2]}]
    send(stack, "a")
    finish_one(stack)
    stack.advance(minutes=5)
    assert len(taken(stack)) == 2
    assert dropped("a") == [[2, 3, "dropped after the end date"]]
    require_sound()


@pytest.mark.parametrize("is_paused", [True, False], ids=["paused", "no slot"])
def test_run_that_is_owed_at_the_end_date_survives_later_events(
    stack: LocalStack, is_paused: bool
) -> None:
    """An event after the end date does not take the one in time with it."""
    register(stack, dag(max_active_runs=1, end_date=ONE))
    send(stack, "a")
    if is_paused:
        finish_one(stack)
        pause("dag")
    send(stack, "a", event_id="in time")
    stack.advance(hours=1)
    send(stack, "a")
    if is_paused:
        unpause("dag")
        stack.advance(minutes=1)
    else:
        finish_one(stack)
    assert status("in time") == ("consumed", "")
    assert len(taken(stack)) == 2
    require_sound()


def test_end_date_that_is_pushed_later_lets_events_count_again(stack: LocalStack) -> None:
    """Half a condition from before the old end date is completed before the new one."""
    register(stack, dag(A & B, end_date=ONE))
    send(stack, "a")
    stack.advance(hours=1)
    send(stack, "b")
    register(stack, dag(A & B, end_date=ONE.add(hours=2)))
    send(stack, "b")
    assert taken(stack) == [{"a": [0, 1], "b": [1, 2]}]
    assert dropped("b") == [[0, 1, "dropped after the end date"]]
    require_sound()


# Beside times.


def test_assets_or_time_has_both_parts_within_its_bounds(stack: LocalStack) -> None:
    """Neither events nor times cause runs before the start or after the end date."""
    hourly = CronDataIntervalTimetable("0 * * * *", "UTC")
    mixed = AssetOrTimeSchedule(timetable=hourly, assets=A)
    register(stack, dag(mixed, start_date=ONE, end_date=TWO))
    send(stack, "a")
    stack.advance(to=TWO.subtract(minutes=30))
    send(stack, "a")
    stack.advance(to=TWO.add(minutes=30))
    send(stack, "a")
    stack.advance(hours=3)

    runs = sorted(stack.runs("dag"), key=lambda run: run.created_at)
    assert [(run.run_type, run.created_at.hour, run.created_at.minute) for run in runs] == [
        ("asset_triggered", 13, 0),
        ("asset_triggered", 13, 30),
        ("scheduled", 14, 0),
        ("scheduled", 15, 0),
    ]
    assert dropped("a") == [[2, 3, "dropped after the end date"]]
    require_sound()
