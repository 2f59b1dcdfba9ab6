"""DynamoDB is out of reach for hours: nothing is lost, and after a day one replay restores all."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.events import dead_letters
from lamplighter.store.models import AssetEvents
from tests.tools.checked_deployment import LocalDeployment

NOON = datetime(2026, 1, 5, 12, 0, 5)
# Whatever our functions ask of DynamoDB.
TABLES = (
    "BatchGetItem",
    "BatchWriteItem",
    "DeleteItem",
    "GetItem",
    "PutItem",
    "Query",
    "Scan",
    "TransactGetItems",
    "TransactWriteItems",
    "UpdateItem",
)


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment at noon with one consumer, whose tables must be sound in the end."""
    with LocalDeployment([DAG("dag", schedule=Asset("orders"))], at=NOON) as made:
        made.advance(minutes=5)  # the push leaves a message behind that comes later
        yield made
        made.check_invariants()


@contextmanager
def outage(lamp: LocalDeployment) -> Iterator[None]:
    """Let DynamoDB refuse every call of every function until the block ends."""
    lamp.faults.probability(*TABLES, throttle=1)
    yield
    lamp.faults.stop()


def recorded(asset: str = "orders") -> list[str]:
    """Return the ids of an asset's events in the order of their numbers."""
    rows = AssetEvents.query(asset, consistent_read=True)
    return [row.event_id for row in sorted(rows, key=lambda row: row.seq)]


def consumed(lamp: LocalDeployment) -> list[list[int]]:
    """Return the ranges of events that runs have consumed, in order."""
    return sorted(run.events["orders"] for run in lamp.stack.runs("dag") if run.events)


def replay_all(lamp: LocalDeployment) -> int:
    """Send all dead letters again, as `lamplighter dlq replay --all` does."""
    letters = dead_letters.dead_letters(limit=1_000)
    for letter in letters:
        dead_letters.replay(letter)
    lamp.run_until_idle()
    return len(letters)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hours", "lane"),
    [
        (1.5, None),
        (1.5, "north"),
        (20, None),
        pytest.param(20, "north", marks=pytest.mark.full),
    ],
)
def test_events_of_an_outage_are_recorded_when_it_is_over(
    lamp: LocalDeployment, hours: float, lane: str | None
) -> None:
    """Events from before and during it wait on their queue, and none becomes a dead letter."""
    lamp.emit("orders", event_id="before", lane=lane)
    with outage(lamp):
        lamp.advance(hours=hours / 2)
        lamp.emit("orders", event_id="during", lane=lane)
        lamp.advance(hours=hours / 2)
        assert recorded() == []
    lamp.advance(hours=1)
    assert lamp.dead_letters() == []
    assert sorted(recorded()) == ["before", "during"]
    if lane is not None:
        assert recorded() == ["before", "during"]
    assert consumed(lamp)[0][0] == 0
    assert consumed(lamp)[-1][1] == 2


@pytest.mark.slow
@pytest.mark.parametrize("lane", [pytest.param(None, marks=pytest.mark.full), "north"])
def test_events_of_a_day_long_outage_are_restored_by_one_replay(
    lamp: LocalDeployment, lane: str | None
) -> None:
    """After a day they are dead letters, which hold up nobody; sent again, all are recorded."""
    # As many as come together: of a lane, the next ones come when these are gone.
    names = [f"e{at:02}" for at in range(10)]
    with outage(lamp):
        for name in names:
            lamp.emit("orders", event_id=name, lane=lane)
        lamp.advance(hours=26)
        assert {one.body for one in lamp.dead_letters()} == {
            f'{{"asset": "orders", "event_id": "{name}"}}' for name in names
        }
        assert all("24 hours" in one.reason for one in lamp.dead_letters())
    lamp.emit("orders", event_id="after", lane=lane)
    lamp.run_until_idle()
    assert recorded() == ["after"]
    lamp.advance(seconds=1)
    assert replay_all(lamp) == len(names)
    assert sorted(recorded()[1:]) == names
    if lane is not None:
        assert recorded()[1:] == names
    assert lamp.dead_letters() == []
    assert consumed(lamp)[-1][1] == len(names) + 1


@pytest.mark.slow
def test_replayed_event_is_not_given_up_at_once(lamp: LocalDeployment) -> None:
    """A replay is a new message with a day of its own, under the id that it had."""
    with outage(lamp):
        lamp.emit("orders", event_id="e")
        lamp.advance(hours=26)
        (letter,) = lamp.dead_letters()
        lamp.advance(seconds=1)
        (letter,) = dead_letters.dead_letters(limit=10)
        dead_letters.replay(letter)
        lamp.advance(hours=12)
        assert lamp.dead_letters() == []
    lamp.advance(hours=1)
    assert recorded() == ["e"]


@pytest.mark.slow
def test_late_events_of_a_lane_do_not_die_with_the_old_ones(lamp: LocalDeployment) -> None:
    """Each message has a day of its own; order is kept among those that are recorded."""
    with outage(lamp):
        lamp.emit("orders", event_id="old", lane="north")
        lamp.advance(hours=20)
        lamp.emit("orders", event_id="young", lane="north")
        lamp.emit("orders", event_id="younger", lane="north")
        lamp.advance(hours=6)
        assert len(lamp.dead_letters()) == 1
    lamp.advance(hours=1)
    assert recorded() == ["young", "younger"]


# Messages between functions.


@pytest.mark.slow
@pytest.mark.parametrize(
    "hours",
    [
        1.5,
        pytest.param(20, marks=pytest.mark.full),
        pytest.param(26, marks=pytest.mark.full),
    ],
)
def test_runs_of_an_outage_finish_when_it_is_over(hours: float) -> None:
    """Rows remember what messages on `claims`, `submits` and `jobstates` ask for."""
    with DAG("hourly", schedule="0 * * * *", start_date=NOON, max_active_runs=3) as dag:
        SparkTask("first", job="jobs:first") >> SparkTask("second", job="jobs:second")
    with LocalDeployment([dag], at=NOON) as lamp:
        lamp.takes("hourly", "first", minutes=10)
        lamp.advance(to=datetime(2026, 1, 5, 14, 5))
        assert [run.state for run in lamp.runs("hourly")] == ["running"]
        lamp.trigger("hourly", logical_date=datetime(2026, 1, 1))
        with outage(lamp):
            lamp.advance(hours=hours)
        lamp.advance(hours=12)
        runs = lamp.runs("hourly")
        expected = int((lamp.now - datetime(2026, 1, 5, 13)).total_hours()) + 1
        assert len(runs) >= expected
        assert {run.state for run in runs[:-2]} == {"success"}
        lamp.check_invariants()
