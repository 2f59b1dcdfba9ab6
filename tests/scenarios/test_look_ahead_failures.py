"""A tick that fails or dies while it sends messages ahead: the next tick sends them."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.timetables.trigger import DeltaTriggerTimetable
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import store_dags
from tests.tools.faults import Kind
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

NOON = datetime(2026, 1, 5, 12)
# Between two ticks: only a message that was sent ahead brings a run in this second.
DUE = NOON.add(minutes=4, seconds=30)


def due_once() -> DAG:
    """Return a DAG that is due in four and a half minutes, and then for hours no more."""
    return DAG("once", schedule=DeltaTriggerTimetable(timedelta(hours=9)), start_date=DUE)


@pytest.mark.parametrize("kind", ["throttle", "lost-answer", "crash-before"])
def test_run_comes_on_its_second_after_a_tick_that_could_not_send(
    deploy: Deploy, kind: Kind
) -> None:
    """What one tick could not send ahead is sent by the next one, and the run is not late."""
    stack = deploy(NOON)
    store_dags([due_once()])
    faults = DeploymentFaults()
    with faults.injected_into(stack):
        faults.at(1, kind, "SendMessageBatch")
        stack.tick()
        assert len(faults.deaths) == 1

        stack.advance(to=NOON.add(minutes=10))

    assert faults.pending == []
    assert [run.created_at for run in stack.runs("once")] == [DUE]
    require_sound()
