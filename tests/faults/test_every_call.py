"""A crash, a lost answer, a throttle or a conflict at every single call, and then a second try.

Each scenario runs once to learn how many calls it makes. Then it runs again for every call and
every fault, with that fault at that call; after it the platform does what it always does: the same
message or command comes again, the timer fires a minute later. Then the tables must be sound and
what was asked for must have happened.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from pendulum import datetime
from pynamodb.exceptions import PynamoDBException

from lamplighter import DAG, aws
from lamplighter.errors import RefusedError, TransientError
from lamplighter.store.rows import connection
from lamplighter_local.emulator.moto_memory import queues
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.trigger import create_manual_run
from tests.faults.reports import Report, each
from tests.tools.definitions import store_dags
from tests.tools.faults import Crash, Faults, crash_points
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot

MIDNIGHT = datetime(2026, 1, 1)
FIVE_PAST = MIDNIGHT.add(seconds=5)
OF_SERVICES = (PynamoDBException, BotoCoreError, ClientError)


@dataclass(frozen=True)
class Scenario:
    """What is done under faults, what was there before, and what must be true in the end."""

    dags: tuple[DAG, ...]
    act: Callable[[LocalStack], object]
    outcome: Callable[[LocalStack], object]
    expected: object
    arrange: Callable[[LocalStack], object] = lambda _: None


def hourly(dag_id: str, *, ended: int = 1, **arguments: Any) -> DAG:
    """Return an hourly DAG of which so many intervals have ended at midnight."""
    start = MIDNIGHT.subtract(hours=ended)
    return DAG(dag_id, schedule="0 * * * *", start_date=start, **arguments)


def states(*dag_ids: str) -> Callable[[LocalStack], list[list[str]]]:
    """Return a function that tells the states of the DAGs' runs, oldest first."""
    return lambda stack: [[run.state for run in stack.runs(dag_id)] for dag_id in dag_ids]


def first_key(stack: LocalStack) -> str:
    """Return the key of the oldest run."""
    return stack.runs("backlog")[0].run_key


def ask_once(_: LocalStack) -> None:
    """Ask for a run by hand; when one asks again, it may be there already."""
    with suppress(RefusedError):
        create_manual_run("single", logical_date=MIDNIGHT.subtract(hours=7))


def pause_for_hours(stack: LocalStack) -> None:
    """Pause, and let five intervals pass."""
    pause("latest")
    stack.clock.advance(timedelta(hours=5))


def tick_and_deliver(stack: LocalStack) -> None:
    """Fill all slots."""
    stack.tick()
    stack.run_until_idle()


def wait_for_a_slot(stack: LocalStack) -> None:
    """Fill the one slot, and let two runs wait."""
    stack.tick()
    for run_id in ("first", "second"):
        create_manual_run("single", logical_date=None, run_id=run_id)
        stack.clock.advance(timedelta(seconds=1))
    finish_run("single", stack.runs("single")[0].run_key, state="success")


BACKLOG = hourly("backlog", ended=4, max_active_runs=2)
SINGLE = hourly("single", max_active_runs=1)
LATEST = hourly("latest", ended=30, catchup=False)

SCENARIOS = {
    "tick": Scenario(
        dags=(BACKLOG, SINGLE, LATEST),
        act=lambda stack: stack.tick(),
        outcome=states("backlog", "single", "latest"),
        expected=[["queued"] * 2, ["queued"], ["queued"]],
    ),
    "tick with a date taken": Scenario(
        dags=(BACKLOG, SINGLE),
        arrange=lambda _: create_manual_run("backlog", logical_date=MIDNIGHT.subtract(hours=4)),
        act=lambda stack: stack.tick(),
        outcome=states("backlog", "single"),
        expected=[["queued"] * 2, ["queued"]],
    ),
    "release": Scenario(
        dags=(SINGLE,),
        arrange=wait_for_a_slot,
        act=lambda stack: stack.tick(),
        outcome=lambda stack: (stack.dag("single").active, len(stack.dag("single").waiting or ())),
        expected=({"~first"}, 1),
    ),
    "manual": Scenario(
        dags=(SINGLE,),
        act=ask_once,
        outcome=lambda stack: [run.run_type for run in stack.runs("single")],
        expected=["manual"],
    ),
    "pause": Scenario(
        dags=(BACKLOG,),
        act=lambda _: pause("backlog"),
        outcome=lambda stack: (stack.dag("backlog").is_paused, stack.runs("backlog")),
        expected=(True, []),
    ),
    "unpause": Scenario(
        dags=(LATEST,),
        arrange=pause_for_hours,
        act=lambda _: unpause("latest"),
        outcome=lambda stack: [run.run_after for run in stack.runs("latest")],
        expected=[MIDNIGHT.add(hours=5)],
    ),
    "finish": Scenario(
        dags=(BACKLOG,),
        arrange=tick_and_deliver,
        act=lambda stack: finish_run("backlog", first_key(stack), state="success"),
        outcome=states("backlog"),
        expected=[["success", "queued", "queued"]],
    ),
    "finish by failing": Scenario(
        dags=(hourly("backlog", ended=4, max_active_runs=2, max_consecutive_failed_dag_runs=1),),
        arrange=tick_and_deliver,
        act=lambda stack: finish_run("backlog", first_key(stack), state="failed"),
        outcome=states("backlog"),
        expected=[["failed", "queued"]],
    ),
}


@contextmanager
def emulator(scenario: Scenario) -> Iterator[Snapshot]:
    """Make a deployment on one shard, in which the scenario can begin."""
    with local_stack(at=FIVE_PAST) as stack:
        made = replace(stack.settings, due_shards=1)
        stack.settings = made
        store_dags(scenario.dags)
        scenario.arrange(stack)
        yield Snapshot(stack)


def try_with(faults: Faults, scenario: Scenario, stack: LocalStack) -> None:
    """Do it once under faults; only errors that a service could have caused may come of it."""
    clients = (connection().client, aws.client("sqs"))
    with (
        faults.on(*clients),
        suppress(Crash, TransientError, *OF_SERVICES),
        warnings.catch_warnings(),
    ):
        # Powertools warns that a handler which died has no metrics, and so hides why it died.
        warnings.filterwarnings("ignore", message="No application metrics")
        scenario.act(stack)
        stack.run_until_idle()


def deliver_again(scenario: Scenario, stack: LocalStack) -> None:
    """Do what the platform does after a failure: the same again, and a minute later a tick."""
    scenario.act(stack)
    # What a dead process had received becomes visible again.
    stack.clock.advance(timedelta(minutes=5))
    stack.run_until_idle()
    stack.tick()
    stack.run_until_idle()


def wrong_after(faults: Faults, scenario: Scenario, stack: LocalStack) -> list[str]:
    """Return what is wrong in the end, each with the fault that led to it."""
    found = [*violations()]
    if (outcome := scenario.outcome(stack)) != scenario.expected:
        found.append(f"got {outcome} instead of {scenario.expected}")
    return [f"{faults.injected}: {text}" for text in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_fault_at_every_call_leaves_tables_sound(name: str, report: Report) -> None:
    """Whatever fails at whichever call, the second try makes good and nothing happens twice."""
    scenario = SCENARIOS[name]
    wrong: list[str] = []
    with emulator(scenario) as emulated:
        counted = Faults()
        try_with(counted, scenario, emulated.put_back())
        assert wrong_after(counted, scenario, emulated.stack) == []
        points = list(crash_points(counted.calls))
        for kind, number in each(points):
            faults = Faults()
            faults.at(number, kind)
            stack = emulated.put_back()
            try:
                try_with(faults, scenario, stack)
            except Exception as error:  # noqa: BLE001 - all of them are listed in the end
                wrong.append(f"{faults.injected} became {error!r}")
            # Someone has just died: what is due is done by whoever comes next.
            now = violations(is_idle=False)
            wrong += [f"at once, {faults.injected}: {text}" for text in now]
            deliver_again(scenario, stack)
            wrong += wrong_after(faults, scenario, stack)
            assert not faults.pending
    report(name, len(points), wrong)


def test_lost_answer_of_a_claim_still_sends_its_run() -> None:
    """A claim that was committed unheard is recognized, and its run is handed on at once."""
    scenario = SCENARIOS["tick"]
    with emulator(scenario) as emulated:
        stack = emulated.put_back()
        faults = Faults()
        faults.at(1, "lost-answer", "TransactWriteItems")
        try_with(faults, scenario, stack)

        keys = [run.run_key for dag in scenario.dags for run in stack.runs(dag.dag_id)]
        assert [key for key in keys if key not in submits()] == []


def test_lost_answer_of_a_release_still_sends_its_run() -> None:
    """A release that was committed unheard is recognized, and its run is handed on at once."""
    scenario = SCENARIOS["release"]
    with emulator(scenario) as emulated:
        stack = emulated.put_back()
        faults = Faults()
        faults.at(1, "lost-answer", "TransactWriteItems")
        try_with(faults, scenario, stack)

        assert stack.dag("single").active == {"~first"}
        assert "~first" in submits()


def submits() -> str:
    """Return the bodies of all messages that ask for a run to be moved on."""
    (queue,) = [queue for queue in queues() if queue.name.endswith("-submits")]
    return "".join(message.body for message in queue._messages)
