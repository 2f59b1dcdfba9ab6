"""One look at a run: what follows from all that is known of it. Assigns only.

Owns: what is decided, and in which order. Someone commits it, and only then `acts` does it; a turn
that is not committed has done nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.errors import DefinitionError
from lamplighter.runs.finish import end_run
from lamplighter.runs.job_request import prepare
from lamplighter.runs.marking import assign_mark, is_to_be_marked
from lamplighter.runs.moves import (
    CANCELLED,
    CANCELLING,
    FAILED,
    LIVE,
    OVER,
    QUEUED,
    RUNNING,
    SUBMITTED,
    UP_FOR_RETRY,
    move_run,
    move_step,
)
from lamplighter.runs.observe import (
    CANCEL,
    Seen,
    add_up_costs,
    deadline_of,
    end_step,
    expire,
    keep,
    keep_or_expire,
    observe,
    time_out,
    time_out_step,
)
from lamplighter.runs.outlets import room_needed
from lamplighter.runs.past import waits_for_past
from lamplighter.runs.plan import plan, removed_tasks
from lamplighter.runs.report import RunsReport
from lamplighter.runs.start import Start
from lamplighter.runs.view import RunView, seconds_since
from lamplighter.store import slots
from lamplighter.store.backfills import has_to_end, may_begin
from lamplighter.store.models import AssetEvents, Steps
from lamplighter.store.runs import FINISHED, set_state_columns

# A transaction also holds the run and its DAG.
_OTHER_WRITES = 2
_LONGEST_SLEEP_SECONDS = 1_800
# EMR Serverless ends a job itself when its time is up, but not before five minutes.
SHORT_SECONDS = 300


@dataclass(frozen=True)
class Hands:
    """What the function may do that moves the run; the rest it leaves to another one."""

    can_start: bool = False
    can_cancel: bool = False


SUBMIT = Hands(can_start=True)
SETTLE = Hands(can_cancel=True)


@dataclass(eq=False)
class Turn:
    """One look at a run, and what came of it."""

    view: RunView
    hands: Hands
    report: RunsReport
    now: DateTime = field(default_factory=clock.now)
    is_cut_short: bool = False
    starts: list[Start] = field(default_factory=list)
    strays: list[Seen] = field(default_factory=list)
    events: list[AssetEvents] = field(default_factory=list)
    # Steps that another function has to start.
    is_handed_over: bool = False
    wakes_others: bool = False

    def decide(self, seen: Iterable[Seen]) -> None:
        """Assign all that follows from what is known."""
        view = self.view
        for one in seen:
            self._see(one)
        if view.run.state in FINISHED:
            return
        self._heed_its_backfill()
        self._for_each_step(lambda step: keep(step, self.now))
        time_out(view, self.now)
        self._for_each_step(lambda step: time_out_step(view, step, self.now))
        if view.run.target_state is not None:
            self._end_early()
        elif not self.is_cut_short:
            self._carry_on()
        if view.run.state not in FINISHED and (view.is_changed or self.is_due):
            view.run.wake_at = self._wake_at()

    @property
    def is_due(self) -> bool:
        """Whether it is time to look at the run, though nobody has asked for it."""
        wake_at = self.view.run.stored.get("wake_at")
        return wake_at is not None and wake_at <= self.now

    @property
    def has_to_write(self) -> bool:
        return self.view.is_changed

    @property
    def shares_a_row(self) -> bool:
        """Whether it writes a row that another run of the same DAG may write too."""
        return any(
            row is not None and row.is_changed for row in (self.view.row, self.view.backfill)
        )

    @property
    def _room(self) -> int:
        return settings.current().transaction_actions - _OTHER_WRITES - self.view.size

    def _see(self, seen: Seen) -> None:
        task = self.view.dag.tasks.get(seen.place.task_id)
        needed = 0 if task is None else 1 + room_needed(task, seen.report)
        if needed > self._room and self.view.size:
            self.is_cut_short = True
            return
        events = observe(self.view, seen, now=self.now)
        if events is None:
            if not seen.job.state.is_over:
                self.strays.append(seen)
        else:
            self.events += events
        step = self.view.steps.get(seen.place.task_id)
        if task is not None and task.depends_on_past and step is not None and step.state in OVER:
            self.wakes_others = True

    def _for_each_step(self, change: Callable[[Steps], None]) -> None:
        """Change steps as far as a transaction holds them."""
        room = self._room
        for step in self.view.steps.values():
            if room <= 0:
                self.is_cut_short = True
                return
            was_changed = step.is_changed
            change(step)
            room -= step.is_changed and not was_changed

    def _heed_its_backfill(self) -> None:
        """Let a run end whose backfill was cancelled before it began, or with all that runs."""
        run = self.view.run
        is_queued = run.state == QUEUED
        if run.target_state is None and has_to_end(self.view.backfill, is_queued=is_queued):
            run.target_state, run.reason = (
                CANCELLED,
                f"backfill {run.slot_backfill_id} was cancelled",
            )

    def _end_early(self) -> None:
        self._mark_steps()
        self._for_each_step(lambda step: end_step(self.view, step, self.now))
        if not (self.is_cut_short or self.view.live):
            assert self.view.run.target_state is not None
            self._finish(self.view.run.target_state)

    def _mark_steps(self) -> None:
        """Let the steps of a run that was marked be what that means for them."""
        view, ending = self.view, self.view.run.target_state
        removed = removed_tasks(view.dag, view.run)
        for task_id in sorted(view.dag.tasks.keys() - removed.keys()):
            if not is_to_be_marked(view.steps.get(task_id), str(ending)):
                continue
            if self._room <= 0:
                self.is_cut_short = True
                return
            assign_mark(view.step(task_id), view.run.marks[-1], self.now)
            self.wakes_others |= view.dag.tasks[task_id].depends_on_past

    def _finish(self, state: str) -> None:
        view = self.view
        self._for_each_step(lambda step: expire(step, self.now))
        if self.is_cut_short:
            return
        add_up_costs(view)
        end_run(view.run, view.row, state, now=self.now, backfill=view.backfill)

    def _carry_on(self) -> None:
        view = self.view
        states = {step_id: step.state for step_id, step in view.steps.items()}
        retries = [step.step_id for step in view.steps.values() if self._is_to_retry(step)]
        found = plan(view.dag, removed_tasks(view.dag, view.run) | states, also_ready=retries)
        for task_id, state in found.moves.items():
            if self._room <= 0:
                self.is_cut_short = True
                return
            self._end_without_a_job(task_id, state)
        if found.outcome is not None:
            self._finish(found.outcome)
            return
        if self._waits_for_past(found.ready):
            if view.row is not None:  # a slot of a backfill is never given back
                slots.give_back(view.row, view.run.run_key)
        elif view.row is not None and view.has_given_back:
            slots.queue_again(view.row, view.run.run_key, now=self.now)
        elif self._may_start():
            self._start(found.ready)

    def _waits_for_past(self, ready: Sequence[str]) -> bool:
        """Return whether the run can do nothing until the run before it has got on."""
        view = self.view
        is_busy = any(step.state in LIVE | {UP_FOR_RETRY} for step in view.steps.values())
        if is_busy or view.run.slot_backfill_id is not None:
            return False
        if not (view.holds_slot or view.has_given_back):
            return False  # it has nothing to give back
        return all(waits_for_past(view, task_id) for task_id in ready)

    def _is_to_retry(self, step: Steps) -> bool:
        return (
            step.state == UP_FOR_RETRY and step.retry_at is not None and step.retry_at <= self.now
        )

    def _end_without_a_job(self, task_id: str, state: str, error: str | None = None) -> None:
        step = self.view.step(task_id)
        move_step(step, state)
        step.error = error
        step.ended_at = self.now
        keep_or_expire(step, self.now)
        self.wakes_others |= self.view.dag.tasks[task_id].depends_on_past

    def _may_start(self) -> bool:
        """Return whether the run may begin something new: not while paused, nor without a slot."""
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
                if self._room <= 0:
                    self.is_cut_short = True
                    return
                self._start_again(step)
        places = view.dag.max_active_tasks - len(view.live)
        for task_id in ready:
            if places <= 0:
                return
            if waits_for_past(view, task_id):
                continue
            if not self.hands.can_start:
                self.is_handed_over = True
                return
            if self._room <= 0:
                self.is_cut_short = True
                return
            places -= self._submit(task_id)

    def _start_again(self, step: Steps) -> None:
        """Start a job of which nobody has noted that it was started."""
        if not self.hands.can_start:
            # Whoever wrote the row may be about to, or has said when to try again.
            self.is_handed_over |= self.is_due
            return
        # Written like the first time: nobody may believe meanwhile that there will be no job.
        step.asked_at = self.now
        try:
            job = prepare(self.view.run, step, self.view.dag)
        except DefinitionError as error:
            self._give_up(step, str(error))
        else:
            self.starts.append(Start(step, job))

    def _give_up(self, step: Steps, why: str) -> None:
        """Stop a step that can no longer be started; if it was, its job is found and cancelled."""
        move_step(step, CANCELLING)
        step.cancel_action = CANCEL
        step.error = why

    def _submit(self, task_id: str) -> bool:
        """Let a step be on its way to a job; return False if there can be none."""
        run, step = self.view.run, self.view.step(task_id)
        step.submission += 1
        step.try_number += 1
        step.submitted_at = step.asked_at = self.now
        step.job_run_id = step.started_at = step.ended_at = step.retry_at = step.error = None
        step.marked = None
        step.scheduler_timeout_seconds = self._short_limit(task_id)
        try:
            job = prepare(run, step, self.view.dag)
        except DefinitionError as error:
            self._end_without_a_job(task_id, FAILED, str(error))
            self.is_cut_short = True  # others may follow from that
            return False
        move_step(step, SUBMITTED)
        self.starts.append(Start(step, job))
        if run.state == QUEUED:
            move_run(run, RUNNING)
            set_state_columns(run, self.now)
            run.started_at = self.now
        return True

    def _short_limit(self, task_id: str) -> float | None:
        """Return a time limit that is too short for EMR Serverless to keep it."""
        limit = self.view.dag.tasks[task_id].execution_timeout
        seconds = SHORT_SECONDS if limit is None else limit.total_seconds()
        return seconds if seconds < SHORT_SECONDS else None

    # When to look again.

    def _wake_at(self) -> DateTime:
        view, given = self.view, settings.current()
        soon = self.now.add(seconds=given.resend_after_seconds)
        began_at = view.run.queued_at if view.run.started_at is None else view.run.started_at
        age = seconds_since(began_at, self.now)
        sleep = min(max(age, given.job_poll_seconds), _LONGEST_SLEEP_SECONDS)
        instants = [self.now.add(seconds=sleep)]
        if self.is_handed_over or self.is_cut_short:
            instants.append(soon)
        for step in view.steps.values():
            if step.state == CANCELLING:
                instants.append(soon)
            if step.state == UP_FOR_RETRY and step.retry_at is not None:
                # If its time has come, it waits for something else: a place, an un-paused DAG.
                instants.append(max(step.retry_at, soon))
            deadline = deadline_of(view, step)
            instants += [deadline] if deadline is not None else []
        limit = view.dag.dagrun_timeout
        if limit is not None and view.run.started_at is not None and view.run.target_state is None:
            instants.append(view.run.started_at + limit)
        return min(instants)
