"""The checker of promises about limits: what is held, who waits, and that nobody waits for ever."""

from collections.abc import Iterator
from typing import Any

import pytest

from lamplighter import DAG, SparkTask
from lamplighter.store.models import Limits, Runs, Steps
from lamplighter_local import table_checks
from tests.integration.local.planted import NINE, plant, pretend_ticks
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.invariants.tables import violations

POOL = Limits("pool:db")


@pytest.fixture(name="lamp")
def make_lamp() -> Iterator[LocalDeployment]:
    """Yield a deployment in which one step holds the only slot of a pool, and another waits."""
    dags = []
    for dag_id in ("holds", "waits"):
        with DAG(dag_id, schedule=None) as dag:
            SparkTask("step", job="jobs.any:run", pool="db")
        dags.append(dag)
    with LocalDeployment(dags, at=NINE) as lamp:
        lamp.set_pool("db", 1)
        lamp.takes("holds", "step", hours=1)
        for dag in dags:
            lamp.trigger(dag.dag_id)
            lamp.advance(seconds=5)
        lamp.check_invariants()
        yield lamp


def change_step(lamp: LocalDeployment, dag_id: str, **columns: Any) -> None:
    """Let the step of a DAG say something else."""
    plant(Steps(f"{dag_id}|{lamp.runs(dag_id)[-1].run_key}", "step"), **columns)


def found(words: str) -> bool:
    """Return whether the checks of users and of this project both say so."""
    checks = (table_checks.violations(), violations(is_idle=False))
    return all(any(words in text for text in check) for check in checks)


@pytest.mark.usefixtures("lamp")
def test_slot_that_nobody_holds_is_found() -> None:
    """What is missing from a pool must be with its steps."""
    plant(POOL, sizes={"slots": 2})
    assert found("pool:db: 0 slots are free and 1 are held, of 2")


@pytest.mark.usefixtures("lamp")
def test_pool_of_which_too_much_is_held_is_found() -> None:
    """Only a pool that was made smaller may be short."""
    plant(POOL, sizes={"slots": 0}, free_slots=-1)
    assert any("more is held" in text for text in violations(is_idle=False))
    assert violations(is_idle=False, lowered=[POOL.limit_id]) == []


def test_step_that_holds_a_slot_and_has_no_job_is_found(lamp: LocalDeployment) -> None:
    """Only a live step holds anything."""
    change_step(lamp, "waits", holds={"pool:db": {"slots": 1}})
    assert found("step step is scheduled and holds")


def test_step_that_waits_though_it_runs_is_found(lamp: LocalDeployment) -> None:
    """Only a scheduled step is in the index of those that wait."""
    change_step(lamp, "holds", waits_for="pool:db", waits_since=lamp.now)
    assert found("and waits for pool:db")


def test_step_that_waits_in_a_run_that_is_over_is_found(lamp: LocalDeployment) -> None:
    """Nobody would ever start it."""
    key = lamp.runs("waits")[-1].run_key
    plant(Runs("waits", key), state="cancelled")
    assert found("step step waits, but its run is over")


def test_step_that_waits_for_what_is_there_is_found(lamp: LocalDeployment) -> None:
    """There is room for who is next, and when its time to wake had come, nobody came."""
    plant(POOL, sizes={"slots": 2}, free_slots=1)
    plant(Runs("waits", lamp.runs("waits")[-1].run_key), wake_at=lamp.now)
    pretend_ticks(lamp.stack, minutes=10)
    assert violations() == []
    pretend_ticks(lamp.stack, minutes=10)
    assert any("is next and has room" in text for text in violations())
