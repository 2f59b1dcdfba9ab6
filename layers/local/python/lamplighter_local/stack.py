"""A whole deployment in this process: moto for AWS, the real handlers, a clock that can be moved.

Owns: when timers fire and messages arrive. Between two instants at which something can happen
nothing is done, so that days pass in moments.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pendulum import DateTime

from lamplighter import runtime
from lamplighter.dags.dag import DAG
from lamplighter.events.emit import emit
from lamplighter.executors.base import Executor
from lamplighter.runtime import Runtime
from lamplighter.settings import Settings
from lamplighter.store.dags import require_dag
from lamplighter.store.models import Dags, Runs, Steps
from lamplighter.store.runs import run_ref, runs_from, stored_steps
from lamplighter.topology import QUEUES
from lamplighter.triggers.feeds import SOURCES
from lamplighter.zones import as_utc, iso
from lamplighter_local import handlers, resources
from lamplighter_local.dag_objects import DagObjects, trigger_builds
from lamplighter_local.deliveries import Call, deliver, is_on_its_way, next_delivery
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.emulator import shortcuts
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.emulator.shared_moto import shared_moto
from lamplighter_local.execution import Executions, executing
from lamplighter_local.given_sources import GivenSources
from lamplighter_local.invocations import local_invocations
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.timers import next_poll, next_sweep, next_tick, watched_queues
from lamplighter_operations.push import push_bundle
from lamplighter_operations.variables import set_variable

NAME = "local"
# No key of a run is before it.
FIRST_KEY = " "


class LocalStack:
    """The deployment, once `local_stack` has made it."""

    def __init__(
        self,
        runtime: Runtime,
        clock: MovableClock,
        execution: Executions | None,
        objects: DagObjects,
        lock: threading.RLock,
        *,
        sources: GivenSources | None,
    ) -> None:
        self.runtime = runtime
        self.clock = clock
        self.execution = execution
        self._objects = objects
        # Whoever reaches the emulator otherwise than through this process's clients must hold it.
        self.lock = lock
        # What polled sources answer with; None: the real ones are polled.
        self.sources = sources
        # Queues of others that watchers read, by name.
        self._watched: dict[str, str] = {}
        # How a function is called; whoever lets functions die puts something else here.
        self.call: Call = handlers.call
        # Whether the newest call of a timer ended in a death: its work is left to the next one.
        self._has_timer_died = False

    @property
    def settings(self) -> Settings:
        """The settings of the deployment; others may be assigned."""
        assert self.runtime.settings is not None
        return self.runtime.settings

    @settings.setter
    def settings(self, changed: Settings) -> None:
        self.runtime.settings = changed
        self.runtime.caches.clear()

    def push(
        self,
        root: Path | str,
        *,
        bundle: str = "bundle",
        until_idle: bool = True,
        skip_owed: bool = False,
    ) -> None:
        """Push a bundle and let it be registered; and, unless told otherwise, what comes of it."""
        push_bundle(Path(root), bundle, skip_owed=skip_owed)
        self._register(until_idle=until_idle)

    def push_dags(
        self,
        dags: Iterable[DAG],
        *,
        bundle: str,
        until_idle: bool = True,
        skip_owed: bool = False,
    ) -> None:
        """Push DAG objects as a bundle, in the same way."""
        self._objects.push(dags, bundle, skip_owed=skip_owed)
        self._register(until_idle=until_idle)

    def _register(self, *, until_idle: bool) -> None:
        while deliver(self.settings.queue_url("registers"), "register", self.call):
            pass
        with self.lock:
            names = watched_queues(self.settings)
        for name in names:
            self.watched_queue(name)
        if until_idle:
            self.run_until_idle()

    def tick(self, *, scheduled_at: datetime | None = None) -> dict[str, int]:
        """Fire the minute timer once."""
        now = self.clock.now()
        minute = as_utc(scheduled_at) if scheduled_at else now.start_of("minute")
        answer: dict[str, int] = self._fire("tick", {"time": iso(minute)})
        return answer

    def emit(self, asset: str | None = None, **event: Any) -> str:
        """Push an event of an asset, as anyone does: through the queue."""
        return emit(asset, **event)

    def watched_queue(self, name: str) -> str:
        """Return the URL of a queue that watchers read, made when it is first named."""
        if name == SOURCES:
            return self.settings.queue_url("sources")
        if name not in self._watched:
            self._watched[name] = resources.create_watched_queue(name)
        return self._watched[name]

    def poll_sources(self) -> None:
        """Fire the timer that polls the sources which send no notifications."""
        self.call("watch", {"time": iso(self.clock.now().start_of("minute"))})

    def sweep(self) -> dict[str, float]:
        """Fire the timer that looks for what was left behind."""
        answer: dict[str, float] = self._fire("sweep", {})
        return answer

    def _fire(self, function: str, event: dict[str, Any]) -> Any:
        answer = self.call(function, event)
        self._has_timer_died = answer is None
        return answer

    def run_until_idle(self) -> None:
        """Deliver everything that can be delivered now, and what comes of it."""
        while self._deliver() or (self.execution is not None and self.execution.progress()):
            pass

    def _deliver(self) -> int:
        return sum(deliver(url, function, self.call) for url, function in self._sources())

    def _sources(self) -> list[tuple[str, str]]:
        """Return the queues, each with the function that it wakes."""
        # Without anything to execute them, runs stay as they were claimed.
        left_out = () if self.execution is not None else ("settle", "submit")
        return [
            (url, queue.consumer)
            for queue in QUEUES.values()
            if queue.consumer not in left_out
            for url in (self.settings.queue_url(queue.name), *self._watched_by(queue.consumer))
        ]

    def _watched_by(self, function: str) -> Iterable[str]:
        """Return the queues of others that a function consumes."""
        return self._watched.values() if function == "watch" else ()

    def advance(self, *, to: datetime | None = None, **duration: float) -> None:
        """Let time pass: timers at the minutes where they could act, messages at their instants."""
        end = as_utc(to) if to else as_utc(self.clock.now() + timedelta(**duration))
        self.run_until_idle()
        while True:
            now, with_runs = self.clock.now(), self.execution is not None
            with self.lock:
                tick_at = next_tick(now, self.settings)
                sweep_at = next_sweep(now, self.settings, with_runs=with_runs)
                poll_at = next_poll(now, self.settings, self.sources)
                message_at = self._next_message()
            instants = filter(None, (tick_at, sweep_at, poll_at, message_at, self._next_change()))
            instant = min(instants, default=None)
            if instant is None or instant > end:
                break
            self.clock.move(to=max(instant, self.clock.now()))
            if instant == tick_at:
                self.tick()
            if instant == sweep_at:
                self.sweep()
            if instant == poll_at:
                self.poll_sources()
            self.run_until_idle()
        self.clock.move(to=max(end, self.clock.now()))

    def is_idle(self) -> bool:
        """Return whether no message waits to be delivered, or redelivered; delayed ones may.

        After a timer that has died it is not: what it left undone is done at its next time.
        """
        is_waiting = any(is_on_its_way(url) for url, _ in self._sources())
        return not is_waiting and not self._has_timer_died

    def _next_message(self) -> DateTime | None:
        """Return when the next message that waits for its delay, or for redelivery, can come."""
        waiting = [next_delivery(url) for url, _ in self._sources()]
        return min((as_utc(at) for at in waiting if at is not None), default=None)

    def _next_change(self) -> DateTime | None:
        """Return when a job does something by itself."""
        return self.execution.next_change() if self.execution is not None else None

    def dag(self, dag_id: str) -> Dags:
        """Return the row of a DAG."""
        return require_dag(dag_id)

    def runs(self, dag_id: str) -> list[Runs]:
        """Return the runs of a DAG, oldest first."""
        return list(runs_from(dag_id, FIRST_KEY))

    def steps(self, run: Runs) -> dict[str, Steps]:
        """Return the steps of a run, by task; the row of the run may be an old one."""
        found = stored_steps(run_ref(run.dag_id, run.run_key))
        return {step.step_id: step for step in found if step.run_created_at == run.created_at}


@contextmanager
def local_stack(
    *,
    at: datetime,
    name: str = NAME,
    on: FakeEmr | Executor | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
    over_http: bool = False,
    sources: GivenSources | None = None,
) -> Iterator[LocalStack]:
    """Make a deployment whose clock stands at `at`; it is gone when the block ends.

    Jobs are executed `on` a fake EMR Serverless, on Spark or by any other executor; without, runs
    stay queued. With `over_http` calls cost what they cost in a Lambda, for whoever measures them.
    With `sources` polled sources answer from there; without, the real ones are polled.
    """
    movable, objects = MovableClock(at), DagObjects()
    with (
        shared_moto(name) as lock,
        nullcontext() if over_http else shortcuts.calls(name, lock),
        runtime.activate(Runtime(name, clock=movable, isolates_watchers=False)) as here,
        api_calls.wrapped(name, partial(local_invocations, prefix=f"{name}-", objects=objects)),
        trigger_builds.wrapped(name, objects.building_triggers),
        nullcontext()
        if sources is None
        else trigger_builds.wrapped(name, sources.building_triggers),
        resources.created(name) as made,
    ):
        here.settings = made
        for variable, value in variables.items():
            set_variable(variable, value)
        with executing(on) as execution:
            yield LocalStack(here, movable, execution, objects, lock, sources=sources)
