"""What an observation of a job means for its step: a table of rows before and after."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import Asset, runtime
from lamplighter.executors.base import Job, JobState, Usage
from lamplighter.runs.job_observation import (
    JobObservation,
    apply_observation,
    cancelled_before_start,
    capacity_delay,
)
from lamplighter.runs.job_request import NO_REPORT, JobName, JobReport
from lamplighter.runs.view import RunView
from lamplighter.settings import Settings
from lamplighter.store.models import AssetEvents, Steps
from tests.unit.runs.rows import SECRET, as_read, make_dag, make_run, make_step, make_view

pytestmark = pytest.mark.usefixtures("in_name_only")

NOW = datetime(2026, 2, 1, 13)
BEGAN = NOW.subtract(minutes=10)
TASK = {"retries": 2, "retry_delay": timedelta(minutes=7), "outlets": [Asset("orders")]}
KEPT_UNTIL = NOW.add(days=90)
NO_ROOM: dict[str, Any] = {"lacked_capacity": True, "details": "no capacity"}

SUBMITTED = {"state": "submitted"}
RUNNING = {"state": "running", "job_run_id": "j-1", "started_at": BEGAN}


def view_of(step: dict[str, Any], run: dict[str, Any] | None = None, **task: Any) -> RunView:
    """Return a run whose step `load` has these columns."""
    row = make_run(**(run or {}))
    columns = {"max_try_number": 3, "executor": "emr-serverless", **step}
    return make_view(make_dag(load={**TASK, **task}), row, as_read(make_step(row, **columns)))


def observed(
    view: RunView,
    state: JobState,
    *,
    report: JobReport = NO_REPORT,
    job_run_id: str = "j-1",
    **job: Any,
) -> list[AssetEvents] | None:
    """Let the step's job be seen in a state; return the events of its outlets."""
    key = JobName.of(view.run, view.steps["load"]).key
    seen = Job(job_run_id, state, "s3://lake/context.json", **job)
    observation = JobObservation(key, seen, "emr-serverless", report)
    return apply_observation(view, observation, now=NOW)


def said(**parts: Any) -> JobReport:
    """Return a report that the step's own job has written."""
    return JobReport(**parts, secret=SECRET)


def columns_of(step: Steps, names: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of a step that an expectation names."""
    return {name: getattr(step, name) for name in names}


@dataclass(frozen=True)
class Row:
    """One row of the table: a step, what is seen of its job, and the step after that."""

    id: str
    before: dict[str, Any]
    state: JobState
    after: dict[str, Any]
    job: dict[str, Any] = field(default_factory=dict)
    report: JobReport = NO_REPORT
    run: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)


def cancelling(action: str, **more: Any) -> dict[str, Any]:
    """Return the columns of a step whose job is being cancelled."""
    return {**RUNNING, "state": "cancelling", "cancel_action": action, **more}


ALIVE = [
    Row(
        "queued job is noted",
        SUBMITTED,
        JobState.QUEUED,
        {"state": "submitted", "job_run_id": "j-1"},
    ),
    Row(
        "scheduled job is noted",
        SUBMITTED,
        JobState.SCHEDULED,
        {"state": "submitted", "job_run_id": "j-1"},
    ),
    Row(
        "running job makes the step run",
        SUBMITTED,
        JobState.RUNNING,
        {"state": "running", "job_run_id": "j-1", "started_at": BEGAN},
        job={"started_at": BEGAN},
    ),
    Row(
        "running job of unknown beginning began now",
        SUBMITTED,
        JobState.RUNNING,
        {"state": "running", "started_at": NOW},
    ),
    Row("running job of a running step changes nothing", RUNNING, JobState.RUNNING, RUNNING),
    Row(
        "beginning that is known stays",
        RUNNING,
        JobState.RUNNING,
        {"started_at": BEGAN},
        job={"started_at": NOW},
    ),
    Row(
        "running job of a cancelled step stays cancelled",
        cancelling("cancel"),
        JobState.RUNNING,
        {"state": "cancelling", "cancel_action": "cancel"},
    ),
    Row(
        "job that is being cancelled is still there",
        cancelling("timeout"),
        JobState.CANCELLING,
        {"state": "cancelling", "cancel_action": "timeout"},
    ),
]

OVER = [
    Row(
        "success",
        RUNNING,
        JobState.SUCCESS,
        {"state": "success", "error": None, "ended_at": NOW, "expires_at": KEPT_UNTIL},
    ),
    Row(
        "success of a job that nobody saw running",
        SUBMITTED,
        JobState.SUCCESS,
        {"state": "success", "started_at": BEGAN, "ended_at": NOW.subtract(minutes=1)},
        job={"started_at": BEGAN, "ended_at": NOW.subtract(minutes=1)},
    ),
    Row(
        "success forgets that there was no capacity",
        {**RUNNING, "capacity_since": BEGAN},
        JobState.SUCCESS,
        {"state": "success", "capacity_since": None},
    ),
    Row(
        "skip that the job asked for",
        RUNNING,
        JobState.SUCCESS,
        {"state": "skipped", "error": "a holiday", "expires_at": KEPT_UNTIL},
        report=said(is_skipped=True, reason="a holiday"),
    ),
    Row(
        "skip of a job that failed is a failure",
        RUNNING,
        JobState.FAILED,
        {"state": "up_for_retry", "error": "a holiday"},
        report=said(is_skipped=True, reason="a holiday"),
    ),
    Row(
        "failure with tries left",
        RUNNING,
        JobState.FAILED,
        {
            "state": "up_for_retry",
            "retry_at": NOW.add(minutes=7),
            "error": "disk full",
            "try_number": 1,
            "expires_at": None,
        },
        job={"details": "disk full"},
    ),
    Row(
        "report says more than the executor",
        RUNNING,
        JobState.FAILED,
        {"error": "KeyError: 'x'"},
        job={"details": "exit code 1"},
        report=said(reason="KeyError: 'x'"),
    ),
    Row(
        "failure without a word",
        RUNNING,
        JobState.FAILED,
        {"error": "the job ended as FAILED and said nothing"},
    ),
    Row(
        "failure on the last try",
        {**RUNNING, "try_number": 3},
        JobState.FAILED,
        {"state": "failed", "retry_at": None, "expires_at": KEPT_UNTIL},
    ),
    Row(
        "job that someone cancelled in the console",
        RUNNING,
        JobState.CANCELLED,
        {"state": "up_for_retry", "error": "the job ended as CANCELLED and said nothing"},
    ),
    Row(
        "refused job costs a try like any other",
        SUBMITTED,
        JobState.FAILED,
        {"state": "up_for_retry", "try_number": 1, "error": "no such role"},
        job={"details": "no such role"},
    ),
    Row(
        "lack of capacity costs no try",
        {**SUBMITTED, "submitted_at": NOW.subtract(seconds=5)},
        JobState.FAILED,
        {
            "state": "up_for_retry",
            "try_number": 0,
            "capacity_since": NOW.subtract(seconds=5),
            "error": "no capacity since 2026-02-01T12:59:55+00:00: no capacity",
        },
        job=NO_ROOM,
    ),
    Row(
        "lack of capacity again keeps since when",
        {**SUBMITTED, "capacity_since": NOW.subtract(hours=23), "submitted_at": BEGAN},
        JobState.FAILED,
        {"state": "up_for_retry", "capacity_since": NOW.subtract(hours=23), "try_number": 0},
        job=NO_ROOM,
    ),
    Row(
        "lack of capacity for too long is a failure",
        {**SUBMITTED, "capacity_since": NOW.subtract(hours=24)},
        JobState.FAILED,
        {
            "state": "up_for_retry",
            "try_number": 1,
            "capacity_since": None,
            "error": "no capacity since 2026-01-31T13:00:00+00:00: no capacity",
        },
        job=NO_ROOM,
    ),
    Row(
        "lack of capacity for too long fails without retries left",
        {**SUBMITTED, "capacity_since": NOW.subtract(hours=24), "max_try_number": 1},
        JobState.FAILED,
        {"state": "failed", "try_number": 1},
        job=NO_ROOM,
    ),
    Row(
        "lack of executors after the start costs no try",
        RUNNING,
        JobState.FAILED,
        {"state": "up_for_retry", "try_number": 0},
        job={**NO_ROOM, "started_at": BEGAN},
    ),
    Row(
        "lack of capacity of a job that was timed out is a failure",
        cancelling("timeout"),
        JobState.FAILED,
        {"state": "up_for_retry", "try_number": 1, "capacity_since": None},
        job=NO_ROOM,
    ),
    Row(
        "failure while the run is being ended",
        RUNNING,
        JobState.FAILED,
        {"state": "failed", "retry_at": None},
        run={"target_state": "cancelled"},
    ),
]

CANCELLED = [
    Row(
        "time limit with tries left",
        cancelling("timeout"),
        JobState.CANCELLED,
        {
            "state": "up_for_retry",
            "cancel_action": None,
            "error": "execution_timeout: it ran for longer than 0:10:00",
        },
        task={"execution_timeout": timedelta(minutes=10)},
    ),
    Row(
        "time limit on the last try",
        cancelling("timeout", try_number=3),
        JobState.CANCELLED,
        {"state": "failed", "cancel_action": None},
    ),
    Row(
        "success that came before the cancellation",
        cancelling("timeout"),
        JobState.SUCCESS,
        {"state": "success", "cancel_action": None, "error": None},
    ),
    Row(
        "run that was cancelled",
        cancelling("cancel"),
        JobState.CANCELLED,
        {"state": "failed", "error": "cancelled: someone asked for it"},
        run={"target_state": "cancelled", "reason": "someone asked for it"},
    ),
    Row(
        "run that was ended without a reason",
        cancelling("cancel"),
        JobState.CANCELLED,
        {"state": "failed", "error": "cancelled: the run was ended"},
        run={"target_state": "cancelled"},
    ),
    Row(
        "step that was given up keeps its error",
        cancelling("cancel", error="params.x is undefined"),
        JobState.CANCELLED,
        {"state": "failed", "error": "params.x is undefined"},
    ),
    Row(
        "cleared step begins again",
        cancelling("clear"),
        JobState.CANCELLED,
        {"state": "none", "cancel_action": None, "expires_at": None},
    ),
    Row(
        "cleared step begins again though it succeeded",
        cancelling("clear"),
        JobState.SUCCESS,
        {"state": "none", "cancel_action": None},
    ),
    Row(
        "step marked as success though its job failed",
        cancelling("success", error="marked success by me: because"),
        JobState.FAILED,
        {"state": "success", "error": "marked success by me: because"},
    ),
    Row(
        "step marked as failed though its job succeeded",
        cancelling("failed"),
        JobState.SUCCESS,
        {"state": "failed", "cancel_action": None},
    ),
]


@pytest.mark.parametrize("row", [*ALIVE, *OVER, *CANCELLED], ids=lambda row: row.id)
def test_step_becomes_what_its_job_says(row: Row) -> None:
    """A step follows its job, given what was asked of it meanwhile."""
    view = view_of(row.before, row.run, **row.task)
    observed(view, row.state, report=row.report, **row.job)
    assert columns_of(view.steps["load"], row.after) == row.after


@pytest.mark.parametrize("row", [*OVER, *CANCELLED], ids=lambda row: row.id)
def test_every_end_is_noted_as_an_attempt(row: Row) -> None:
    """The list of tries has the job, its executor, its number and how it ended."""
    view = view_of(row.before, row.run, **row.task)
    observed(view, row.state, report=row.report, **row.job)
    step = view.steps["load"]
    (attempt,) = step.tries
    ended = {"none": "cancelled", "up_for_retry": "failed"}.get(step.state, step.state)
    number = row.before.get("try_number", 1)
    assert (attempt["state"], attempt["try_number"]) == (ended, number)
    assert (attempt["executor"], attempt["job_run_id"]) == ("emr-serverless", "j-1")


@pytest.mark.parametrize("row", ALIVE, ids=lambda row: row.id)
def test_job_that_lives_is_no_attempt_yet(row: Row) -> None:
    """Nothing is noted, and no event tells of an outlet, before a job is over."""
    view = view_of(row.before)
    assert observed(view, row.state, **row.job) == []
    assert (view.steps["load"].tries, view.puts) == (None, [])


@pytest.mark.parametrize(
    ("row", "events"),
    [
        (row, int(row.after["state"] == "success" and row.before.get("cancel_action") != "success"))
        for row in [*OVER, *CANCELLED]
        if "state" in row.after
    ],
    ids=lambda given: given.id if isinstance(given, Row) else None,
)
def test_only_a_success_of_the_job_tells_of_outlets(row: Row, events: int) -> None:
    """Events are stored with a success, but not with one that somebody only says there was."""
    view = view_of(row.before, row.run, **row.task)
    found = observed(view, row.state, report=row.report, **row.job)
    assert found is not None
    assert len(found) == len(view.puts) == events


# Who is believed.


@pytest.mark.parametrize(
    "state", ["none", "up_for_retry", "success", "failed", "skipped", "upstream_failed"]
)
@pytest.mark.parametrize("seen", [JobState.RUNNING, JobState.SUCCESS, JobState.FAILED])
def test_job_of_a_step_that_has_none_is_not_believed(state: str, seen: JobState) -> None:
    """A step that waits or is over has no job, whatever is said of one."""
    view = view_of({"state": state})
    assert observed(view, seen) is None
    assert not view.steps["load"].is_changed


@pytest.mark.parametrize(
    "other",
    [
        {"submission": 2},
        {"task_id": "store"},
        {"fingerprint": "f" * 12},
    ],
    ids=["another submission", "another task", "a run of the same name"],
)
def test_job_of_another_submission_is_not_believed(other: dict[str, Any]) -> None:
    """Only the submission that the row speaks of may change it."""
    view = view_of(RUNNING)
    key = JobName.of(view.run, view.steps["load"]).key
    job = Job("j-1", JobState.SUCCESS, "s3://lake/context.json")
    assert apply_observation(view, JobObservation(replace(key, **other), job), now=NOW) is None
    assert not view.steps["load"].is_changed


def test_second_job_of_one_submission_is_not_believed() -> None:
    """A row that knows its job takes nothing from another one."""
    view = view_of(RUNNING)
    assert observed(view, JobState.SUCCESS, job_run_id="j-2") is None
    assert not view.steps["load"].is_changed


def test_job_that_was_never_started_counts_as_cancelled() -> None:
    """A step whose job nobody can be about to start any more ends without one."""
    view = view_of(
        {"state": "cancelling", "cancel_action": "cancel"}, {"target_state": "cancelled"}
    )
    (seen,) = cancelled_before_start(view, view.steps.values())
    assert apply_observation(view, seen, now=NOW) == []
    assert columns_of(view.steps["load"], {"state": "", "job_run_id": ""}) == {
        "state": "failed",
        "job_run_id": None,
    }


# What it cost.


@pytest.mark.parametrize("state", [JobState.SUCCESS, JobState.FAILED, JobState.CANCELLED])
def test_cost_of_every_job_is_added_to_its_step(state: JobState) -> None:
    """A step has the usage and the price of all its jobs, however they ended."""
    view = view_of({**RUNNING, "vcpu_hours": 1.0, "cost": 0.5})
    observed(view, state, usage=Usage(2.0, 8.0, 20.0, 0.25))
    wanted = {"vcpu_hours": 3.0, "memory_gb_hours": 8.0, "storage_gb_hours": 20.0, "cost": 0.75}
    assert columns_of(view.steps["load"], wanted) == wanted


def test_job_without_a_bill_is_remembered_and_costs_nothing_yet() -> None:
    """Unknown is not zero: the step names the job, its executor, and who pays for it."""
    view = view_of(RUNNING, {"slot_backfill_id": "orders-1"})
    observed(view, JobState.SUCCESS)
    job = {"job_run_id": "j-1", "executor": "emr-serverless", "backfill_id": "orders-1"}
    wanted = {"cost": None, "vcpu_hours": None, "unbilled_jobs": [job]}
    assert columns_of(view.steps["load"], wanted) == wanted


def test_job_that_was_billed_nothing_costs_zero() -> None:
    """A known zero is a cost like any other."""
    view = view_of(RUNNING)
    observed(view, JobState.FAILED, usage=Usage())
    wanted = {"cost": 0.0, "unbilled_jobs": None}
    assert columns_of(view.steps["load"], wanted) == wanted


# Errors and tries that are too long.


def test_error_that_is_too_long_keeps_its_end() -> None:
    """The last line of a traceback says what went wrong."""
    view = view_of(RUNNING)
    observed(view, JobState.FAILED, report=said(reason="x" * 5_000 + "the end"))
    error = view.steps["load"].error
    assert error is not None
    assert (len(error), error[0], error[-7:]) == (2_001, "…", "the end")


def test_list_of_tries_keeps_the_newest() -> None:
    """Only the last twenty attempts are kept."""
    view = view_of({**RUNNING, "tries": [{"submission": number} for number in range(20)]})
    observed(view, JobState.SUCCESS)
    numbers = [attempt["submission"] for attempt in view.steps["load"].tries]
    assert numbers == [*range(1, 20), 1]


@pytest.mark.parametrize(("hours", "is_free"), [(0, False), (1, False), (2, True)])
def test_time_to_wait_for_capacity_is_a_setting(
    in_name_only: Settings, hours: int, is_free: bool
) -> None:
    """A deployment decides for how long a lack of capacity costs no try."""
    view = view_of({**SUBMITTED, "capacity_since": NOW.subtract(hours=1)})
    with runtime.using(settings=replace(in_name_only, capacity_wait_hours=hours)):
        observed(view, JobState.FAILED, **NO_ROOM)
    assert view.steps["load"].try_number == (0 if is_free else 1)


@pytest.mark.parametrize(("waited", "least"), [(0, 60), (60, 60), (200, 200), (7_200, 600)])
def test_delay_without_capacity_grows_and_differs(waited: float, least: float) -> None:
    """A step waits as long as it has so far, within a minute and ten, and half of it by chance."""
    delays = {capacity_delay(waited, of=f"orders|1#{number}") for number in range(50)}
    assert all(least <= delay < 1.5 * least for delay in delays)
    assert len(delays) > 10
    assert capacity_delay(waited, of="a") == capacity_delay(waited, of="a")


REFUSED = "the report in its folder was refused: its job has not written it"


@pytest.mark.parametrize("secret", ["", "of-another-submission"])
@pytest.mark.parametrize(
    ("state", "job", "after"),
    [
        (JobState.SUCCESS, {}, {"state": "success", "error": REFUSED}),
        (
            JobState.FAILED,
            {"details": "ExitCode: 1."},
            {"state": "up_for_retry", "error": f"{REFUSED}; ExitCode: 1."},
        ),
    ],
)
def test_report_without_the_secret_of_the_submission_is_as_good_as_none(
    secret: str, state: JobState, job: dict[str, Any], after: dict[str, Any]
) -> None:
    """What another job has written neither skips the step nor tells of its outlets; it is noted."""
    view = view_of(RUNNING)
    forged = JobReport(True, "a holiday", {"orders": {"rows": 0}}, {}, secret)
    events = observed(view, state, report=forged, **job)
    assert columns_of(view.steps["load"], after) == after
    assert view.refused_reports == ["load"]
    assert all('"rows"' not in (event.message or "") for event in events or ())


def test_report_that_the_executor_has_given_needs_no_secret() -> None:
    """What no job can have written is believed."""
    view = view_of(RUNNING)
    observed(view, JobState.SUCCESS, report=JobReport(is_skipped=True, is_trusted=True))
    assert view.steps["load"].state == "skipped"
    assert view.refused_reports == []


def test_outputs_that_are_refused_leave_a_note() -> None:
    """The step has succeeded, and says why later ones find nothing."""
    view = view_of(RUNNING)
    observed(view, JobState.SUCCESS, report=said(problem="outputs has 40,000 characters"))
    assert columns_of(view.steps["load"], NOTED) == NOTED


NOTED = {"state": "success", "error": "outputs has 40,000 characters"}


def test_report_of_a_step_without_a_secret_is_refused() -> None:
    """A row that lost its secret believes nobody, not even a report with an empty one."""
    view = view_of({**RUNNING, "report_secret": None})
    observed(view, JobState.SUCCESS, report=JobReport(is_skipped=True, secret="None"))  # noqa: S106 - that is the point
    assert view.steps["load"].state == "success"
