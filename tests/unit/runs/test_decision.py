"""What a run's next moves are: tables of rows before and after, with no table behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import DAG, runtime
from lamplighter.events.lineage import RunEvents
from lamplighter.executors.base import Executor, Job, JobState
from lamplighter.executors.emr import EmrServerless
from lamplighter.runs.decision import (
    SETTLE,
    SUBMIT,
    JobPermissions,
    RunDecision,
    RunsReport,
)
from lamplighter.runs.job_observation import JobObservation
from lamplighter.runs.job_request import JobName
from lamplighter.runs.view import RunReader
from lamplighter.settings import Settings
from lamplighter.store.models import AssetEvents, Backfills, Dags, Runs
from lamplighter.store.slots import waiting_entry
from tests.unit.runs.rows import (
    MIDNIGHT,
    NOON,
    OtherRuns,
    as_read,
    make_dag,
    make_run,
    make_step,
    make_view,
    values_of,
)

pytestmark = pytest.mark.usefixtures("in_name_only")

NOW = datetime(2026, 2, 1, 13)
BEGAN = NOW.subtract(minutes=10)
AGO = NOW.subtract(seconds=1)
LATER = NOW.add(minutes=30)
NOTHING: Mapping[str, Any] = MappingProxyType({})

StepColumns = dict[str, dict[str, Any]]

DONE = {"state": "success"}
FAILED = {"state": "failed"}
RUNNING = {"state": "running", "job_run_id": "j-1", "started_at": BEGAN}
STARTING = {"state": "submitted", "job_run_id": None, "submitted_at": BEGAN, "asked_at": BEGAN}


def chain(**options: Any) -> DAG:
    """Return two tasks, `a` before `b`, both with options."""
    return make_dag([("a", "b")], a=options, b=options)


def make_row(run: Runs, **columns: Any) -> Dags:
    """Return the row of the run's DAG, of which the run occupies a slot."""
    return as_read(Dags("orders", **{"active": {run.run_key}, "max_active_runs": 16, **columns}))


@dataclass
class Known:
    """What is known of a run when someone looks at it."""

    dag: DAG
    steps: StepColumns = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)
    row: Mapping[str, Any] | None = field(default_factory=dict)
    backfill: Backfills | None = None
    reader: RunReader | None = None

    def decide(
        self,
        permissions: JobPermissions = SUBMIT,
        *,
        observations: Sequence[JobObservation] = (),
        executor: Executor | None = None,
    ) -> RunDecision:
        """Return the decision about it at one in the afternoon."""
        columns = {"state": "running", "started_at": BEGAN, "rev": 3, **self.run}
        run = as_read(make_run(**columns))
        steps = [as_read(make_step(run, name, **each)) for name, each in self.steps.items()]
        row = None if self.row is None else make_row(run, **self.row)
        view = make_view(self.dag, run, *steps, row=row, backfill=self.backfill, reader=self.reader)
        decision = RunDecision(view, permissions, RunsReport(), NOW)
        with runtime.using(executor=executor or EmrServerless()):
            decision.decide(observations)
        return decision


def states_of(decision: RunDecision) -> dict[str, str]:
    """Return the state of every step that has one."""
    return {name: step.state for name, step in sorted(decision.view.steps.items())}


def started(decision: RunDecision) -> list[str]:
    """Return the steps whose jobs are to be started, in order."""
    return [start.step.step_id for start in decision.starts]


# The steps of a run, one after the other.


@dataclass(frozen=True)
class Row:
    """One row of a table: what is known, who looks, and what comes of it."""

    id: str
    steps: StepColumns
    after: dict[str, str]
    run: str = "running"
    starts: tuple[str, ...] = ()
    needs_submit: bool = False
    by: JobPermissions = SUBMIT
    columns: Mapping[str, Any] = field(default_factory=dict)
    row: Mapping[str, Any] = field(default_factory=dict)


NEW = {"state": "queued", "started_at": None}
DUE = {"wake_at": AGO}
NOT_DUE = {"wake_at": LATER}
RETRY_NOW = {"state": "up_for_retry", "retry_at": AGO, "error": "it broke"}
RETRY_LATER = {"state": "up_for_retry", "retry_at": LATER, "error": "it broke"}
HAS_JOB = {**STARTING, "job_run_id": "j-1"}
CANCELLING = {"state": "cancelling", "cancel_action": "cancel", "job_run_id": "j-1"}

MOVES = [
    Row("new run begins", {}, {"a": "submitted"}, starts=("a",), columns=NEW),
    Row(
        "new run is left to submit", {}, {}, run="queued", needs_submit=True, by=SETTLE, columns=NEW
    ),
    Row(
        "new run of a paused DAG waits",
        {},
        {},
        run="queued",
        columns=NEW,
        row={"is_paused": True},
    ),
    Row("new run without a slot waits", {}, {}, run="queued", columns=NEW, row={"active": None}),
    Row("first step is being started", {"a": HAS_JOB}, {"a": "submitted"}),
    Row("first step runs", {"a": RUNNING}, {"a": "running"}),
    Row("first step runs, settle looks", {"a": RUNNING}, {"a": "running"}, by=SETTLE),
    Row(
        "second step follows the first",
        {"a": DONE},
        {"a": "success", "b": "submitted"},
        starts=("b",),
    ),
    Row(
        "second step is left to submit", {"a": DONE}, {"a": "success"}, needs_submit=True, by=SETTLE
    ),
    Row(
        "second step waits while the DAG is paused",
        {"a": DONE},
        {"a": "success"},
        row={"is_paused": True},
    ),
    Row(
        "failure ends all that follows",
        {"a": FAILED},
        {"a": "failed", "b": "upstream_failed"},
        run="failed",
    ),
    Row(
        "failure ends all that follows, also when paused",
        {"a": FAILED},
        {"a": "failed", "b": "upstream_failed"},
        run="failed",
        row={"is_paused": True},
    ),
    Row(
        "skip skips all that follows",
        {"a": {"state": "skipped"}},
        {"a": "skipped", "b": "skipped"},
        run="success",
    ),
    Row(
        "success of the last ends the run",
        {"a": DONE, "b": DONE},
        {"a": "success", "b": "success"},
        run="success",
    ),
    Row(
        "failure of the last ends the run",
        {"a": DONE, "b": FAILED},
        {"a": "success", "b": "failed"},
        run="failed",
    ),
    Row("last step still runs", {"a": DONE, "b": RUNNING}, {"a": "success", "b": "running"}),
    Row("retry whose time has come", {"a": RETRY_NOW}, {"a": "submitted"}, starts=("a",)),
    Row(
        "retry whose time has come is left to submit",
        {"a": RETRY_NOW},
        {"a": "up_for_retry"},
        needs_submit=True,
        by=SETTLE,
    ),
    Row("retry whose time has not come", {"a": RETRY_LATER}, {"a": "up_for_retry"}),
    Row(
        "retry waits while the DAG is paused",
        {"a": RETRY_NOW},
        {"a": "up_for_retry"},
        row={"is_paused": True},
    ),
    Row(
        "job that nobody noted is started again", {"a": STARTING}, {"a": "submitted"}, starts=("a",)
    ),
    Row(
        "job that nobody noted may just be starting",
        {"a": STARTING},
        {"a": "submitted"},
        by=SETTLE,
        columns=NOT_DUE,
    ),
    Row(
        "job that nobody noted for long is left to submit",
        {"a": STARTING},
        {"a": "submitted"},
        needs_submit=True,
        by=SETTLE,
        columns=DUE,
    ),
    Row("job that is being cancelled is waited for", {"a": CANCELLING}, {"a": "cancelling"}),
    Row(
        "cleared step begins again",
        {"a": DONE, "b": {"state": "none"}},
        {"a": "success", "b": "submitted"},
        starts=("b",),
    ),
]


@pytest.mark.parametrize("row", MOVES, ids=lambda row: row.id)
def test_next_moves_follow_from_the_states_of_the_steps(row: Row) -> None:
    """A run goes as far as its steps, its slot and the function that looks at it allow."""
    decision = Known(chain(), row.steps, row.columns, row.row).decide(row.by)
    assert states_of(decision) == row.after
    assert decision.view.run.state == row.run
    assert (tuple(started(decision)), decision.needs_submit) == (row.starts, row.needs_submit)
    assert not decision.is_partial


@pytest.mark.parametrize("row", MOVES, ids=lambda row: row.id)
def test_same_decision_again_changes_nothing_more(row: Row) -> None:
    """Whoever looks at the rows as they were written finds nothing new, but what is under way."""
    first = Known(chain(), row.steps, row.columns, row.row).decide(row.by)
    view = first.view
    rows = [view.run, view.row, *view.steps.values()]
    for each in rows:
        assert each is not None
        as_read(each)
    again = RunDecision(replace(view, puts=[]), row.by, RunsReport(), NOW)
    again.decide(())
    assert states_of(again) == row.after
    assert again.view.run.state == row.run
    assert set(started(again)) <= set(row.starts)


# Several steps at once.


@pytest.mark.parametrize(
    ("limit", "steps", "starts"),
    [
        (16, {}, ["heavy", "a", "b", "c"]),
        (2, {}, ["heavy", "a"]),
        (2, {"a": RUNNING}, ["heavy"]),
        (2, {"a": RUNNING, "b": RUNNING}, []),
        (2, {"a": CANCELLING, "b": RUNNING}, []),
        (2, {"a": DONE, "b": FAILED}, ["heavy", "c"]),
        (2, {"a": RETRY_NOW, "b": RETRY_LATER}, ["heavy", "a"]),
        (1, {"c": STARTING}, ["c"]),
        (2, {"c": STARTING}, ["c", "heavy"]),
    ],
    ids=[
        "all fit",
        "two places",
        "one place left",
        "no place left",
        "a job that is being cancelled has its place",
        "what is over has no place",
        "a retry has its place in line",
        "a job that is started again has its place already",
        "a job that is started again comes first",
    ],
)
def test_steps_start_in_order_while_there_are_places(
    limit: int, steps: StepColumns, starts: list[str]
) -> None:
    """No more tasks are active at once than the DAG allows, the weightiest first."""
    dag = make_dag(a={}, b={}, c={}, heavy={"priority_weight": 5})
    dag.max_active_tasks = limit
    assert started(Known(dag, steps).decide()) == starts


def test_transaction_that_is_full_is_continued_later(in_name_only: Settings) -> None:
    """As many steps as a transaction holds are decided about; the rest follows in another one."""
    names = [f"t{number:02}" for number in range(20)]
    dag = make_dag(**{key: {} for key in names})
    with runtime.using(settings=replace(in_name_only, transaction_actions=10)):
        decision = Known(dag).decide()
    assert (started(decision), decision.is_partial) == (names[:5], True)


def test_failures_that_do_not_fit_are_continued_later(in_name_only: Settings) -> None:
    """A run does not end before the rows of all its steps are written."""
    names = [f"t{number:02}" for number in range(20)]
    dag = make_dag([("first", name) for name in names], first={}, **{key: {} for key in names})
    with runtime.using(settings=replace(in_name_only, transaction_actions=10)):
        decision = Known(dag, {"first": FAILED}).decide()
    assert list(states_of(decision).values()).count("upstream_failed") == 5
    assert (decision.is_partial, decision.view.run.state) == (True, "running")


# What a submission writes.


def test_submission_is_written_with_all_that_it_needs() -> None:
    """The row says which submission and try it is, when it was decided, and who gets the job."""
    decision = Known(chain(), run=NEW).decide()
    (start,) = decision.starts
    step = decision.view.steps["a"]
    assert start.step is step
    assert (step.submission, step.try_number, step.executor) == (1, 1, "emr-serverless")
    assert values_of(step, "submitted_at", "asked_at", "job_run_id") == [NOW, NOW, None]
    assert start.request.token == JobName.of(decision.view.run, step).token
    assert decision.view.run.started_at == NOW


def test_submission_of_a_retry_forgets_the_attempt_before() -> None:
    """Nothing of an earlier job is taken for something about the new one."""
    old = {**RETRY_NOW, "submission": 4, "try_number": 2, "job_run_id": "old", "started_at": BEGAN}
    step = (
        Known(chain(), {"a": {**old, "ended_at": BEGAN, "executor": "old"}})
        .decide()
        .view.steps["a"]
    )
    assert (step.submission, step.try_number, step.executor) == (5, 3, "emr-serverless")
    cleared = ("job_run_id", "started_at", "ended_at", "retry_at", "error")
    assert values_of(step, *cleared) == [None] * len(cleared)


def test_job_that_is_started_again_is_the_same_submission() -> None:
    """A submission is decided once: its number and its executor stay, whoever starts it."""
    before = {**STARTING, "submission": 4, "executor": "elsewhere"}
    step = Known(chain(), {"a": before}).decide().view.steps["a"]
    assert (step.submission, step.executor, step.submitted_at) == (4, "elsewhere", BEGAN)
    assert step.asked_at == NOW


class Elsewhere(EmrServerless):
    """An executor that enforces every time limit itself."""

    name = "elsewhere"
    min_timeout = timedelta(0)


@pytest.mark.parametrize(
    ("limit", "executor", "seconds"),
    [
        (None, EmrServerless(), None),
        (60, EmrServerless(), 60),
        (299, EmrServerless(), 299),
        (300, EmrServerless(), None),
        (3_600, EmrServerless(), None),
        (60, Elsewhere(), None),
    ],
    ids=["no limit", "short", "a second too short", "just long enough", "long", "kept elsewhere"],
)
def test_time_limit_too_short_for_its_executor_is_watched_by_us(
    limit: int | None, executor: Executor, seconds: float | None
) -> None:
    """Only what the executor does not enforce itself is noted for the scheduler."""
    timeout = None if limit is None else timedelta(seconds=limit)
    decision = Known(make_dag(a={"execution_timeout": timeout})).decide(executor=executor)
    step = decision.view.steps["a"]
    assert (step.scheduler_timeout_seconds, step.executor) == (seconds, executor.name)


BROKEN = {"arguments": ["{{ params.nothing }}"]}


def test_step_whose_templates_fail_ends_without_a_job() -> None:
    """What it was to be started with cannot be made, and never could; others follow from that."""
    decision = Known(make_dag([("a", "b")], a=BROKEN, b={})).decide()
    assert (states_of(decision), started(decision)) == ({"a": "failed"}, [])
    assert "nothing" in (decision.view.steps["a"].error or "")
    assert decision.is_partial


def test_step_that_can_no_longer_be_started_is_cancelled() -> None:
    """It may have been started once, so that its job is looked for before it ends."""
    decision = Known(make_dag(a=BROKEN), {"a": STARTING}).decide()
    step = decision.view.steps["a"]
    assert (step.state, step.cancel_action, started(decision)) == ("cancelling", "cancel", [])


def test_events_of_a_run_are_read_when_a_job_needs_them() -> None:
    """Only a run that consumed events asks for them, and only when it starts something."""

    class Events(OtherRuns):
        asked = 0

        def triggering_events(self, run: Runs) -> RunEvents:
            """Return an event of one asset."""
            assert run.events
            self.asked += 1
            event = AssetEvents("orders", "e1", seq=1, timestamp=NOW, extra={"day": 1})
            return RunEvents([("orders", event)], {})

    reader = Events()
    dag = make_dag(a={"arguments": ["{{ triggering_asset_events['orders'][0].extra.day }}"]})
    Known(dag, {"a": RUNNING}, {"events": {"x": (0, 1)}}, reader=reader).decide()
    assert reader.asked == 0
    decision = Known(dag, {}, {"events": {"x": (0, 1)}}, reader=reader).decide()
    assert (started(decision), reader.asked) == (["a"], 1)
    assert '"arguments": ["1"]' in decision.starts[0].context


# Runs that are being ended.


@dataclass(frozen=True)
class End:
    """One row of a table: a run that is to be over, and how far that has come."""

    id: str
    steps: StepColumns
    after: dict[str, str]
    run: str
    columns: Mapping[str, Any] = field(
        default_factory=lambda: {"target_state": "cancelled", "reason": "asked"}
    )


MARK = {"at": "", "by": "me", "task_id": None, "from": "running", "to": "success", "why": "known"}
MARKED = {"target_state": "success", "marks": [MARK]}

ENDS = [
    End("nothing began", {}, {}, "cancelled"),
    End("nothing began, still queued", {}, {}, "cancelled", {**NEW, "target_state": "cancelled"}),
    End("job runs", {"a": RUNNING}, {"a": "cancelling"}, "running"),
    End("job is being started", {"a": HAS_JOB}, {"a": "cancelling"}, "running"),
    End("job may have been started", {"a": STARTING}, {"a": "cancelling"}, "running"),
    End("job is being cancelled", {"a": CANCELLING}, {"a": "cancelling"}, "running"),
    End("retry is not tried", {"a": RETRY_LATER}, {"a": "failed"}, "cancelled"),
    End("what is over stays", {"a": DONE}, {"a": "success"}, "cancelled"),
    End("what failed stays", {"a": FAILED}, {"a": "failed"}, "cancelled"),
    End("target failed", {"a": DONE}, {"a": "success"}, "failed", {"target_state": "failed"}),
    End("marked, nothing began", {}, {"a": "success", "b": "success"}, "success", MARKED),
    End("marked, job runs", {"a": RUNNING}, {"a": "cancelling", "b": "success"}, "running", MARKED),
    End("marked, step failed", {"a": FAILED}, {"a": "success", "b": "success"}, "success", MARKED),
    End(
        "marked, skipped step stays",
        {"a": {"state": "skipped"}},
        {"a": "skipped", "b": "success"},
        "success",
        MARKED,
    ),
    End(
        "marked, retry is not tried",
        {"a": RETRY_LATER},
        {"a": "success", "b": "success"},
        "success",
        MARKED,
    ),
]


@pytest.mark.parametrize("row", ENDS, ids=lambda row: row.id)
@pytest.mark.parametrize("by", [SUBMIT, SETTLE], ids=["submit", "settle"])
def test_run_that_is_being_ended_ends_with_its_last_job(row: End, by: JobPermissions) -> None:
    """Nothing new begins, live jobs are cancelled, and the run is over when none is left."""
    decision = Known(chain(), row.steps, row.columns).decide(by)
    assert states_of(decision) == row.after
    assert (decision.view.run.state, started(decision)) == (row.run, [])
    is_over = row.run != "running"
    assert (decision.view.run.target_state is None) == is_over


@pytest.mark.parametrize(
    ("limit", "steps", "after", "run"),
    [
        (timedelta(minutes=11), {"a": RUNNING}, {"a": "running"}, "running"),
        (timedelta(minutes=10), {"a": RUNNING}, {"a": "cancelling"}, "running"),
        (timedelta(minutes=10), {"a": DONE}, {"a": "success"}, "failed"),
        (timedelta(minutes=10), {"a": RETRY_LATER}, {"a": "failed"}, "failed"),
    ],
    ids=["time left", "time is up", "time is up between steps", "time is up before a retry"],
)
def test_run_fails_when_its_time_is_up(
    limit: timedelta, steps: StepColumns, after: dict[str, str], run: str
) -> None:
    """`dagrun_timeout` counts from the run's beginning, and says so."""
    dag = chain()
    dag.dagrun_timeout = limit
    decision = Known(dag, steps).decide(SETTLE)
    assert (states_of(decision), decision.view.run.state) == (after, run)
    is_up = limit == timedelta(minutes=10)
    assert (decision.view.run.reason or "").startswith("dagrun_timeout") == is_up


@pytest.mark.parametrize(
    ("step", "state", "action"),
    [
        ({**RUNNING, "started_at": NOW.subtract(minutes=4)}, "running", None),
        ({**RUNNING, "started_at": NOW.subtract(minutes=5)}, "cancelling", "timeout"),
        ({**HAS_JOB, "submitted_at": NOW.subtract(hours=5)}, "submitted", None),
        ({**CANCELLING, "started_at": NOW.subtract(hours=5)}, "cancelling", "cancel"),
    ],
    ids=["time left", "time is up", "time in the queue does not count", "already cancelled"],
)
def test_step_is_cancelled_when_its_time_is_up(
    step: dict[str, Any], state: str, action: str | None
) -> None:
    """`execution_timeout` counts from the beginning of the job."""
    dag = make_dag(a={"execution_timeout": timedelta(minutes=5)})
    found = Known(dag, {"a": step}).decide(SETTLE).view.steps["a"]
    assert (found.state, found.cancel_action) == (state, action)


# Backfills.


@pytest.mark.parametrize(
    ("columns", "backfill", "state", "starts"),
    [
        (NEW, {"state": "running"}, "running", ["a"]),
        (NEW, {"state": "completed"}, "running", ["a"]),
        (NEW, {"state": "paused"}, "queued", []),
        (NEW, {"state": "cancelled"}, "cancelled", []),
        (NEW, None, "running", ["a"]),
        (NOTHING, {"state": "paused"}, "running", ["a"]),
        (NOTHING, {"state": "cancelled"}, "running", ["a"]),
        (NOTHING, {"state": "cancelled", "cancels_running_runs": True}, "cancelled", []),
    ],
    ids=[
        "begins",
        "begins as the last one",
        "waits while it is paused",
        "ends with it before it began",
        "begins though it was deleted",
        "goes on while it is paused",
        "goes on though it was cancelled",
        "ends with it",
    ],
)
def test_run_of_a_backfill_follows_its_backfill(
    columns: Mapping[str, Any], backfill: dict[str, Any] | None, state: str, starts: list[str]
) -> None:
    """A backfill that is paused or cancelled keeps runs from beginning, and may end them."""
    row = None if backfill is None else as_read(Backfills("b1", **backfill))
    known = Known(chain(), {}, {**columns, "slot_backfill_id": "b1"}, {"active": None}, row)
    decision = known.decide()
    assert (decision.view.run.state, started(decision)) == (state, starts)


# Waiting for the past.


def before(step: dict[str, Any] | None, *, dag: DAG | None = None, **columns: Any) -> OtherRuns:
    """Return the run of the day before, with its step `a`."""
    day = MIDNIGHT.subtract(days=1)
    run_id = columns.pop("run_id", f"scheduled__{day.isoformat()}")
    run = make_run(run_id, **{"logical_date": day, "state": "running", **columns})
    steps = [] if step is None else [make_step(run, "a", **step)]
    return OtherRuns([(run, steps, dag or make_dag(a={}))])


def past_dag(**options: Any) -> DAG:
    """Return a DAG whose only task depends on its past."""
    dag = make_dag(a={"depends_on_past": True})
    for name, value in options.items():
        setattr(dag, name, value)
    return dag


PAST = [
    ("no run before", OtherRuns(), True),
    ("success", before(DONE), True),
    ("skipped", before({"state": "skipped"}), True),
    ("failed", before(FAILED), False),
    ("upstream failed", before({"state": "upstream_failed"}), False),
    ("running", before(RUNNING), False),
    ("to be tried again", before(RETRY_LATER), False),
    ("not begun", before(None), False),
    ("expired of a run that succeeded", before(None, state="success"), True),
    ("expired of a run that failed", before(None, state="failed"), False),
    (
        "of an earlier run of that name",
        before({**DONE, "run_created_at": NOON.subtract(days=9)}),
        False,
    ),
    ("task is new", before(None, dag=make_dag(other={})), True),
    ("task was not part of that run", before(None, dag=make_dag(a={"start_date": MIDNIGHT})), True),
    ("run before has no date", before(FAILED, logical_date=None), True),
]


@pytest.mark.parametrize(
    ("reader", "may_start"), [row[1:] for row in PAST], ids=[row[0] for row in PAST]
)
def test_step_that_depends_on_its_past_waits_for_it(reader: RunReader, may_start: bool) -> None:
    """It starts after the same step of the run before was a success or skipped."""
    decision = Known(past_dag(), reader=reader).decide()
    assert started(decision) == (["a"] if may_start else [])
    row, key = decision.view.row, decision.view.run.run_key
    assert row is not None
    # A run that can only wait gives its slot to one that can do something.
    slots = [{key}, None] if may_start else [None, {key}]
    assert values_of(row, "active", "waiting_for_past") == slots


@pytest.mark.parametrize(
    ("columns", "row", "may_start"),
    [
        ({"logical_date": None}, {}, True),
        ({"slot_backfill_id": "b1", "backfill_ordinal": 1}, {"active": None}, True),
        ({"slot_backfill_id": "b1", "backfill_ordinal": 2}, {"active": None}, False),
    ],
    ids=["no date", "first of a backfill", "second of a backfill"],
)
def test_past_counts_only_where_there_is_one(
    columns: dict[str, Any], row: dict[str, Any], may_start: bool
) -> None:
    """A run without a date has no past, and a backfill begins somewhere."""
    decision = Known(past_dag(), {}, columns, row, reader=before(FAILED)).decide()
    assert started(decision) == (["a"] if may_start else [])
    assert decision.view.row is not None
    assert decision.view.row.waiting_for_past is None


@pytest.mark.parametrize(("catchup", "may_start"), [(True, True), (False, False)])
def test_manual_run_before_counts_without_catchup_only(catchup: bool, may_start: bool) -> None:
    """With catchup every date has a run of its own, so that manual ones are passed over."""
    reader = before(FAILED, run_type="manual")
    assert started(Known(past_dag(catchup=catchup), reader=reader).decide()) == (
        ["a"] if may_start else []
    )


def test_run_whose_past_is_repaired_waits_for_a_slot() -> None:
    """It gave its slot back, so that the claim has to give it one before it goes on."""
    key = make_run().run_key
    row = {"active": None, "waiting_for_past": {key}}
    decision = Known(past_dag(), row=row, reader=before(DONE)).decide()
    assert decision.view.row is not None
    assert started(decision) == []
    found = values_of(decision.view.row, "active", "waiting_for_past", "waiting")
    assert found == [None, None, {waiting_entry(NOW, key)}]


def test_end_of_a_step_wakes_runs_that_depend_on_it() -> None:
    """Only a step that the next run waits for is worth a message."""
    for dag, wakes in ((past_dag(), True), (make_dag(a={}), False)):
        known = Known(dag, {"a": RUNNING}, reader=OtherRuns())
        decision = known.decide(SETTLE, observations=[job_of("a", JobState.SUCCESS)])
        assert (decision.view.run.state, decision.wakes_waiting_runs) == ("success", wakes)


# Jobs.


def job_of(task_id: str, state: JobState, *, submission: int = 1, **job: Any) -> JobObservation:
    """Return what is seen of a job of the run."""
    run = make_run()
    key = JobName.of(run, make_step(run, task_id, submission=submission)).key
    return JobObservation(key, Job("j-1", state, "s3://lake/x", **job), "emr-serverless")


@pytest.mark.parametrize(
    ("steps", "seen", "after", "run", "orphans"),
    [
        ({"a": HAS_JOB}, job_of("a", JobState.RUNNING), {"a": "running"}, "running", 0),
        (
            {"a": RUNNING},
            job_of("a", JobState.SUCCESS),
            {"a": "success", "b": "submitted"},
            "running",
            0,
        ),
        (
            {"a": RUNNING},
            job_of("a", JobState.FAILED),
            {"a": "failed", "b": "upstream_failed"},
            "failed",
            0,
        ),
        (
            {"a": DONE, "b": RUNNING},
            job_of("b", JobState.SUCCESS),
            {"a": "success", "b": "success"},
            "success",
            0,
        ),
        (
            {"a": RUNNING},
            job_of("a", JobState.RUNNING, submission=9),
            {"a": "running"},
            "running",
            1,
        ),
        (
            {"a": RUNNING},
            job_of("a", JobState.SUCCESS, submission=9),
            {"a": "running"},
            "running",
            0,
        ),
        ({"a": RUNNING}, job_of("gone", JobState.RUNNING), {"a": "running"}, "running", 1),
        (
            {"a": DONE},
            job_of("a", JobState.RUNNING),
            {"a": "success", "b": "submitted"},
            "running",
            1,
        ),
    ],
    ids=[
        "begins",
        "succeeds, and the next one starts",
        "fails, and the run with it",
        "succeeds as the last one",
        "lives for an old submission",
        "ended for an old submission",
        "lives for a task that is gone",
        "lives for a step that is over",
    ],
)
def test_job_that_is_seen_moves_the_run_or_is_an_orphan(
    steps: StepColumns, seen: JobObservation, after: dict[str, str], run: str, orphans: int
) -> None:
    """A job moves the step that it is of; one that runs for nobody is to be cancelled."""
    decision = Known(chain(), steps).decide(observations=[seen])
    assert (states_of(decision), decision.view.run.state) == (after, run)
    assert len(decision.orphaned_jobs) == orphans


@pytest.mark.parametrize("state", ["success", "failed", "cancelled"])
def test_run_that_is_over_stays_as_it_is(state: str) -> None:
    """Nothing moves it; only a job that still runs for it is an orphan."""
    known = Known(chain(), {"a": FAILED, "b": DONE}, {"state": state})
    decision = known.decide(observations=[job_of("a", JobState.RUNNING)])
    assert (decision.view.is_changed, len(decision.orphaned_jobs)) == (False, 1)
    assert started(decision) == []


# The end of a run.


def test_end_of_a_run_frees_its_slot_and_adds_up_its_cost() -> None:
    """The DAG's row names it no longer, and the run says what all its steps cost."""
    costs = {"a": {**DONE, "cost": 0.5, "vcpu_hours": 1.0}, "b": {**DONE, "cost": 0.25}}
    decision = Known(chain(), costs, {"wake_at": AGO, "wake_shard": 1}).decide()
    run, row = decision.view.run, decision.view.row
    assert row is not None
    assert (values_of(row, "active"), decision.view.changes_shared_rows) == ([None], True)
    assert values_of(run, "cost", "vcpu_hours", "ended_at") == [0.75, 1.0, NOW]
    assert values_of(run, "wake_at", "wake_shard") == [None, None]
    assert {step.expires_at for step in decision.view.steps.values()} == {NOW.add(days=90)}


@pytest.mark.parametrize(
    ("steps", "failed_before", "failed_after", "is_paused"),
    [
        ({"a": DONE, "b": DONE}, 2, None, None),
        ({"a": FAILED}, None, 1, None),
        ({"a": FAILED}, 1, 2, None),
        ({"a": FAILED}, 2, 3, True),
    ],
    ids=["a success begins anew", "the first", "the second", "the third pauses the DAG"],
)
def test_failures_in_a_row_pause_the_dag(
    steps: StepColumns,
    failed_before: int | None,
    failed_after: int | None,
    is_paused: bool | None,
) -> None:
    """So many failed runs in a row as the author allowed, and no success between them."""
    row = {"consecutive_failed_runs": failed_before, "max_consecutive_failed_runs": 3}
    found = Known(chain(), steps, row=row).decide().view.row
    assert found is not None
    assert (found.consecutive_failed_runs, found.is_paused or None) == (failed_after, is_paused)


def test_run_whose_dag_was_deleted_goes_on_and_ends() -> None:
    """Without a row there are no slots to be counted, and nothing is paused."""
    assert started(Known(chain(), row=None).decide()) == ["a"]
    assert Known(chain(), {"a": FAILED}, row=None).decide().view.run.state == "failed"


# When to look again.


@pytest.mark.parametrize(
    ("steps", "columns", "by", "wake_at"),
    [
        ({"a": RUNNING}, NOT_DUE, SETTLE, LATER),
        ({"a": RUNNING}, DUE, SETTLE, NOW.add(minutes=10)),
        (
            {"a": RUNNING},
            {**DUE, "started_at": NOW.subtract(minutes=20)},
            SETTLE,
            NOW.add(minutes=20),
        ),
        ({"a": RUNNING}, {**DUE, "started_at": NOW.subtract(days=2)}, SETTLE, NOW.add(minutes=30)),
        ({"a": DONE}, DUE, SETTLE, NOW.add(minutes=2)),
        ({"a": DONE}, DUE, SUBMIT, NOW.add(minutes=10)),
        ({"a": CANCELLING}, DUE, SETTLE, NOW.add(minutes=2)),
        ({"a": RETRY_LATER}, DUE, SETTLE, NOW.add(minutes=10)),
        ({"a": {**RETRY_LATER, "retry_at": NOW.add(minutes=5)}}, DUE, SETTLE, NOW.add(minutes=5)),
        ({"a": {**RETRY_LATER, "retry_at": NOW.add(seconds=1)}}, DUE, SETTLE, NOW.add(minutes=2)),
        ({}, {**NEW, **DUE, "queued_at": NOW}, SUBMIT, NOW.add(minutes=10)),
    ],
    ids=[
        "not yet, and nothing is new",
        "a job is asked about",
        "an older job is asked about less often",
        "the oldest is asked about twice an hour",
        "a message to submit may be lost",
        "a job that starts now",
        "a cancellation may be lost",
        "a retry that is far away",
        "a retry",
        "a retry that comes at once has a message of its own",
        "a new run",
    ],
)
def test_run_is_looked_at_again_when_something_may_be_due(
    steps: StepColumns, columns: Mapping[str, Any], by: JobPermissions, wake_at: DateTime
) -> None:
    """Every live run has a time at which someone looks, whatever gets lost."""
    assert Known(chain(), steps, columns).decide(by).view.run.wake_at == wake_at


@pytest.mark.parametrize(
    ("task", "run", "wake_at"),
    [
        (None, None, NOW.add(minutes=10)),
        (timedelta(minutes=15), None, NOW.add(minutes=5)),
        (None, timedelta(minutes=14), NOW.add(minutes=4)),
        (timedelta(minutes=12), timedelta(minutes=14), NOW.add(minutes=2)),
    ],
    ids=["no limit", "of the step", "of the run", "the sooner of both"],
)
def test_run_is_looked_at_when_a_time_limit_is_up(
    task: timedelta | None, run: timedelta | None, wake_at: DateTime
) -> None:
    """Time limits hold without anybody's message."""
    dag = chain(execution_timeout=task)
    dag.dagrun_timeout = run
    assert Known(dag, {"a": RUNNING}, DUE).decide(SETTLE).view.run.wake_at == wake_at
