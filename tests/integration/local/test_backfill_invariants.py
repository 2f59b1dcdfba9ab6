"""The checker of promises about backfills finds each that is broken, and no other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.backfill.plan import Request
from lamplighter.store.backfills import read_backfill
from lamplighter.store.models import Backfills, Runs
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations import repair as backfill_slots
from lamplighter_operations.backfills import create_backfill
from lamplighter_operations.repair import BackfillDrift, find_drift
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound, violations
from tests.tools.snapshot import Snapshot

NOON = datetime(2026, 1, 5, 12, 0, 5)
FIRST, SECOND, THIRD, FOURTH = (f"2026-01-0{day}T00:00:00+00:00" for day in (1, 2, 3, 4))


@pytest.fixture(name="sound", scope="module")
def make_sound() -> Iterator[Snapshot]:
    """Yield a deployment with a backfill of four days: one is over, two live, one is to come."""
    with local_stack(at=NOON) as stack:
        register_dags(DAG("dag", schedule="@daily", start_date=datetime(2026, 1, 5)))
        start = datetime(2026, 1, 1)
        create_backfill(Request("dag", start, start.add(days=4), max_active_runs=2))
        stack.run_until_idle()
        finish_run("dag", FIRST, state="success")
        stack.run_until_idle()
        yield Snapshot(stack)


@pytest.fixture(name="stack")
def put_back(sound: Snapshot) -> LocalStack:
    """Return the deployment as it was."""
    return sound.put_back()


def backfill(**columns: Any) -> None:
    """Let the backfill's row say something else."""
    row = Backfills.get("dag-1")
    for name, value in columns.items():
        setattr(row, name, value)
    row.save()


def run(key: str, **columns: Any) -> None:
    """Let a run's row say something else."""
    row = Runs.get("dag", key)
    for name, value in columns.items():
        setattr(row, name, value)
    row.save()


def add_run(key: str) -> None:
    """Add a run of the backfill that is a copy of another one."""
    row = Runs.get("dag", FIRST)
    row.run_key = key
    row.save()


def test_backfill_under_way_is_sound(stack: LocalStack) -> None:
    """Nothing is wrong with it, nor with the slots of its DAG."""
    row = read_backfill("dag-1")
    assert row is not None
    assert (row.position, row.active) == (3, {SECOND, THIRD})
    require_sound()
    assert find_drift() == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda: backfill(active={SECOND}), "its slots are of"),
        (lambda: backfill(active={FIRST, SECOND, THIRD}), "where 2 are allowed"),
        (lambda: run(FIRST, slot_backfill_id="dag-1"), "runs that are over have slots"),
        (lambda: run(SECOND, slot_backfill_id="dag-9"), "has a slot of no backfill dag-9"),
        (lambda: backfill(position=4), "no run for 2026-01-04"),
        (lambda: backfill(position=2), "runs whose turn it never was"),
        (lambda: backfill(succeeded=2), "3 dates had their turn, of which 2 are over"),
        (lambda: run(SECOND, backfill_ordinal=1), "and was planned as 2"),
        (lambda: run(FIRST, backfill_id=None), "was not passed over"),
        (lambda: add_run(FOURTH), "runs whose turn it never was"),
        (lambda: backfill(state="completed"), "not everything is over"),
        (lambda: backfill(max_active_runs=3), "the index says otherwise"),
        (lambda: backfill(due_shard=0, next_run_create_after=NOON), "the index says otherwise"),
        (lambda: backfill(total=3, position=3, active=None), "everything is over, and it is"),
    ],
)
def test_each_damage_is_found(stack: LocalStack, damage: Callable[[], None], words: str) -> None:
    """Whatever is wrong with a backfill, or its runs, is said."""
    damage()
    assert [text for text in violations() if words in text]


def test_doctor_frees_slots_of_runs_that_are_gone(stack: LocalStack) -> None:
    """A run that was deleted by hand no longer holds up its backfill, which goes on."""
    assert backfill_slots.find_backfill_drift() == []
    Runs("dag", SECOND).delete()
    (drift,) = backfill_slots.find_backfill_drift()
    assert drift == BackfillDrift("dag-1", (SECOND,))
    assert backfill_slots.repair_backfill(drift) == drift
    assert backfill_slots.repair_backfill(drift) is None
    stack.run_until_idle()
    row = read_backfill("dag-1")
    assert row is not None
    assert (row.active, row.cancelled) == ({THIRD, FOURTH}, 1)
