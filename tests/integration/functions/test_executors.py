"""Executors side by side: a job is asked about, cancelled and found where it was started."""

from dataclasses import fields
from typing import get_args

import pytest

from lamplighter import clock, runtime
from lamplighter.errors import PermanentError, SettingsError
from lamplighter.executors import current, job_of_event, named
from lamplighter.executors.base import Executor, Job, JobRequest, JobState, Submission
from lamplighter.executors.emr import EmrServerless
from lamplighter.settings import Settings
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from lamplighter_local.stack import LocalStack
from lamplighter_operations.runs import cancel_run
from tests.integration.functions.job_messages import (
    DAG_ID,
    FIRST_JOB,
    KEY,
    messages_on,
    of_bill,
    of_job,
    of_run,
    one_task,
    queue_run,
    settle,
    states,
    step,
    submit,
    wait,
)


class Elsewhere(Executor):
    """An executor that runs each job until it is told otherwise."""

    name = "elsewhere"

    def __init__(self) -> None:
        self.requests: dict[str, JobRequest] = {}
        self.states: dict[str, JobState] = {}

    def start(self, request: JobRequest) -> str:
        """Note a job, once for each token."""
        self.requests[request.token] = request
        self.states.setdefault(request.token, JobState.RUNNING)
        return request.token

    def find(self, submission: Submission) -> str | None:
        """Return the job of a submission."""
        return submission.token if submission.token in self.requests else None

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job that this executor has started."""
        request = self.requests[job_run_id]
        state = self.states[job_run_id]
        return Job(job_run_id, state, request.context_uri, started_at=clock.now())

    def cancel(self, job_run_id: str) -> None:
        """End a job at once."""
        self.states[job_run_id] = JobState.CANCELLED


def test_step_records_which_executor_has_its_job(executing: LocalStack, emr: FakeEmr) -> None:
    """The name is written with the submission, before anyone starts the job."""
    queue_run(one_task())
    assert submit(of_run()) == []
    assert (step().executor, len(emr.jobs)) == (EmrServerless.name, 1)
    wait(executing, seconds=2)
    settle(of_job())
    assert [attempt["executor"] for attempt in step().tries] == [EmrServerless.name]


def test_job_of_another_executor_is_settled_there(executing: LocalStack, emr: FakeEmr) -> None:
    """A step that another executor has is asked about there, by whoever looks after its run."""
    queue_run(one_task())
    elsewhere = Elsewhere()
    with runtime.using(executor=elsewhere):
        submit(of_run())
        ((job_run_id, _),) = elsewhere.requests.items()
        assert (step().executor, step().job_run_id, len(emr.jobs)) == ("elsewhere", job_run_id, 0)
        elsewhere.states[job_run_id] = JobState.SUCCESS
        assert settle({"job": job_run_id, "executor": "elsewhere"}) == []
    assert states(executing) == ["success", "success"]


def test_change_of_executor_leaves_live_jobs_where_they_are(
    executing: LocalStack, emr: FakeEmr
) -> None:
    """After new jobs go elsewhere, events and cancellations of an old one go where it was begun."""
    emr.next_outcome(DAG_ID, "t", Outcome.hangs())
    queue_run(one_task())
    submit(of_run())
    elsewhere = Elsewhere()
    with runtime.using(executor=elsewhere):
        wait(executing, seconds=2)
        assert settle(of_job()) == []
        assert states(executing) == ["running", "running"]
        cancel_run(DAG_ID, KEY)
        assert settle(of_run()) == []
        wait(executing, seconds=60)
        assert settle(of_run()) == []
    assert (emr.live(), elsewhere.requests) == ([], {})
    assert states(executing) == ["cancelled", "failed"]


def test_job_of_an_executor_that_is_gone_comes_again(executing: LocalStack, emr: FakeEmr) -> None:
    """Whoever takes an executor away too early loses no job: its message is delivered again."""
    queue_run(one_task())
    with runtime.using(executor=Elsewhere()):
        submit(of_run())
    assert settle(of_run()) == [0]
    assert states(executing) == ["running", "submitted"]
    assert len(emr.jobs) == len(messages_on("events")) == 0


@pytest.mark.parametrize("name", [None, "emr-serverless"])
def test_executor_of_new_jobs_is_that_of_the_settings(name: str | None) -> None:
    """Without another one, the settings name it; a step that names none has its job there too."""
    with runtime.using(settings=Settings()):
        assert isinstance(current(), EmrServerless)
        assert isinstance(named(name), EmrServerless)


def test_executor_that_nobody_knows_is_an_error() -> None:
    """Its name is in the message, so that an operator knows what to bring back."""
    with runtime.using(settings=Settings()), pytest.raises(PermanentError, match="'glue'"):
        named("glue")


def test_executors_of_the_settings_are_those_that_exist() -> None:
    """A deployer can choose every executor, and no other."""
    with pytest.raises(SettingsError, match="executor='glue' must be emr-serverless"):
        Settings(executor="glue")
    (declared,) = (each.type for each in fields(Settings) if each.name == "executor")
    with runtime.using(settings=Settings()):
        assert [named(name).name for name in get_args(declared)[1]] == [EmrServerless.name]


@pytest.mark.parametrize(
    ("event", "is_ours"),
    [
        (of_job(), True),
        (of_job(application="00others"), False),
        ({**of_job(), "detail-type": "Glue Job State Change"}, False),
        (of_bill(), True),
        (of_bill(is_final=False), False),
    ],
    ids=["ours", "another application", "another service", "its bill", "its use so far"],
)
def test_event_is_read_by_the_executor_that_it_is_about(
    event: dict[str, object], is_ours: bool
) -> None:
    """An event names a job of one executor, or of nobody here."""
    with runtime.using(settings=Settings(emr_application_id="00local")):
        found = job_of_event(event)
    assert (found and found.job_run_id) == (FIRST_JOB if is_ours else None)
