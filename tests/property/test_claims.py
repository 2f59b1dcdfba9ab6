"""Ticks, messages, people and pushes in any order: the tables are sound after every step."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar
from unittest.mock import patch

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from pendulum import datetime

from lamplighter import DAG, queues
from lamplighter.errors import RefusedError
from lamplighter.scheduler import claim as claim_module
from lamplighter.scheduler.claim import claim_all
from lamplighter.store.dags import change_dag, read_dags
from lamplighter.store.models import Dags
from lamplighter.store.slots import announcement
from lamplighter.store.transactions import Write
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from lamplighter_operations.trigger import create_manual_run
from tests.tools.definitions import row_of, store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.origins import Origins
from tests.tools.invariants.tables import require_sound
from tests.tools.snapshot import begin_anew

MIDNIGHT = datetime(2026, 1, 1)
BEGIN = MIDNIGHT.add(hours=5, seconds=5)

SCHEDULES = ["0 * * * *", "*/30 * * * *", "0 */2 * * *"]
PASSING = [
    timedelta(seconds=1),
    timedelta(seconds=31),
    timedelta(minutes=7),
    timedelta(minutes=59, seconds=55),
    timedelta(hours=3),
    timedelta(hours=9),
]
dag_ids = st.sampled_from(["all", "newest", "continuous"])
states = st.sampled_from(["success", "failed", "cancelled"])


def definition(dag_id: str, schedule: str = SCHEDULES[0], limit: int = 2) -> DAG:
    """Return one of the three DAGs: with catchup, without, and without a pause."""
    if dag_id == "continuous":
        return DAG(dag_id, schedule="@continuous", start_date=MIDNIGHT, max_active_runs=1)
    return DAG(
        dag_id,
        schedule=schedule,
        start_date=MIDNIGHT.add(hours=2),
        catchup=dag_id == "all",
        max_active_runs=limit,
        max_consecutive_failed_dag_runs=3,
    )


class Claims(RuleBasedStateMachine):
    """A deployment that anything may happen to."""

    stack: ClassVar[LocalStack]

    @initialize()
    def begin(self) -> None:
        """Empty the deployment and define three DAGs."""
        begin_anew(self.stack, at=BEGIN)
        self.origins = Origins()
        self.limits: dict[str, int] = {}
        self.schedules = dict.fromkeys(("all", "newest"), SCHEDULES[0])
        store_dags(definition(dag_id) for dag_id in ("all", "newest", "continuous"))

    @rule()
    def tick(self) -> None:
        """The timer fires, perhaps not for the first time in this minute."""
        self.stack.tick()

    @rule()
    def deliver(self) -> None:
        """All messages that may arrive do."""
        self.stack.run_until_idle()

    @rule(dag_id=dag_ids)
    def claim(self, dag_id: str) -> None:
        """A message arrives that is old, or was here before."""
        claim_all([dag_id, "gone", dag_id])

    @rule(by=st.sampled_from(PASSING))
    def pass_time(self, by: timedelta) -> None:
        """Nothing happens for a while."""
        self.stack.clock.advance(by)

    @rule(dag_id=dag_ids, state=states, is_oldest=st.booleans())
    def finish(self, dag_id: str, state: str, is_oldest: bool) -> None:
        """A run ends, or is said to have ended though it has not begun."""
        row = self.stack.dag(dag_id)
        waiting = {entry.partition("|")[2] for entry in row.waiting or ()}
        keys = sorted((row.active or set()) | waiting)
        if keys:
            key = keys[0 if is_oldest else -1]
            assert finish_run(dag_id, key, state=state) is True
            assert finish_run(dag_id, key, state="failed") is False

    @rule(dag_id=dag_ids)
    def pause(self, dag_id: str) -> None:
        """Someone pauses a DAG."""
        pause(dag_id)

    @rule(dag_id=dag_ids)
    def unpause(self, dag_id: str) -> None:
        """Someone lets it run again."""
        row = unpause(dag_id)
        if not row.catchup:
            self.origins.note_skipped(row)

    @rule(dag_id=dag_ids)
    def ask(self, dag_id: str) -> None:
        """Someone wants a run without a date."""
        with suppress(RefusedError):
            create_manual_run(dag_id, logical_date=None)

    @rule(dag_id=dag_ids, hour=st.integers(-6, 2), count=st.integers(1, 3))
    def ask_for_dates(self, dag_id: str, hour: int, count: int) -> None:
        """Someone wants runs of dates that may be taken, be due or come due later."""
        now = self.stack.clock.now().start_of("hour")
        for further in range(count):
            with suppress(RefusedError):
                create_manual_run(dag_id, logical_date=now.add(hours=hour + further))

    @rule(
        dag_id=st.sampled_from(["all", "newest"]),
        schedule=st.sampled_from(SCHEDULES),
        limit=st.integers(1, 3),
    )
    def define(self, dag_id: str, schedule: str, limit: int) -> None:
        """A push brings another schedule or another limit."""
        rows: list[tuple[Dags, Dags]] = []

        def change(row: Dags) -> Sequence[Write]:
            rows.append((row.as_stored(), row_of(definition(dag_id, schedule, limit), row=row)))
            self.limits[dag_id] = max(limit, len(row.active or ()))
            return []

        written = change_dag(dag_id, change)
        assert written is not None
        queues.announce_due(announcement(written))
        self.origins.note_push(*rows[-1])
        self.schedules[dag_id] = schedule

    @rule(dag_id=dag_ids, data=st.data())
    def be_overtaken(self, dag_id: str, data: st.DataObject) -> None:
        """Something happens between the read of a claim and its commit."""
        actions: dict[str, Callable[[], object]] = {
            "claim": lambda: claim_all([dag_id]),
            "finish": lambda: self.finish(dag_id, "success", is_oldest=True),
            "pause": lambda: pause(dag_id),
            "ask": lambda: self.ask_for_dates(dag_id, -1, 2),
            "define": lambda: self.define("all", SCHEDULES[1], 1),
        }
        action = actions[data.draw(st.sampled_from(sorted(actions)))]
        with _overtaken_by(action):
            claim_all([dag_id])

    @invariant()
    def is_sound(self) -> None:
        """What must always be true is."""
        for dag_id, limit in self.limits.items():
            row = self.stack.dag(dag_id)
            self.limits[dag_id] = max(int(row.max_active_runs), min(limit, len(row.active or ())))
        is_idle = self.stack.is_idle()
        require_sound(origins=self.origins.now(), limits=self.limits, is_idle=is_idle)
        assert self.origins.missing() == []

    def teardown(self) -> None:
        """When all is un-paused and there are slots for all, nothing is left behind."""
        if not hasattr(self, "origins"):
            return
        for dag_id in ("all", "newest"):
            self.unpause(dag_id)
            self.define(dag_id, self.schedules[dag_id], 500)
            claim_all([dag_id])
            row = self.stack.dag(dag_id)
            assert row.waiting is None
            assert row.next_run_after is not None
            assert row.next_run_after > self.stack.clock.now()
        self.is_sound()


@contextmanager
def _overtaken_by(action: Callable[[], object]) -> Iterator[None]:
    is_done = False

    def read_and_be_overtaken(ids: Any, **more: Any) -> list[Dags]:
        nonlocal is_done
        rows = read_dags(ids, **more)
        if not is_done:
            is_done = True
            action()
        return rows

    with patch.object(claim_module, "read_dags", read_and_be_overtaken):
        yield


def test_claims_in_any_order_keep_the_tables_sound() -> None:
    """No order of ticks, messages, pauses, pushes and ends breaks a promise or loses a run."""
    bounded = settings(
        max_examples=10,
        stateful_step_count=16,
        deadline=None,
        derandomize=True,
        # To shrink a failure takes minutes here; its steps are few enough to read.
        phases=[Phase.generate],
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with local_stack(at=BEGIN) as stack:
        made = replace(stack.settings, due_shards=1)
        stack.settings = made
        Claims.stack = stack
        run_state_machine_as_test(Claims, settings=bounded)
