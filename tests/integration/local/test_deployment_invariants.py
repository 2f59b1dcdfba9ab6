"""The checker of promises about what goes on by itself: runs that wait for their past, pushes."""

from collections.abc import Iterator

import pytest

from lamplighter import DAG, SparkTask
from lamplighter.store.models import Dags, Runs, Steps
from tests.integration.local.planted import NINE, NOON, own, plant, pretend_ticks, run_at, stuck
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.invariants.tables import violations


def test_pushed_timetable_is_judged_from_where_it_began() -> None:
    """Runs of the timetable before a push are no concern of the one after it; later ones are."""
    with LocalDeployment([own()], at=NOON) as lamp:
        lamp.push([own(hours=2)])
        lamp.advance(hours=6)
        assert len(lamp.runs("own")) == 6
        lamp.check_invariants()

        newest = max(Runs.query("own"), key=lambda run: run.run_after)
        plant(newest, data_interval_end=newest.run_after.add(hours=22))
        with pytest.raises(AssertionError, match="the interval of run"):
            lamp.check_invariants()


# Runs that wait for their past.


@pytest.fixture(name="lamp")
def make_lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment whose run of ten waits for that of nine, which has failed."""
    dag = DAG("past", schedule="0 * * * *", start_date=NINE)
    SparkTask("load", dag=dag, job="jobs:run", depends_on_past=True)
    with LocalDeployment([dag], at=NINE.add(seconds=5)) as lamp:
        lamp.fail_next("past", "load")
        lamp.advance(to=NINE.at(11, 5))
        yield lamp


def give_the_slot_back(lamp: LocalDeployment) -> Runs:
    """Let the run of ten be one that gave its slot back, and whose time to wake is now."""
    run = run_at(10, "past")
    plant(Dags("past"), active=None, waiting_for_past={run.run_key})
    plant(run, wake_at=lamp.now)
    return run


def let_the_past_be_over(state: str) -> None:
    """Let the step that is waited for be in this state."""
    plant(Steps(f"past|{run_at(9, 'past').run_key}", "load"), state=state)
    plant(run_at(9, "past"), reason="a person said so")


def test_run_that_waits_for_a_failed_past_is_sound(lamp: LocalDeployment) -> None:
    """While the past is not a success, a run that has given its slot back rightly waits."""
    give_the_slot_back(lamp)
    pretend_ticks(lamp.stack, minutes=30)
    assert [text for text in violations() if "waits for its past" in text] == []


@pytest.mark.parametrize("state", ["success", "skipped"])
def test_run_that_waits_for_a_past_that_is_over_is_found(lamp: LocalDeployment, state: str) -> None:
    """When the past is over and the time to wake has long come, someone must have looked."""
    run = give_the_slot_back(lamp)
    let_the_past_be_over(state)
    pretend_ticks(lamp.stack, minutes=10)
    assert stuck("past") == []
    pretend_ticks(lamp.stack, minutes=10)
    expected = f"DAG past: run {run.run_key} waits for its past, which is over for ['load']"
    assert any(text.startswith(expected) for text in stuck("past"))
    assert not any("waits for its past" in text for text in violations(is_idle=False))


def test_run_that_waits_for_its_past_in_a_slot_is_found(lamp: LocalDeployment) -> None:
    """A run that gave its slot back neither occupies one nor waits for one."""
    run = run_at(10, "past")
    plant(Dags("past"), waiting_for_past={run.run_key}, active={run.run_key})
    expected = f"DAG past: waits for its past, and has a slot or waits for one: ['{run.run_key}']"
    assert expected in violations()


def test_run_that_is_over_and_waits_for_its_past_is_found(lamp: LocalDeployment) -> None:
    """Only a run that is not over can wait for anything."""
    key = run_at(9, "past").run_key
    plant(Dags("past"), waiting_for_past={key})
    assert f"DAG past: no living run waits: ['{key}']" in violations()
