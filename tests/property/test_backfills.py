"""Backfills under whatever people do, in any order, with functions that die: the promises hold."""

import random
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.errors import RefusedError
from lamplighter_operations.runs import cancel_run, clear_run, retry_run
from tests.tools.checked_deployment import LocalDeployment

NOW = datetime(2026, 1, 5, 0, 0, 5)
CATCHING_UP = datetime(2026, 1, 4, 12)


def make_dag(schedule: str = "0 * * * *") -> DAG:
    """Return a DAG of two steps that owes half a day."""
    dag = DAG("dag", schedule=schedule, start_date=CATCHING_UP, max_active_runs=2)
    _ = SparkTask("a", job="jobs:a", dag=dag) >> SparkTask("b", job="jobs:b", dag=dag)
    return dag


class Game:
    """A deployment, and all that can be done to it."""

    def __init__(self, lamp: LocalDeployment, seed: int) -> None:
        self.lamp = lamp
        self.chance = random.Random(seed)
        self.moves = (
            self.backfill,
            self.pause,
            self.resume,
            self.cancel,
            self.wait,
            self.wait,
            self.trigger,
            self.touch_a_run,
            self.pause_dag,
            self.unpause_dag,
            self.push,
            self.fail,
            self.kill,
        )

    def play(self, length: int) -> None:
        """Do so many things, each of which may be refused, and check after each."""
        for _ in range(length):
            try:
                self.chance.choice(self.moves)()
            except RefusedError:
                continue
            self.lamp.check_invariants()

    def newest(self) -> str:
        """Return the id of the newest backfill, or one that there is not."""
        found = self.lamp.backfills("dag")
        return found[0].backfill_id if found else "dag-99"

    def backfill(self) -> None:
        start = NOW.start_of("hour").subtract(hours=self.chance.randint(2, 40))
        self.lamp.backfill(
            "dag",
            start,
            start.add(hours=self.chance.randint(1, 20)),
            reprocess=self.chance.choice(["none", "failed", "completed"]),
            backwards=self.chance.random() < 0.5,
            max_active_runs=self.chance.randint(1, 5),
            max_cost=self.chance.choice([None, None, 0.05]),
        )

    def pause(self) -> None:
        self.lamp.pause_backfill(self.newest())

    def resume(self) -> None:
        self.lamp.resume_backfill(self.newest(), max_cost=self.chance.choice([None, 5.0]))

    def cancel(self) -> None:
        self.lamp.cancel_backfill(self.newest(), cancels_running_runs=self.chance.random() < 0.5)

    def wait(self) -> None:
        self.lamp.advance(minutes=self.chance.choice([0.05, 1, 7, 90]))

    def trigger(self) -> None:
        hours = self.chance.randint(1, 40)
        self.lamp.trigger("dag", logical_date=NOW.start_of("hour").subtract(hours=hours))

    def touch_a_run(self) -> None:
        runs = self.lamp.stack.runs("dag")
        if runs:
            run = self.chance.choice(runs)
            self.chance.choice([cancel_run, clear_run, retry_run])("dag", run.run_key)

    def pause_dag(self) -> None:
        self.lamp.pause("dag")

    def unpause_dag(self) -> None:
        self.lamp.unpause("dag")

    def push(self) -> None:
        # One that died would be registered later, and the checker not know from when on it counts.
        self.lamp.faults.stop()
        self.lamp.push([make_dag(self.chance.choice(["0 * * * *", "0 */3 * * *"]))])

    def fail(self) -> None:
        self.lamp.fail_next("dag", self.chance.choice("ab"))

    def kill(self) -> None:
        kind = self.chance.choice(["crash-before", "crash-after", "lost-answer", "throttle"])
        self.lamp.faults.at(self.chance.randint(1, 30), kind)  # type: ignore[arg-type] # one of them

    def end(self) -> None:
        """Let all that can go on do so, and come to its end."""
        self.lamp.faults.stop()
        self.lamp.unpause("dag")
        found = self.lamp.backfills("dag")
        if found and found[0].state in {"paused", "running"}:
            self.lamp.resume_backfill(found[0].backfill_id, max_cost=1_000)
        for _ in range(24):
            self.lamp.advance(minutes=30)
            # In between, so that a DAG that does not move is found before hours have passed.
            self.lamp.check_invariants()
        assert {each.state for each in self.lamp.backfills("dag")} <= {"completed", "cancelled"}
        assert all(not each.active for each in self.lamp.backfills("dag"))


def tell(seed: int, length: int) -> None:
    """Play one game to its end; how to repeat it is shown when it fails, or is stopped."""
    sys.stdout.write(f"tell(seed={seed}, length={length})\n")
    with LocalDeployment([make_dag()], at=NOW, seed=seed) as lamp:
        for task in "ab":
            lamp.takes("dag", task, minutes=5)
        game = Game(lamp, seed)
        game.play(length)
        game.end()


@pytest.mark.slow
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000))
def test_backfills_come_to_their_end_whatever_is_done(seed: int) -> None:
    """After anything, each planned date has its run, no slot is lost, and what is open ends."""
    tell(seed, 20)


@pytest.mark.full
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1_000_000))
def test_backfills_come_to_their_end_whatever_is_done_often(seed: int) -> None:
    """As above, many more times."""
    tell(seed, 40)
