"""Functions that die and messages that come twice: nothing is lost, and nothing doubled."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetWatcher, SparkTask
from lamplighter.errors import RefusedError
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.faults import Kind
from tests.unit.streams.scripted import Scripted

START = datetime(2026, 1, 1)
CRASHES: tuple[Kind, ...] = ("crash-before", "crash-after", "lost-answer")


def pipeline() -> list[DAG]:
    """Return an hourly DAG that makes an asset, and one that uses it."""
    made = Asset("made")
    with DAG("make", schedule="0 * * * *", start_date=START) as make:
        SparkTask("load", entry_point="jobs/load.py", outlets=[made])
    with DAG("use", schedule=[made]) as use:
        SparkTask("read", entry_point="jobs/read.py")
    return [make, use]


@pytest.fixture(name="lamp")
def open_deployment() -> Iterator[LocalDeployment]:
    """Return a deployment with both DAGs at the start of a year."""
    with LocalDeployment(pipeline(), at=START) as lamp:
        yield lamp


def require_each_once(lamp: LocalDeployment, *, hours: int) -> None:
    """Check that every hour was made once, and every event used once."""
    made, used = lamp.runs("make"), lamp.runs("use")
    assert [run.logical_date for run in made] == [START.add(hours=hour) for hour in range(hours)]
    assert {run.state for run in (*made, *used)} == {"success"}
    events = sorted(event.seq for run in used for event in run.events)
    assert events == list(range(1, hours + 1))
    assert isinstance(lamp.executor, FakeEmr)
    assert len(lamp.executor.jobs) == len(made) + len(used)
    assert lamp.faults.pending == []
    lamp.check_invariants()


def test_crash_in_the_middle_of_a_claim_leaves_each_hour_one_run(lamp: LocalDeployment) -> None:
    """Claims die before or after their transaction, or never hear of it; the next finds out."""
    for kind in CRASHES:
        lamp.faults.at(1, kind, "TransactWriteItems")
        lamp.advance(hours=1)
    lamp.advance(minutes=9)
    assert len(lamp.faults.injected) == len(CRASHES)
    require_each_once(lamp, hours=3)


def test_crash_in_the_middle_of_a_submit_leaves_each_step_one_job(lamp: LocalDeployment) -> None:
    """A job that was started by a function that died is found, and not started again."""
    for kind in CRASHES:
        lamp.faults.at(1, kind, "StartJobRun")
        lamp.advance(hours=1)
    lamp.advance(minutes=9)
    assert lamp.faults.deaths == [f"submit: {kind} StartJobRun" for kind in CRASHES[:2]]
    require_each_once(lamp, hours=3)


def test_batches_that_come_twice_change_nothing(lamp: LocalDeployment) -> None:
    """Every function gets its next two batches twice, and the history is the same."""
    for function in ("tick", "claim", "submit", "settle", "ingest", "register", "sweep"):
        lamp.faults.duplicate(function, times=2)
    lamp.push(pipeline())
    # It wakes by itself only for what was left behind.
    lamp.stack.sweep()
    lamp.stack.sweep()
    lamp.push(pipeline())
    lamp.advance(hours=2, minutes=1)
    require_each_once(lamp, hours=2)


def test_event_batch_that_comes_twice_is_recorded_once(lamp: LocalDeployment) -> None:
    """Twenty events in two batches, each delivered twice, have twenty numbers and one consumer."""
    lamp.faults.duplicate("ingest", times=2)
    for number in range(20):
        lamp.emit("made", event_id=f"e{number}")
    lamp.run_until_idle()
    events = [event for run in lamp.runs("use") for event in run.events]
    assert sorted(event.event_id for event in events) == sorted(f"e{n}" for n in range(20))
    assert sorted(event.seq for event in events) == list(range(1, 21))
    lamp.check_invariants()


@pytest.mark.parametrize("kind", ["crash-before", "crash-after"])
def test_function_that_dies_in_an_event_loop_is_dead(kind: Kind) -> None:
    """None of its tasks calls anything any more, nobody hears an answer, and all comes again."""
    asset = Asset("a", watchers=[AssetWatcher("w", Scripted(script={"else": "1"}))])
    with LocalDeployment([DAG("use", schedule=[asset])], at=START) as lamp:
        lamp.faults.at(1, kind, "SendMessageBatch")
        lamp.send("raw", {"name": "m1"})
        lamp.run_until_idle()
        assert lamp.faults.deaths == [f"watch: {kind} SendMessageBatch"]
        lamp.advance(minutes=5)
        assert [event.extra["payload"] for run in lamp.runs("use") for event in run.events] == [
            "m1.0"
        ]


def test_faults_strike_functions_and_not_the_test(lamp: LocalDeployment) -> None:
    """What the test does itself goes through, whatever is planned."""
    lamp.faults.probability(crash_before=1)
    lamp.emit("made", event_id="mine")
    lamp.trigger("make", logical_date="2025-01-01")
    assert [run.run_type for run in lamp.runs("make")] == ["manual"]
    assert lamp.faults.deaths == []
    lamp.run_until_idle()
    assert {death.partition(":")[0] for death in lamp.faults.deaths} >= {"ingest", "submit"}


def test_storm_of_faults_loses_nothing(lamp: LocalDeployment) -> None:
    """With chances of everything at once, three hours come out as they should, only later."""
    lamp.faults.probability(crash_before=0.03, crash_after=0.03, lost_answer=0.03, throttle=0.05)
    lamp.advance(hours=3, minutes=1)
    lamp.faults.stop()
    lamp.advance(minutes=58)
    assert len(lamp.faults.injected) > 5
    require_each_once(lamp, hours=3)


def test_error_is_a_death_only_if_a_fault_caused_it(lamp: LocalDeployment) -> None:
    """A tick that cannot cope with a throttle is taken for dead; a bug of ours reaches the test."""
    lamp.faults.at(1, "throttle", "GetItem")
    lamp.advance(hours=1)
    assert [death.partition(":")[0] for death in lamp.faults.deaths] == ["tick"]
    with (
        patch.object(handlers, "handler_of", side_effect=ZeroDivisionError),
        pytest.raises(ZeroDivisionError),
    ):
        lamp.advance(hours=1)


def test_unknown_function_is_refused_by_name(lamp: LocalDeployment) -> None:
    """A duplicate of a function that does not exist would wait for ever."""
    with pytest.raises(RefusedError, match=r"there is no function 'ingets' .*claim, ingest"):
        lamp.faults.duplicate("ingets")


def test_duplicate_that_has_not_come_is_pending(lamp: LocalDeployment) -> None:
    """What was planned is told until it has happened."""
    lamp.faults.duplicate("tick", times=2)
    lamp.faults.at(7, "throttle", "GetItem")
    assert lamp.faults.pending == ["7 throttle", "duplicate tick", "duplicate tick"]
