"""Decides what follows for a run from its rows. Assigns only.

Owns: what is decided, and in which order. The caller commits it, then `effects` carries it out; a
decision that is not committed has no effect. Other rows are read through the view's reader, limits
through the admission.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from secrets import token_urlsafe
from typing import Any

from pendulum import DateTime

from lamplighter import clock, executors, settings
from lamplighter.dags.links import steps_read
from lamplighter.errors import DefinitionError
from lamplighter.runs.admission import Admission, Wait, has_limits
from lamplighter.runs.dependencies import next_steps, removed_tasks, waits_for_past, weight_of
from lamplighter.runs.job_observation import JobObservation, add_late_bill, apply_observation
from lamplighter.runs.job_request import PreparedJob, prepare
from lamplighter.runs.outlets import max_writes
from lamplighter.runs.states import (
    CANCEL,
    CANCELLED,
    CANCELLING,
    FAILED,
    LIVE,
    NONE,
    OVER,
    QUEUED,
    RUNNING,
    SCHEDULED,
    SUBMITTED,
    UP_FOR_RETRY,
    add_up_costs,
    assign_mark,
    deadline_of,
    end_run,
    end_step,
    expire_step,
    move_run,
    move_step,
    needs_mark,
    postpone_expiry,
    run_deadline,
    set_expiry,
    stop_waiting,
    time_out_run,
    time_out_step,
)
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store import slots
from lamplighter.store.backfills import has_to_end, may_begin
from lamplighter.store.limits import WaitingStep, turn_of
from lamplighter.store.models import AssetEvents, Steps
from lamplighter.store.runs import FINISHED, set_bill_wake, set_state_columns

# A transaction also holds the run, its DAG, its backfill, and two limits of the next step.
_OTHER_WRITES = 5
_LONGEST_SLEEP_SECONDS = 1_800


@dataclass
class RunsReport:
    """What happened to runs and their steps."""

    started_jobs: int = 0  # Jobs that were started.
    postponed_jobs: int = 0  # Starts that are tried again later, and cost no try.
    throttled_starts: int = 0  # Starts that were throttled; later ones wait for a lower rate.
    waiting_steps: int = 0  # Steps that began to wait for a pool, capacity or a start.
    cancelled_jobs: int = 0  # Jobs that were cancelled.
    succeeded_steps: int = 0  # Steps that ended as success.
    failed_steps: int = 0  # Steps that ended as failed.
    retried_steps: int = 0  # Steps that wait for a retry.
    skipped_steps: int = 0  # Steps that were skipped.
    refused_reports: int = 0  # Reports without the secret of their submission.
    # Steps that wait because there was no capacity for their jobs.
    capacity_rejections: int = 0
    succeeded_runs: int = 0  # Runs that ended as success.
    failed_runs: int = 0  # Runs that ended as failed.
    cancelled_runs: int = 0  # Runs that were cancelled.
    job_dollars: float = 0.0  # What jobs cost whose bills were read.

    def add(self, other: "RunsReport") -> None:
        """Add the numbers of another report."""
        for each in fields(other):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(frozen=True)
class JobPermissions:
    """What the function that advances a run may do with jobs; it leaves the rest to another one."""

    can_start: bool = False
    can_cancel: bool = False


SUBMIT = JobPermissions(can_start=True)
SETTLE = JobPermissions(can_cancel=True)


@dataclass(eq=False)
class RunDecision:
    """The changes of a run's rows, and the effects that follow them."""

    view: RunView
    permissions: JobPermissions
    report: RunsReport
    now: DateTime = field(default_factory=clock.now)
    admission: Admission = field(default_factory=Admission)
    # When to start others that wait: limit and instant.
    looks: set[tuple[str, DateTime]] = field(default_factory=set)
    # More follows than fits into one transaction, or than is known before it is written.
    is_partial: bool = False
    starts: list[PreparedJob] = field(default_factory=list)
    orphaned_jobs: list[JobObservation] = field(default_factory=list)
    events: list[AssetEvents] = field(default_factory=list)
    # The function `submit` has to start some steps.
    needs_submit: bool = False
    wakes_waiting_runs: bool = False
    # Read once, if a job is started.
    _variables: Mapping[str, str] | None = None
    # Of steps that are over and that a started job reads, each read once.
    _outputs: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def decide(self, observations: Iterable[JobObservation]) -> None:
        """Assign everything that follows from the rows and observations."""
        view = self.view
        for observation in observations:
            self._observe(observation)
        if view.size:
            add_up_costs(view)
        if view.run.state in FINISHED:
            if view.size or self.is_due:
                set_bill_wake(view.run, self.now)
            return
        self._follow_backfill()
        self._for_each_step(lambda step: postpone_expiry(step, self.now))
        time_out_run(view, self.now)
        self._for_each_step(lambda step: time_out_step(view, step, self.now))
        if view.run.target_state is not None:
            self._end_early()
        elif not self.is_partial:
            self._continue()
        if view.run.state not in FINISHED and (view.is_changed or self.is_due):
            view.run.wake_at = self._wake_at()

    @property
    def is_due(self) -> bool:
        """Whether the run's `wake_at` has passed."""
        wake_at = self.view.run.stored.get("wake_at")
        return wake_at is not None and wake_at <= self.now

    @property
    def _writes_left(self) -> int:
        return settings.current().transaction_actions - _OTHER_WRITES - self.view.size

    def _is_full(self) -> bool:
        """Return whether the transaction can hold no more; what is left then follows after it."""
        is_full = self._writes_left <= 0
        self.is_partial |= is_full
        return is_full

    def _observe(self, observation: JobObservation) -> None:
        task = self.view.dag.tasks.get(observation.key.task_id)
        needed = 0 if task is None else 1 + max_writes(task, observation.report)
        if needed > self._writes_left and self.view.size:
            self.is_partial = True
            return
        events = apply_observation(self.view, observation, now=self.now)
        if events is None:
            add_late_bill(self.view, observation.key.task_id, observation.job)
            if not observation.job.state.is_over:
                self.orphaned_jobs.append(observation)
        else:
            self.events += events
        step = self.view.steps.get(observation.key.task_id)
        if task is not None and task.depends_on_past and step is not None and step.state in OVER:
            self.wakes_waiting_runs = True

    def _for_each_step(self, change: Callable[[Steps], None]) -> None:
        """Change steps, as many as fit into the transaction."""
        room = self._writes_left
        for step in self.view.steps.values():
            if room <= 0:
                self.is_partial = True
                return
            was_changed = step.is_changed
            change(step)
            room -= step.is_changed and not was_changed

    def _follow_backfill(self) -> None:
        """End a run whose backfill was cancelled, unless it may finish what it has begun."""
        run = self.view.run
        is_queued = run.state == QUEUED
        if run.target_state is None and has_to_end(self.view.backfill, is_queued=is_queued):
            run.target_state = CANCELLED
            run.reason = f"backfill {run.slot_backfill_id} was cancelled"

    def _end_early(self) -> None:
        self._mark_steps()
        self._for_each_step(lambda step: end_step(self.view, step, self.now))
        if not (self.is_partial or self.view.live):
            assert self.view.run.target_state is not None
            self._finish(self.view.run.target_state)

    def _mark_steps(self) -> None:
        """Mark the steps of a run that was marked as a success."""
        view, ending = self.view, self.view.run.target_state
        removed = removed_tasks(view.dag, view.run)
        for task_id in sorted(view.dag.tasks.keys() - removed.keys()):
            if not needs_mark(view.steps.get(task_id), str(ending)):
                continue
            if self._is_full():
                return
            assign_mark(view.step(task_id), view.run.marks[-1], self.now)
            self.wakes_waiting_runs |= view.dag.tasks[task_id].depends_on_past

    def _finish(self, state: str) -> None:
        view = self.view
        self._for_each_step(lambda step: expire_step(step, self.now))
        if self.is_partial:
            return
        add_up_costs(view)
        end_run(view.run, view.row, state, now=self.now, backfill=view.backfill)

    def _continue(self) -> None:
        view = self.view
        # One that waits for a limit is decided upon anew.
        states = {
            step_id: NONE if step.state == SCHEDULED else step.state
            for step_id, step in view.steps.items()
        }
        retries = [
            step.step_id
            for step in view.steps.values()
            if step.state == UP_FOR_RETRY
            and step.retry_at is not None
            and step.retry_at <= self.now
        ]
        found = next_steps(view.dag, removed_tasks(view.dag, view.run) | states, also_ready=retries)
        for task_id, state in found.moves.items():
            if self._is_full():
                return
            self._end_without_a_job(task_id, state)
        if found.final_state is not None:
            self._finish(found.final_state)
            return
        if self._waits_for_past(found.ready):
            if view.row is not None:  # a slot of a backfill is never given back
                slots.give_back(view.row, view.run.run_key)
        elif view.row is not None and view.has_given_back:
            slots.queue_again(view.row, view.run.run_key, now=self.now)
        elif self._may_start():
            self._start(found.ready)
        else:
            self._for_each_step(stop_waiting)  # others need not wait behind it

    def _waits_for_past(self, ready: Sequence[str]) -> bool:
        """Return whether the run cannot continue until the previous run makes progress."""
        view = self.view
        is_busy = any(
            step.state in LIVE | {SCHEDULED, UP_FOR_RETRY} for step in view.steps.values()
        )
        if is_busy or view.run.slot_backfill_id is not None:
            return False
        if not (view.holds_slot or view.has_given_back):
            return False  # it holds no slot
        return all(waits_for_past(view, task_id) for task_id in ready)

    def _end_without_a_job(self, task_id: str, state: str, error: str | None = None) -> None:
        step = self.view.step(task_id)
        move_step(step, state)
        step.error = error
        step.ended_at = self.now
        set_expiry(step, self.now)
        self.wakes_waiting_runs |= self.view.dag.tasks[task_id].depends_on_past

    def _may_start(self) -> bool:
        """Return whether the run may start jobs: not while paused, nor without a slot."""
        row, run = self.view.row, self.view.run
        if row is not None and row.is_paused:
            return False
        if run.slot_backfill_id is not None:
            return run.state != QUEUED or may_begin(self.view.backfill)
        return self.view.holds_slot

    def _start(self, ready: Sequence[str]) -> None:
        view = self.view
        for step in view.live:
            if step.state == SUBMITTED and step.job_run_id is None:
                if self._is_full():
                    return
                self._start_again(step)
        places = view.dag.max_active_tasks - len(view.live)
        for task_id in ready:
            if places <= 0:
                return
            if self._has_reserved(view.steps.get(task_id)) or waits_for_past(view, task_id):
                continue
            if not self.permissions.can_start:
                self.needs_submit = True
                return
            if self._is_full():
                return
            places -= self._admit(task_id)

    def _has_reserved(self, step: Steps | None) -> bool:
        """Return whether a start is reserved for a step, and its message has not been lost."""
        if step is None or step.start_reserved_at is None or self.admission.permits:
            return False
        resend_at = step.start_reserved_at.add(seconds=settings.current().resend_after_seconds)
        return bool(self.now < resend_at)

    def _admit(self, task_id: str) -> bool:
        """Submit a step, or let it wait for a limit; return whether its job is started."""
        view, task = self.view, self.view.dag.tasks[task_id]
        executor = executors.for_task(task)
        if not has_limits(task, executor):
            return self._submit(task_id)
        step = view.step(task_id)
        entry = WaitingStep(
            *view.name,
            task_id,
            self.now if step.waits_since is None else step.waits_since,
            turn_of(weight_of(view.dag, task_id), view.run.run_after),
        )
        try:
            admitted = self.admission.admit(
                entry,
                task,
                executor,
                now=self.now,
                taken={change.limit_id: change.taken for change in view.limit_changes()},
                is_reserved=step.start_reserved_at is not None,
            )
        except DefinitionError as error:
            self._end_without_a_job(task_id, FAILED, str(error))
            self.is_partial = True  # other steps may follow from that
            return False
        if isinstance(admitted, Wait):
            self._wait(step, entry, admitted)
            return False
        is_submitted = self._submit(task_id)
        step.holds = dict(admitted) or None if is_submitted else None
        return is_submitted

    def _wait(self, step: Steps, entry: WaitingStep, wait: Wait) -> None:
        if step.state != SCHEDULED:
            move_step(step, SCHEDULED)
            step.retry_at = None
        if step.waits_for != wait.limit_id:
            self.report.waiting_steps += 1
            if wait.until is None:
                self.view.waits.setdefault(wait.limit_id, wait.lacks)
        step.waits_for, step.waits_since = wait.limit_id, entry.since
        step.turn, step.start_reserved_at = entry.turn, wait.until
        at = wait.until or wait.look_at
        if at is not None:
            self.looks.add((wait.limit_id, at))

    def _start_again(self, step: Steps) -> None:
        """Start the job of a submission for which no job is recorded."""
        if not self.permissions.can_start:
            # The writer may be about to start it, or has sent a message to try again.
            self.needs_submit |= self.is_due
            return
        # As for the first time, so that it is not taken for never started; but never the same
        # instant, so that whoever asked first knows that it was not alone.
        step.asked_at = max(self.now, step.submitted_at.add(microseconds=1))
        try:
            self._prepare(step)
        except DefinitionError as error:
            # It can no longer be started; it may have a job all the same.
            move_step(step, CANCELLING)
            step.cancel_action = CANCEL
            step.error = str(error)

    def _prepare(self, step: Steps) -> None:
        """Have the job of a step started, unless its templates cannot be rendered."""
        view, reader = self.view, self.view.reader
        if self._variables is None:
            self._variables = reader.variables()
        read = sorted(steps_read(view.dag.tasks[step.step_id]))
        self.starts.append(
            prepare(
                view.run,
                step,
                view.dag,
                variables=self._variables,
                outputs={task_id: self._outputs_of(task_id) for task_id in read},
                read_events=reader.triggering_events,
            )
        )

    def _outputs_of(self, task_id: str) -> Mapping[str, Any]:
        step = self.view.steps.get(task_id)
        if step is None:
            return {}  # its dates leave this run out
        if task_id not in self._outputs:
            self._outputs[task_id] = self.view.reader.outputs_of(self.view.run, step)
        return self._outputs[task_id]

    def _submit(self, task_id: str) -> bool:
        """Mark the step as submitted; return False if no job can be prepared for it."""
        run, step = self.view.run, self.view.step(task_id)
        step.submission += 1
        step.try_number += 1
        task = self.view.dag.tasks[task_id]
        executor = executors.for_task(task)
        step.executor = executor.name
        step.report_secret = token_urlsafe()
        step.submitted_at = step.asked_at = self.now
        step.job_run_id = step.started_at = step.ended_at = step.retry_at = step.error = None
        step.marked = None
        limit = task.execution_timeout
        step.scheduler_timeout_seconds = None
        if limit is not None and limit < executor.min_timeout:
            step.scheduler_timeout_seconds = limit.total_seconds()
        try:
            self._prepare(step)
        except DefinitionError as error:
            self._end_without_a_job(task_id, FAILED, str(error))
            self.is_partial = True  # other steps may follow from that
            return False
        move_step(step, SUBMITTED)
        if run.state == QUEUED:
            move_run(run, RUNNING)
            set_state_columns(run, self.now)
            run.started_at = self.now
        return True

    # When to look again.

    def _wake_at(self) -> DateTime:
        view, given = self.view, settings.current()
        soon = self.now.add(seconds=given.resend_after_seconds)
        began_at = view.run.queued_at if view.run.started_at is None else view.run.started_at
        age = seconds_since(began_at, self.now)
        sleep = min(max(age, given.job_poll_seconds), _LONGEST_SLEEP_SECONDS)
        instants = [self.now.add(seconds=sleep)]
        if self.needs_submit or self.is_partial:
            instants.append(soon)
        for step in view.steps.values():
            if step.state == CANCELLING:
                instants.append(soon)
            if step.start_reserved_at is not None:
                instants.append(step.start_reserved_at.add(seconds=given.resend_after_seconds))
            if step.state == UP_FOR_RETRY and step.retry_at is not None:
                # If it is overdue, it waits for something else: a free slot, an unpaused DAG.
                instants.append(max(step.retry_at, soon))
        deadlines = [run_deadline(view), *(deadline_of(view, step) for step in view.steps.values())]
        return min([*instants, *(at for at in deadlines if at is not None)])
