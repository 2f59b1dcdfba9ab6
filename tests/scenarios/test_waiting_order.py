"""Runs that wait for a slot, and others that are asked for while a slot is free."""

from collections.abc import Callable
from datetime import timedelta

from pendulum import datetime

from lamplighter import DAG
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)


def test_run_asked_for_later_does_not_overtake_one_that_waits(deploy: Deploy) -> None:
    """A slot that has just become free belongs to the run that waits, not to the next request."""
    stack = deploy(MIDNIGHT)
    store_dags([DAG("unscheduled", schedule=None, max_active_runs=1)])
    for run_id in ("first", "second"):
        create_manual_run("unscheduled", logical_date=None, run_id=run_id)
        stack.clock.advance(timedelta(seconds=1))

    # The message that hands the slot over is on its way, and not delivered yet.
    finish_run("unscheduled", "~first", state="success")
    create_manual_run("unscheduled", logical_date=None, run_id="third")
    require_sound(is_idle=False)
    stack.run_until_idle()

    assert stack.dag("unscheduled").active == {"~second"}
    require_sound()
    finish_run("unscheduled", "~second", state="success")
    stack.run_until_idle()
    assert stack.dag("unscheduled").active == {"~third"}
    require_sound()
