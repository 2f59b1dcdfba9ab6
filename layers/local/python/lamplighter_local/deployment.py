"""A whole deployment on this machine, for tests of schedules and for trying things out.

    with LocalDeployment(bundle="examples", at="2026-01-01T00:00:00Z") as lamp:
        lamp.advance(hours=3)
        print(lamp.runs("orders_hourly"))

Owns: what people may ask of it. `lifecycle` has its beginning and end, `stack` the machinery:
moto, the real functions, the clock.
"""

import json
import uuid
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pendulum import DateTime

from lamplighter import aws
from lamplighter.backfill.plan import DEFAULT_ACTIVE_RUNS, Request
from lamplighter.bundles.layout import require_bundle
from lamplighter.dags.dag import DAG
from lamplighter.dags.kinds import SparkTask, StepFunctionsTask
from lamplighter.errors import RefusedError
from lamplighter.events import dead_letters
from lamplighter.events.dead_letters import DeadLetter
from lamplighter.executors.base import Executor
from lamplighter.store.backfills import backfills_of
from lamplighter.store.dags import all_dags, newest_document, require_dag
from lamplighter.store.models import TABLES, Dags
from lamplighter.store.runs import require_run
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.topology import URL_SETTINGS
from lamplighter.triggers.feeds import SOURCES
from lamplighter.zones import as_utc
from lamplighter_local.arguments import Instant, as_duration, as_instant
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.execution import Fake
from lamplighter_local.given_sources import GivenSource
from lamplighter_local.lifecycle import DeploymentLifecycle, when_open
from lamplighter_local.skip_owed import skip_owed_runs
from lamplighter_local.stack import NAME
from lamplighter_local.step_functions.executions import Function
from lamplighter_local.step_functions.fake import FakeStepFunctions
from lamplighter_local.table_checks import violations
from lamplighter_operations import backfills, pause, pools
from lamplighter_operations import variables as variables_of
from lamplighter_operations.backfills import create_backfill
from lamplighter_operations.trigger import create_manual_run
from lamplighter_operations.views import (
    Backfill,
    Dag,
    Run,
    view_backfill,
    view_dag,
    view_outputs,
    view_run,
)

Bundle = str | Path | Iterable[DAG]

OBJECTS = "objects"
_MAX_LETTERS = 10_000


class _Left(Enum):
    OUT = "left out"


class LocalDeployment(DeploymentLifecycle):
    """A deployment, while the `with` block lasts.

    Several with different names may be open in a process, each with its own clock, tables, queues
    and bucket. They are used one at a time, whichever thread does it. A queue of others' that
    watchers of several deployments read is one queue, as it is on AWS.

    Args:
        bundle: The folder of a bundle, or DAG objects; more can be pushed later.
        at: The time at which its clock starts.
        name: The prefix of the names of its tables, queues and bucket.
        executor: What runs the steps: "instant" (they do nothing and last a second), "emr" (they do
            nothing either, but on an EMR Serverless with the rates, quotas, start times and late
            bills of a new AWS account), "spark", or any `Executor`; or a `FakeEmr`, for steps that
            do nothing with limits of your own.
        variables: The variables of the deployment, for templates and jobs; `set_variable`
            changes them.
        secrets: Secrets of jobs by reference, with executor="spark": `{"ssm:/lake/key": "…"}`.
            There are no others, and the network is not used.
        settings: Settings of the deployment by name: `{"watch_session_seconds": 5}`.
        catch_up: With False, schedules begin at `at`, as if all that was due before had been done.
        seed: The seed of its random numbers. The same seed gives the same history.
        folder: Where "spark" keeps the files and logs of jobs; a temporary one by default.
        poll_real_sources: Whether pages, folders and whatever else watchers poll are really read,
            once in each minute of the clock. By default they have only what `source` puts there.
    """

    def __init__(
        self,
        bundle: Bundle | None = None,
        *,
        at: Instant,
        name: str = NAME,
        executor: str | Executor | FakeEmr = "instant",
        variables: Mapping[str, str] = MappingProxyType({}),
        secrets: Mapping[str, str] = MappingProxyType({}),
        settings: Mapping[str, object] = MappingProxyType({}),
        catch_up: bool = True,
        seed: int = 0,
        folder: Path | str | None = None,
        poll_real_sources: bool = False,
    ) -> None:
        super().__init__(
            name=name,
            at=at,
            executor=executor,
            variables=variables,
            secrets=secrets,
            settings=settings,
            seed=seed,
            folder=folder,
            poll_real_sources=poll_real_sources,
        )
        self._bundle = bundle
        self._catch_up = catch_up
        self._events_sent = 0

    def _on_open(self) -> None:
        if self._bundle is not None:
            self.push(self._bundle)

    # Time.

    @property
    def now(self) -> DateTime:
        """The current time of its clock."""
        return self.stack.clock.now()

    @when_open
    def advance(
        self, *, to: Instant | None = None, deliver: bool = True, **duration: float
    ) -> None:
        """Advance the clock to `to` or by a duration, and do all that is due meanwhile.

        Args:
            to: An instant; or give `days`, `hours`, `minutes`, `seconds`.
            deliver: With False, time passes and no function is invoked, as in an outage.
            duration: Keyword arguments of `timedelta`.
        """
        if (to is None) == (not duration):
            raise RefusedError("advance: give either to=, or a duration such as hours=3")
        length = as_duration("advance", duration)
        end = as_utc(self.now + length) if to is None else as_instant(to)
        if end < self.now:
            raise RefusedError(
                f"advance: the clock is at {self.now}, after {end}; it cannot go back"
            )
        if deliver:
            self.stack.advance(to=end)
        else:
            self.stack.clock.move(to=end)

    @when_open
    def run_until_idle(self) -> None:
        """Deliver all messages that are due, and what follows from them; the clock stands still."""
        self.stack.run_until_idle()

    # What comes from outside.

    @when_open
    def push(self, bundle: Bundle, *, name: str | None = None, skip_owed: bool = False) -> None:
        """Push a new version of a bundle and let it be registered.

        Args:
            bundle: The folder of a bundle, or DAG objects.
            name: The name of the bundle; by default that of the folder.
            skip_owed: Whether to skip runs of new and changed schedules that are already due.
        """
        before = {row.dag_id: row for row in all_dags()}
        if isinstance(bundle, str | Path):
            root = require_bundle(Path(bundle))
            given = name or root.name
            self.stack.push(root, bundle=given, until_idle=False, skip_owed=skip_owed)
        else:
            given = name or OBJECTS
            self.stack.push_dags(bundle, bundle=given, until_idle=False, skip_owed=skip_owed)
        for row in all_dags():
            self._note_push(before.get(row.dag_id), row)
        self.stack.run_until_idle()

    def _note_push(self, before: Dags | None, after: Dags) -> DagRunInfo | None:
        """Skip what a new schedule owes, if that is wanted; return the last run that is skipped."""
        if self._catch_up or (before is not None and _schedule(before) == _schedule(after)):
            return None
        return skip_owed_runs(after.dag_id)

    @when_open
    def emit(
        self,
        asset: str | None = None,
        *,
        extra: Mapping[str, Any] | None = None,
        event_id: str | None = None,
        **more: Any,
    ) -> str:
        """Send an event of an asset to the queue, and return its id; `more` as `emit` takes it."""
        if event_id is None:
            # Derived, so that the same calls give the same ids.
            self._events_sent += 1
            name = f"lamplighter-local:{self._seed}:{self._events_sent}"
            event_id = uuid.uuid5(uuid.NAMESPACE_URL, name).hex
        return self.stack.emit(asset, extra=extra, event_id=event_id, **more)

    @when_open
    def send(
        self,
        queue: str,
        body: object,
        *,
        group: str | None = None,
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Send a message to a queue that watchers read, and return its id.

        Args:
            queue: Its name; "sources" is the one on which S3 and EventBridge tell what happened.
            body: A text, or a value that is written as JSON.
            group: The message group, on a queue whose name ends in ".fifo".
            attributes: The attributes of the message.
        """
        url = self.stack.watched_queue(SOURCES if queue == "sources" else queue)
        message: dict[str, Any] = {
            "MessageBody": body if isinstance(body, str) else json.dumps(body),
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": text}
                for name, text in attributes.items()
            },
        }
        if group is not None:
            self._events_sent += 1
            name = f"local-{self._seed}-{self._events_sent}"
            message |= {"MessageGroupId": group, "MessageDeduplicationId": name}
        sent: str = aws.client("sqs").send_message(QueueUrl=url, **message)["MessageId"]
        return sent

    @when_open
    def source(self, watcher: str) -> GivenSource:
        """Return the polled source of a watcher, `asset/name`, to put something there."""
        if self.stack.sources is None:
            raise RefusedError(
                "poll_real_sources=True: sources have what they really have, and nothing is put"
                " there"
            )
        return self.stack.sources.of(watcher)

    @when_open
    def trigger(
        self,
        dag_id: str,
        *,
        logical_date: Instant | _Left | None = _Left.OUT,
        conf: dict[str, Any] | None = None,
        data_interval: tuple[Instant, Instant] | None = None,
    ) -> Run:
        """Create a manual run: for now by default, for a date, or without one for None.

        Without `data_interval`, the DAG's timetable infers that of the date.
        """
        date = self.now if logical_date is _Left.OUT else logical_date
        assert not isinstance(date, _Left)
        interval = None
        if data_interval is not None:
            interval = DataInterval(*(as_instant(end) for end in data_interval))
        run = create_manual_run(
            dag_id,
            logical_date=None if date is None else as_instant(date),
            data_interval=interval,
            conf=conf,
        )
        return view_run(run)

    @when_open
    def pause(self, dag_id: str) -> None:
        """Pause a DAG: it gets no more runs."""
        pause.pause(dag_id)

    @when_open
    def unpause(
        self, dag_id: str, *, missed: str | None = None, keep_events: bool | None = None
    ) -> None:
        """Unpause a DAG.

        Args:
            dag_id: The id of the DAG.
            missed: Which missed runs to create: "catchup" all of them, "latest" the last one,
                "from-now" none. By default, the DAG's `catchup` decides.
            keep_events: Whether pending asset events still count.
        """
        choices = {each.value: each for each in pause.Missed}
        if missed is not None and missed not in choices:
            raise RefusedError(f"unpause: missed={missed!r}: use one of {', '.join(choices)}")
        choice = None if missed is None else choices[missed]
        pause.unpause(dag_id, missed=choice, keep_events=keep_events)

    @when_open
    def set_pool(self, pool: str, slots: int) -> pools.Pool:
        """Create a pool, or change how many slots it has."""
        return pools.set_pool(pool, slots)

    @when_open
    def pools(self) -> list[pools.Pool]:
        """Return all pools by name."""
        return list(pools.list_pools())

    @when_open
    def set_variable(self, name: str, value: str) -> variables_of.Variable:
        """Create or change a variable; jobs that start from now on see it."""
        return variables_of.set_variable(name, value)

    # Backfills.

    @when_open
    def backfill(
        self,
        dag_id: str,
        start: Instant,
        end: Instant,
        *,
        reprocess: str = "none",
        backwards: bool = False,
        max_active_runs: int = DEFAULT_ACTIVE_RUNS,
        conf: dict[str, Any] | None = None,
        max_cost: float | None = None,
    ) -> Backfill:
        """Create a backfill: runs for all dates from `start`, included, to `end`, excluded."""
        request = Request(
            dag_id=dag_id,
            start=as_instant(start),
            end=as_instant(end),
            reprocess=reprocess,
            run_backwards=backwards,
            max_active_runs=max_active_runs,
            conf=conf,
            max_cost=max_cost,
        )
        return view_backfill(create_backfill(request))

    @when_open
    def backfills(self, dag_id: str) -> list[Backfill]:
        """Return the backfills of a DAG, newest first."""
        return [view_backfill(row) for row in backfills_of([require_dag(dag_id)])]

    @when_open
    def pause_backfill(self, backfill_id: str) -> Backfill:
        """Pause a backfill: no more of its runs begin."""
        return view_backfill(backfills.pause_backfill(backfill_id))

    @when_open
    def resume_backfill(self, backfill_id: str, **limits: Any) -> Backfill:
        """Resume a backfill, with another `max_active_runs` or `max_cost` if given."""
        return view_backfill(backfills.resume_backfill(backfill_id, **limits))

    @when_open
    def cancel_backfill(self, backfill_id: str, *, cancels_running_runs: bool = False) -> Backfill:
        """Cancel a backfill and, if asked for, the jobs of its runs."""
        return view_backfill(
            backfills.cancel_backfill(backfill_id, cancels_running_runs=cancels_running_runs)
        )

    # What becomes of steps that do nothing.

    @when_open
    def fail_next(
        self, dag_id: str, task_id: str, *, times: int = 1, error: str = "it was told to fail"
    ) -> None:
        """Make the next attempts of a task fail."""
        self._plan(dag_id, task_id, Outcome.failed(error), times)

    @when_open
    def skip_next(self, dag_id: str, task_id: str, *, times: int = 1, reason: str = "") -> None:
        """Make the next attempts of a task skip, as if there was nothing to do."""
        self._plan(dag_id, task_id, Outcome.skipped(reason), times)

    @when_open
    def state_machine(self, name: str, function: Function) -> None:
        """Let a function stand in for a state machine: it decides how executions end.

        Without one they succeed, with an empty object as their output.

        Args:
            name: The name of the state machine.
            function: Called with the input when an execution ends; it returns the output, a JSON
                value, or raises: an exception of the name `SkipStep` skips the step, all others
                fail it.
        """
        assert self.stack.execution is not None
        machines = self.stack.execution.fakes[StepFunctionsTask.kind]
        assert isinstance(machines, FakeStepFunctions)
        machines.functions[name] = function

    def _plan(self, dag_id: str, task_id: str, outcome: Outcome, times: int) -> None:
        if times < 1:
            raise RefusedError(f"times={times}: use 1 or more")
        fake = self._fake_of(dag_id, task_id)
        for _ in range(times):
            fake.next_outcome(dag_id, task_id, outcome)

    @when_open
    def leaves(self, dag_id: str, task_id: str, /, **outputs: Any) -> None:
        """Set the outputs of successful attempts of a task that begin from now on."""
        self._fake_of(dag_id, task_id).leaves(dag_id, task_id, outputs)

    @when_open
    def takes(self, dag_id: str, task_id: str, **duration: float) -> None:
        """Set how long attempts of a task take that begin from now on.

        With executor="emr" that is from the first executor on, otherwise from the start.
        """
        if not duration:
            raise RefusedError("takes: give a duration such as minutes=90")
        seconds = as_duration("takes", duration).total_seconds()
        self._fake_of(dag_id, task_id).takes(dag_id, task_id, seconds=seconds)

    def _fake_of(self, dag_id: str, task_id: str) -> Fake:
        """Return what pretends to run a task; outcomes of one that does not exist never come."""
        tasks = newest_document(require_dag(dag_id)).get("tasks", [])
        kinds = {task["task_id"]: task.get("kind", SparkTask.kind) for task in tasks}
        if task_id not in kinds:
            there_are = ", ".join(kinds) or "none"
            raise RefusedError(f"DAG {dag_id!r} has no task {task_id!r} (there are: {there_are})")
        fakes = self.stack.execution.fakes if self.stack.execution is not None else {}
        if kinds[task_id] not in fakes:
            raise RefusedError("outcomes can only be set with executor='instant' or 'emr'")
        return fakes[kinds[task_id]]

    # What one sees.

    @when_open
    def dag(self, dag_id: str) -> Dag:
        """Return the current state of a DAG."""
        return view_dag(require_dag(dag_id))

    @when_open
    def dags(self) -> list[Dag]:
        """Return all DAGs, by id."""
        rows = sorted(all_dags(), key=lambda row: row.dag_id)
        return [view_dag(row) for row in rows]

    @when_open
    def runs(self, dag_id: str) -> list[Run]:
        """Return the runs of a DAG, oldest first."""
        require_dag(dag_id)
        rows = sorted(self.stack.runs(dag_id), key=lambda run: (run.run_after, run.run_key))
        return [view_run(row) for row in rows]

    @when_open
    def outputs(self, run: Run, task_id: str) -> Mapping[str, Any]:
        """Return the outputs of a step of a run; empty if it left none."""
        run.step(task_id)  # which says if there is none
        return view_outputs(require_run(run.name)).get(task_id, {})

    @when_open
    def dead_letters(self) -> list[DeadLetter]:
        """Return the messages on dead-letter queues, without removing them."""
        letters = dead_letters.dead_letters(limit=_MAX_LETTERS)
        dead_letters.make_visible(letters)
        return letters

    @when_open
    def queue_url(self, queue: str) -> str:
        """Return the URL of a queue, such as "events", "events.fifo" or "claims"."""
        if queue not in URL_SETTINGS:
            names = ", ".join(sorted(URL_SETTINGS))
            raise RefusedError(f"there is no queue {queue!r} (there are: {names})")
        return self.stack.settings.queue_url(queue)

    @when_open
    def table_name(self, table: str) -> str:
        """Return the name of a table, such as "Runs"."""
        names = [model.__name__ for model in TABLES]
        if table not in names:
            raise RefusedError(f"there is no table {table!r} (there are: {', '.join(names)})")
        return f"{self.stack.settings.table_prefix}{table}"

    @when_open
    def check_invariants(self) -> None:
        """Raise an `AssertionError` if rows contradict each other, and say which.

        It may be called at any time.
        """
        if found := violations():
            raise AssertionError("\n".join(found))


def _schedule(row: Dags) -> tuple[object, ...]:
    return (row.timetable, row.earliest, row.latest, row.catchup, row.schedule_switch_at)
