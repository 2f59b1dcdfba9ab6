"""The checker of promises about schedules and slots finds what is broken, and nothing else."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from lamplighter import DAG
from lamplighter.store.models import Dags
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.trigger import create_manual_run
from tests.integration.local.planted import (
    NINE,
    NOON,
    Every,
    own,
    plant,
    pretend_ticks,
    run_at,
    stuck,
)
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot


@pytest.fixture(name="sound", scope="module")
def make_sound() -> Iterator[Snapshot]:
    """Yield a deployment that has created all runs since nine."""
    with local_stack(at=NOON) as stack:
        stack.push_dags(
            [own(), DAG("latest", schedule=Every(), start_date=NINE, catchup=False)],
            bundle="objects",
        )
        stack.push_dags([DAG("unscheduled", max_active_runs=1)], bundle="other")
        stack.advance(hours=3)
        yield Snapshot(stack)


@pytest.fixture(name="stack")
def put_back(sound: Snapshot) -> LocalStack:
    """Return the deployment as it was."""
    return sound.put_back()


# Holes and overlaps in authors' schedules.


def test_schedules_of_authors_without_faults_are_sound(stack: LocalStack) -> None:
    """Each interval of an author's timetable has its run, and the next one is the next."""
    assert [run.run_after.hour for run in stack.runs("own")] == [10, 11, 12, 13, 14, 15]
    assert violations() == []


BROKEN: dict[str, tuple[Callable[[], object], str]] = {
    "hole": (
        lambda: run_at(11).delete(),
        "DAG own: no run for 2026-01-05 11:00:00+00:00, though the schedule has passed it",
    ),
    "overlap": (
        lambda: plant(run_at(11), data_interval_end=NINE.at(14)),
        "DAG own: the interval of run 2026-01-05T11:00:00+00:00 ends at 2026-01-05 14:00:00+00:00",
    ),
    "next run too late": (
        lambda: plant(Dags("own"), next_run_after=NINE.at(20)),
        "DAG own: its next run should be",
    ),
    "position moved past a run": (
        lambda: plant(
            Dags("own"),
            last_run_after=NINE.at(17),
            last_interval_start=NINE.at(16),
            last_interval_end=NINE.at(17),
        ),
        "DAG own: no run for 2026-01-05 15:00:00+00:00, though the schedule has passed it",
    ),
    "older interval of a DAG that wants the newest": (
        lambda: plant(run_at(13, "latest"), created_at=NINE.at(20)),
        "DAG latest: run 2026-01-05T13:00:00+00:00 was created though",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_schedule_of_an_author_is_found(name: str, stack: LocalStack) -> None:
    """A hole, an overlap and a position in the wrong place are named with their DAG."""
    break_it, expected = BROKEN[name]
    break_it()
    assert [text for text in violations() if text.startswith(expected)] != []


def test_timetable_that_cannot_be_asked_is_not_judged(stack: LocalStack) -> None:
    """Where the bundle of a DAG is gone, nobody knows what its schedule should have been."""
    plant(Dags("own"), bundle_version="0" * 64)
    run_at(11).delete()
    assert [text for text in violations() if "no run for" in text] == []


# Runs that wait although they could go on.


def wait_for_a_slot(stack: LocalStack) -> Dags:
    """Ask for two runs where one is allowed, let all come to rest, and return the DAG's row."""
    for run_id in ("first", "second"):
        create_manual_run("unscheduled", logical_date=None, run_id=run_id)
    stack.run_until_idle()
    return stack.dag("unscheduled")


def test_run_that_waits_for_an_occupied_slot_is_sound(stack: LocalStack) -> None:
    """However long a run waits, nothing is wrong while all slots are taken."""
    wait_for_a_slot(stack)
    stack.advance(hours=5)
    assert violations() == []


def test_run_that_waits_while_nobody_will_look_is_found(stack: LocalStack) -> None:
    """A free slot, a run that waits for it, and a DAG outside the index: nothing will happen."""
    row = wait_for_a_slot(stack)
    plant(row, max_active_runs=2)
    assert "DAG unscheduled: ['~second'] wait for a slot, 1 are free, and nobody will look" in (
        stuck("unscheduled")
    )
    assert not any("nobody will look" in text for text in violations(is_idle=False))


def test_run_that_waits_in_the_index_without_progress_is_found(stack: LocalStack) -> None:
    """A DAG that ticks see with a free slot, and that does not move for long, is stuck."""
    row = wait_for_a_slot(stack)
    plant(row, max_active_runs=2, due_shard=3, next_run_create_after=stack.clock.now())
    since = stack.clock.now()
    pretend_ticks(stack, minutes=10)
    assert not any("it has been due since" in text for text in stuck("unscheduled"))
    pretend_ticks(stack, minutes=10)
    expected = f"DAG unscheduled: it has been due since {since} with 1 free slots"
    assert any(text.startswith(expected) for text in stuck("unscheduled"))


def test_overdue_dag_in_an_outage_is_sound(stack: LocalStack) -> None:
    """While no timer fires, nobody expects a DAG to move."""
    stack.clock.advance(timedelta(hours=5))
    assert violations() == []


def test_overdue_dag_without_a_tick_that_helps_is_found(stack: LocalStack) -> None:
    """A schedule that stays where it is while ticks come and go is stuck."""
    pretend_ticks(stack, minutes=90)
    assert any("it has been due since" in text for text in stuck("own"))
