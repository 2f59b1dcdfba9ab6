"""A fake EMR Serverless: its answers, its clock, its events, and how it is made to go wrong."""

import datetime
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

from lamplighter import aws, runtime
from lamplighter.errors import RefusedError
from lamplighter.zones import as_utc, parse_instant
from lamplighter_local.emr.fake_emr import EventFaults, FakeEmr, Outcome
from lamplighter_local.emr.requests import mistakes, service_model
from lamplighter_local.emr.scripts import StepKey, step_of
from lamplighter_local.movable_clock import MovableClock
from lamplighter_local.stack import local_stack
from tests.tools.faults import Crash, Faults

START = as_utc(datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC))
APPLICATION = "00local"
ROLE = "arn:aws:iam::123456789012:role/jobs"
RUN_KEY = "2026-01-05T12:00:00+00:00"


class Deployment:
    """A bucket and the queue of job states, on a clock."""

    def __init__(self, movable: MovableClock, queue_url: str, bucket: str) -> None:
        self.clock = movable
        self.queue_url = queue_url
        self.bucket = bucket

    def received(self) -> list[dict[str, Any]]:
        """Return what is in the queue, and take it out."""
        bodies = []
        sqs = aws.client("sqs")
        while found := sqs.receive_message(QueueUrl=self.queue_url).get("Messages"):
            bodies += [json.loads(message["Body"]) for message in found]
            for message in found:
                sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return bodies

    def states(self) -> list[tuple[str, str]]:
        """Return the job and the state of each event in the queue."""
        return [(e["detail"]["jobRunId"][-1], e["detail"]["state"]) for e in self.received()]


@pytest.fixture(scope="module")
def whole_deployment() -> Iterator[Deployment]:
    """Yield a deployment for the module."""
    with local_stack(at=START) as stack:
        url = boto3.client("sqs").create_queue(QueueName="states")["QueueUrl"]
        urls = stack.settings.queue_urls | {"jobstates": url}
        with runtime.using(settings=replace(stack.settings, queue_urls=urls)):
            yield Deployment(stack.clock, url, stack.settings.bucket)


@pytest.fixture
def deployment(whole_deployment: Deployment) -> Deployment:
    """Return the deployment with an empty queue, at the start."""
    whole_deployment.received()
    whole_deployment.clock._at = START
    return whole_deployment


@pytest.fixture
def movable() -> Iterator[MovableClock]:
    """Yield the clock of the process."""
    movable = MovableClock(START)
    with runtime.using(clock=movable):
        yield movable


@pytest.fixture
def client() -> Any:
    """Return a client that nothing but the fake can answer."""
    return boto3.client(
        "emr-serverless",
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",  # noqa: S106 - nobody's
    )


def context_uri(
    task: str = "load",
    *,
    dag: str = "orders",
    run_key: str = RUN_KEY,
    submission: int = 1,
    bucket: str = "lake",
) -> str:
    """Return where the context of a job lies."""
    folder = "/".join(quote(part, safe="") for part in (dag, run_key, task))
    return f"s3://{bucket}/jobs/{folder}/{submission}-5f3a/context.json"


def request(token: str = "t1", uri: str | None = None, **more: Any) -> dict[str, Any]:  # noqa: S107 - not a secret
    """Return what starts a job of the step `load`."""
    submit = {"entryPoint": "s3://lake/runner.py", "entryPointArguments": [uri or context_uri()]}
    return {
        "applicationId": APPLICATION,
        "clientToken": token,
        "executionRoleArn": ROLE,
        "jobDriver": {"sparkSubmit": submit},
        **more,
    }


def start(emr: FakeEmr, token: str = "t1", uri: str | None = None, **more: Any) -> str:  # noqa: S107 - as above
    """Start a job and return its id."""
    job_run_id: str = emr.call("StartJobRun", request(token, uri, **more))["jobRunId"]
    return job_run_id


def get(emr: FakeEmr, job_run_id: str) -> dict[str, Any]:
    """Return a job as the service describes it."""
    which = {"applicationId": APPLICATION, "jobRunId": job_run_id}
    job: dict[str, Any] = emr.call("GetJobRun", which)["jobRun"]
    return job


def state(emr: FakeEmr, job_run_id: str) -> str:
    """Return the state of a job."""
    return str(get(emr, job_run_id)["state"])


def cancel(emr: FakeEmr, job_run_id: str, **more: Any) -> dict[str, Any]:
    """Cancel a job."""
    return emr.call("CancelJobRun", {"applicationId": APPLICATION, "jobRunId": job_run_id, **more})


def listed(emr: FakeEmr, **filters: Any) -> list[str]:
    """Return the ids in a list of jobs, in its order."""
    page = emr.call("ListJobRuns", {"applicationId": APPLICATION, **filters})
    return [job["id"] for job in page["jobRuns"]]


def run_to_the_end(emr: FakeEmr, movable: MovableClock) -> int:
    """Let all happen that will, each thing at its instant; return how many events there were."""
    sent = 0
    while (instant := emr.next_change()) is not None:
        movable.move(to=max(instant, movable.now()))
        sent += emr.emit()
    return sent


def code(refused: pytest.ExceptionInfo[ClientError]) -> str:
    """Return the error code of a refusal."""
    return str(refused.value.response["Error"]["Code"])


@pytest.mark.usefixtures("movable")
class TestRequests:
    @pytest.mark.parametrize(
        "change",
        [
            {"clientToken": "x" * 65},
            {"clientToken": "a b"},
            {"clientToken": ""},
            {"name": "x" * 257},
            {"name": " "},
            {"tags": {"dag": "größe"}},
            {"tags": {"dag|task": "x"}},
            {"tags": {"dag": "x" * 257}},
            {"executionRoleArn": "arn:aws:iam::1:role/jobs"},
            {"executionTimeoutMinutes": 4},
            {"executionTimeoutMinutes": True},
            {"executionTimeoutMinutes": 2_000_000},
            {"jobDriver": {}},
            {"jobDriver": {"sparkSubmit": {}}},
            {"jobDriver": {"sparkSubmit": {"entryPoint": "x", "entryPointArguments": [1]}}},
            {"jobDriver": {"sparkSubmit": {"entryPoint": "x", "arguments": []}}},
            {"mode": "FAST"},
            {"color": "red"},
        ],
    )
    def test_start_the_service_would_refuse_is_refused(self, change: dict[str, Any]) -> None:
        """Texts that are too long, unknown names and the like start nothing."""
        emr = FakeEmr()
        with pytest.raises(ClientError) as refused:
            emr.call("StartJobRun", request() | change)
        assert code(refused) == "ValidationException"
        assert not emr.jobs

    @pytest.mark.parametrize("name", ["clientToken", "executionRoleArn", "jobDriver"])
    def test_start_without_what_is_needed_is_refused(self, name: str) -> None:
        """A request that lacks a token, a role or a program is told what it lacks."""
        lacking = request()
        del lacking[name]
        with pytest.raises(ClientError, match=f"{name} is missing") as refused:
            FakeEmr().call("StartJobRun", lacking)
        assert code(refused) == "ValidationException"

    @pytest.mark.parametrize(
        "operation", ["StartJobRun", "GetJobRun", "ListJobRuns", "CancelJobRun"]
    )
    def test_unknown_application_is_not_found(self, operation: str) -> None:
        """Whatever is asked of another application, there is none."""
        asked = {"applicationId": "00other"}
        if operation == "StartJobRun":
            asked = request() | asked
        elif operation != "ListJobRuns":
            asked["jobRunId"] = "00fake000001"
        with pytest.raises(ClientError) as refused:
            FakeEmr().call(operation, asked)
        assert code(refused) == "ResourceNotFoundException"

    @pytest.mark.parametrize("operation", ["GetJobRun", "CancelJobRun"])
    def test_unknown_job_is_not_found(self, operation: str) -> None:
        """A job that was never started can be neither described nor cancelled."""
        with pytest.raises(ClientError) as refused:
            FakeEmr().call(operation, {"applicationId": APPLICATION, "jobRunId": "00none"})
        assert code(refused) == "ResourceNotFoundException"

    def test_operation_without_answer_is_an_error(self) -> None:
        """What the library never calls is not made up."""
        with pytest.raises(RefusedError, match="does not answer ListApplications"):
            FakeEmr().call("ListApplications", {})

    def test_answers_have_the_shapes_of_the_service(self, movable: MovableClock) -> None:
        """All answers, at every moment of a life, are what botocore's model promises."""
        emr = FakeEmr(capacity=1)
        emr.next_outcome("orders", "load", Outcome("FAILED", details="x" * 5000))
        full = request(
            name="orders/load",
            tags={"lamplighter:dag": "orders"},
            executionTimeoutMinutes=60,
            configurationOverrides={"monitoringConfiguration": {}},
        )
        model = service_model()
        first = {"applicationId": APPLICATION, "jobRunId": "00fake000001"}
        second = {"applicationId": APPLICATION, "jobRunId": "00fake000002"}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("StartJobRun", full),
            ("StartJobRun", request("t2")),
            ("ListJobRuns", {"applicationId": APPLICATION, "maxResults": 1}),
            ("GetJobRun", second),
            ("CancelJobRun", second),
        ]
        for seconds in (0, 0.3, 0.3, 5):
            movable.sleep(seconds)
            for operation, asked in [*calls, ("GetJobRun", first)]:
                shape = model.operation_model(operation).output_shape
                answer = emr.call(operation, asked)
                assert not ParamValidator().validate(answer, shape).has_errors()
                assert not list(mistakes(shape, answer))
            calls = [call for call in calls if call[0] != "CancelJobRun"]


@pytest.mark.usefixtures("movable")
class TestLife:
    def test_job_left_alone_lives_through_all_states(self, movable: MovableClock) -> None:
        """A job is told to be where the clock says, without any event."""
        emr = FakeEmr()
        job_run_id = start(emr)
        seen = [state(emr, job_run_id)]
        for _ in range(4):
            movable.sleep(0.25)
            seen.append(state(emr, job_run_id))
        assert seen == ["SUBMITTED", "SCHEDULED", "RUNNING", "RUNNING", "SUCCESS"]

    def test_job_over_tells_when_it_ran(self, movable: MovableClock) -> None:
        """Beginning and end are the instants of the timeline, however late one asks."""
        emr = FakeEmr()
        job_run_id = start(emr, name="orders/load", tags={"a": "b"})
        movable.sleep(3600)
        job = get(emr, job_run_id)
        assert job["createdAt"] == START
        assert job["startedAt"] == START + datetime.timedelta(seconds=0.5)
        assert job["endedAt"] == job["updatedAt"] == START + datetime.timedelta(seconds=1)
        assert (job["name"], job["tags"]) == ("orders/load", {"a": "b"})
        assert job["jobDriver"]["sparkSubmit"]["entryPointArguments"] == [context_uri()]

    def test_job_over_is_billed_for_a_minute_at_least(self, movable: MovableClock) -> None:
        """Half a second is billed as a minute, and an hour as what it is."""
        emr = FakeEmr()
        short = start(emr)
        assert "billedResourceUtilization" not in get(emr, short)
        emr.takes("orders", "load", seconds=3600.5)
        long = start(emr, "t2")
        movable.sleep(4000)
        billed = get(emr, short)["billedResourceUtilization"]
        assert billed == {"vCPUHour": 2 / 60, "memoryGBHour": 8 / 60, "storageGBHour": 20 / 60}
        assert get(emr, short)["totalResourceUtilization"]["vCPUHour"] == 2 * 0.5 / 3600
        billed = get(emr, long)["billedResourceUtilization"]
        assert billed == {"vCPUHour": 2, "memoryGBHour": 8, "storageGBHour": 20}

    def test_cancelled_job_is_over_a_little_later(self, movable: MovableClock) -> None:
        """A cancel takes its time, and another one changes nothing."""
        emr = FakeEmr()
        job_run_id = start(emr)
        movable.sleep(0.5)
        cancel(emr, job_run_id)
        movable.sleep(0.5)
        cancel(emr, job_run_id, shutdownGracePeriodInSeconds=15)
        assert state(emr, job_run_id) == "CANCELLING"
        movable.sleep(0.5)
        assert state(emr, job_run_id) == "CANCELLED"

    def test_cancel_of_a_job_that_is_over_is_refused(self, movable: MovableClock) -> None:
        """What has succeeded cannot be cancelled any more."""
        emr = FakeEmr()
        job_run_id = start(emr)
        movable.sleep(1)
        with pytest.raises(ClientError, match="not in a cancellable state") as refused:
            cancel(emr, job_run_id)
        assert code(refused) == "ValidationException"
        assert state(emr, job_run_id) == "SUCCESS"

    def test_cancel_with_impossible_grace_is_refused(self) -> None:
        """The service waits between 15 seconds and half an hour for a job to end by itself."""
        emr = FakeEmr()
        job_run_id = start(emr)
        with pytest.raises(ClientError, match="between 15 and 1800"):
            cancel(emr, job_run_id, shutdownGracePeriodInSeconds=1)

    def test_job_over_its_timeout_is_cancelled(self, movable: MovableClock) -> None:
        """A job that hangs is ended when it has run for as long as it may, and told why."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.hangs())
        job_run_id = start(emr, executionTimeoutMinutes=5)
        movable.sleep(300.5)
        assert state(emr, job_run_id) == "CANCELLING"
        movable.sleep(1)
        job = get(emr, job_run_id)
        assert job["state"] == "CANCELLED"
        assert "longer than 5 minutes" in job["stateDetails"]

    def test_job_without_timeout_hangs_for_ever(self, movable: MovableClock) -> None:
        """With a timeout of 0 nothing ends a job that hangs, and nothing is waited for."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.hangs())
        job_run_id = start(emr, executionTimeoutMinutes=0)
        movable.sleep(1_000_000)
        assert state(emr, job_run_id) == "RUNNING"
        assert emr.next_change() is not None  # its event, which nobody has sent
        assert len(emr.live()) == 1

    def test_timeout_not_given_is_half_a_day(self, movable: MovableClock) -> None:
        """A job that hangs and has no timeout of its own gets that of the service."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.hangs())
        job_run_id = start(emr)
        assert get(emr, job_run_id)["executionTimeoutMinutes"] == 720
        movable.sleep(720 * 60)
        assert state(emr, job_run_id) == "RUNNING"
        movable.sleep(2)
        assert state(emr, job_run_id) == "CANCELLED"

    def test_job_shorter_than_its_start_runs_and_ends_at_once(self) -> None:
        """No job skips a state, not even one that takes no time."""
        emr = FakeEmr()
        emr.takes("orders", "load", seconds=0)
        start(emr)
        (job,) = emr.jobs
        states = [change.state for change in job.timeline]
        assert states == ["SUBMITTED", "SCHEDULED", "RUNNING", "SUCCESS"]
        assert {change.at for change in job.timeline} == {START}


class TestCapacity:
    def test_job_above_capacity_waits_its_turn(self, movable: MovableClock) -> None:
        """Of three jobs with room for one, each begins when the one before it is over."""
        emr = FakeEmr(capacity=1)
        ids = [start(emr, f"t{n}") for n in range(3)]
        assert [state(emr, i) for i in ids] == ["SUBMITTED", "QUEUED", "QUEUED"]
        movable.sleep(1.5)
        assert [state(emr, i) for i in ids] == ["SUCCESS", "RUNNING", "QUEUED"]
        movable.sleep(10)
        ends = [get(emr, i)["endedAt"] for i in ids]
        assert ends == [START + datetime.timedelta(seconds=n) for n in (1, 2, 3)]
        assert get(emr, ids[2])["queuedDurationMilliseconds"] == 2250

    def test_job_cancelled_in_the_queue_never_begins(self, movable: MovableClock) -> None:
        """A job that is cancelled while it waits takes no place and is not billed."""
        emr = FakeEmr(capacity=1)
        ids = [start(emr, f"t{n}") for n in range(3)]
        cancel(emr, ids[1])
        movable.sleep(1.5)
        assert [state(emr, i) for i in ids] == ["SUCCESS", "CANCELLED", "RUNNING"]
        assert get(emr, ids[1])["billedResourceUtilization"]["vCPUHour"] == 0

    def test_capacity_raised_lets_jobs_begin(self, movable: MovableClock) -> None:
        """What waits begins as soon as there is room for it."""
        emr = FakeEmr(capacity=0)
        job_run_id = start(emr)
        assert emr.next_change() is None
        movable.sleep(60)
        emr.capacity = (emr.capacity or 0) + 1
        movable.sleep(0.5)
        assert state(emr, job_run_id) == "RUNNING"


@pytest.mark.usefixtures("movable")
class TestLists:
    def test_list_longer_than_a_page_goes_on(self, client: Any) -> None:
        """Pages follow one another, newest first, and jobs that start meanwhile do not disturb."""
        emr = FakeEmr()
        ids = [start(emr, f"t{n}") for n in range(5)]
        emr.page_size -= 48
        with emr.answering():
            pages = iter(client.get_paginator("list_job_runs").paginate(applicationId=APPLICATION))
            first = next(pages)
            start(emr, "late")
            found = [job["id"] for page in (first, *pages) for job in page["jobRuns"]]
        assert found == ids[::-1]

    def test_list_with_an_unknown_token_is_refused(self) -> None:
        """A page token that was never given out is refused."""
        with pytest.raises(ClientError) as refused:
            listed(FakeEmr(), nextToken="nobody")
        assert code(refused) == "ValidationException"

    def test_list_asked_by_time_has_those_since(self, movable: MovableClock) -> None:
        """Jobs are found by when they were started, the bounds included."""
        emr = FakeEmr()
        ids = []
        for n in range(3):
            ids.append(start(emr, f"t{n}"))
            movable.sleep(60)
        minute = START + datetime.timedelta(minutes=1)
        assert listed(emr, createdAtAfter=minute) == [ids[2], ids[1]]
        assert listed(emr, createdAtAfter=minute, createdAtBefore=minute) == [ids[1]]
        assert listed(emr, createdAtAfter=minute + datetime.timedelta(minutes=2)) == []

    def test_list_asked_by_state_has_those_only(self, movable: MovableClock) -> None:
        """Jobs are found by the state they are in now."""
        emr = FakeEmr()
        over = start(emr)
        movable.sleep(1)
        live = start(emr, "t2")
        assert listed(emr, states=["SUCCESS", "FAILED"]) == [over]
        assert listed(emr, states=["SUBMITTED"]) == [live]
        assert listed(emr, maxResults=1) == [live]
        assert listed(emr, mode="STREAMING") == []


@pytest.mark.usefixtures("movable")
class TestTokens:
    def test_token_repeated_gets_the_same_job(self, movable: MovableClock) -> None:
        """The job of a token is returned even when it has failed, and uses up no outcome."""
        emr = FakeEmr()
        emr.fail_next("orders", "load")
        first = start(emr)
        movable.sleep(1)
        assert start(emr) == first == start(emr)
        assert state(emr, first) == "FAILED"
        assert len(emr.jobs) == 1

    def test_token_forgotten_starts_another_job(self) -> None:
        """A service that has forgotten a token starts a job, and remembers it again."""
        emr = FakeEmr()
        first = start(emr)
        emr.forget_tokens()
        second = start(emr)
        assert second != first
        assert start(emr) == second

    def test_tokens_never_remembered_start_a_job_each(self) -> None:
        """A service without memory starts a job for every request."""
        emr = FakeEmr()
        emr.remembers_tokens = False
        assert [start(emr), start(emr)] == ["00fake000001", "00fake000002"]

    def test_token_left_out_is_made_by_the_client(self, client: Any) -> None:
        """As with botocore, two requests without a token are two jobs."""
        emr = FakeEmr()
        asked = request()
        del asked["clientToken"]
        with emr.answering():
            client.start_job_run(**asked)
            client.start_job_run(**asked)
        assert [job.token for job in emr.jobs] == ["made-000001", "made-000002"]


@pytest.mark.usefixtures("movable")
class TestClients:
    def test_client_is_answered_only_in_the_block(self, movable: MovableClock, client: Any) -> None:
        """A client of the service gets the fake's answers while it answers."""
        emr = FakeEmr()
        before = client._make_api_call
        with emr.answering():
            started = client.start_job_run(**request())
            movable.sleep(1)
            which = {"applicationId": APPLICATION, "jobRunId": started["jobRunId"]}
            assert client.get_job_run(**which)["jobRun"]["state"] == "SUCCESS"
        assert client._make_api_call == before

    def test_refusal_has_the_class_of_the_client(self, client: Any) -> None:
        """Errors that the service declares can be caught by their names."""
        with FakeEmr().answering():
            which = {"applicationId": APPLICATION, "jobRunId": "00none"}
            with pytest.raises(client.exceptions.ResourceNotFoundException):
                client.get_job_run(**which)

    def test_other_services_pass_through(self, deployment: Deployment) -> None:
        """A queue is a queue, whoever answers for EMR Serverless."""
        with FakeEmr().answering():
            aws.client("sqs").send_message(QueueUrl=deployment.queue_url, MessageBody="{}")
        assert deployment.received() == [{}]

    def test_answer_lost_leaves_a_job(self, client: Any) -> None:
        """After a crash behind the call the job is there, and its token finds it."""
        emr = FakeEmr()
        faults = Faults()
        faults.at(1, "crash-before", "StartJobRun")
        faults.at(2, "crash-after", "StartJobRun")
        with emr.answering(), faults.on(client):
            for jobs in (0, 1):
                with pytest.raises(Crash):
                    client.start_job_run(**request())
                assert len(emr.jobs) == jobs
            assert client.start_job_run(**request())["jobRunId"] == emr.jobs[0].job_run_id
        assert len(emr.jobs) == 1

    @pytest.mark.parametrize(
        "refusal",
        [
            "ThrottlingException",
            "ConflictException",
            "InternalServerException",
            "ServiceQuotaExceededException",
        ],
    )
    def test_refusals_planned_come_and_go(self, client: Any, refusal: str) -> None:
        """The next calls of the operation are refused, and the one after them is not."""
        emr = FakeEmr()
        emr.refuse_next("StartJobRun", refusal, times=2)
        with emr.answering():
            for _ in range(2):
                with pytest.raises(ClientError) as refused:
                    client.start_job_run(**request())
                assert code(refused) == refusal
            client.start_job_run(**request())
        assert len(emr.jobs) == 1

    @pytest.mark.parametrize(
        ("operation", "refusal"),
        [("StopJobRun", "ThrottlingException"), ("StartJobRun", "Throttled")],
    )
    def test_refusal_that_cannot_be_is_an_error(self, operation: str, refusal: str) -> None:
        """A plan with a misspelt operation or code would never, or wrongly, come true."""
        with pytest.raises(RefusedError, match="is not one of"):
            FakeEmr().refuse_next(operation, refusal)


class TestScripts:
    @pytest.mark.parametrize(
        ("uri", "step"),
        [
            (context_uri(), StepKey("orders", RUN_KEY, "load", 1)),
            (
                context_uri("a/b", dag="größe", run_key="~x y%", submission=12),
                StepKey("größe", "~x y%", "a/b", 12),
            ),
            ("s3://lake/jobs/orders/load/context.json", StepKey()),
            ("", StepKey()),
        ],
    )
    def test_context_uri_names_the_step(self, uri: str, step: StepKey) -> None:
        """Ids of any characters are read back from the one argument of a job."""
        assert step_of(uri) == step

    def test_outcomes_come_in_order_per_task(self, movable: MovableClock) -> None:
        """Each job takes the next outcome of its own task, and then jobs succeed again."""
        emr = FakeEmr()
        emr.fail_next("orders", "load", times=2, details="worker lost")
        emr.next_outcome("orders", "load", Outcome(state="CANCELLED"))
        ids = [start(emr, f"t{n}") for n in range(4)]
        other = start(emr, "other", context_uri("clean"))
        movable.sleep(1)
        ends = ["FAILED", "FAILED", "CANCELLED", "SUCCESS"]
        assert [state(emr, i) for i in ids] == ends
        assert get(emr, ids[0])["stateDetails"] == "worker lost"
        assert state(emr, other) == "SUCCESS"

    def test_times_are_those_of_task_or_outcome(self, movable: MovableClock) -> None:
        """A task's time holds for all its jobs; an outcome may have its own."""
        emr = FakeEmr()
        emr.takes("orders", "load", minutes=2)
        emr.next_outcome("orders", "load", Outcome(takes=30))
        ids = [start(emr, f"t{n}") for n in range(2)]
        movable.sleep(3600)
        ends = [get(emr, i)["endedAt"] - START for i in ids]
        assert ends == [datetime.timedelta(seconds=30), datetime.timedelta(seconds=120)]

    @pytest.mark.parametrize(
        ("outcome", "states", "words"),
        [
            (Outcome.capacity(), ["SUBMITTED", "SCHEDULED", "FAILED"], "exceeded maximumCapacity"),
            (Outcome.queue_timeout(), ["SUBMITTED", "QUEUED", "FAILED"], "queue timeout"),
        ],
    )
    def test_job_without_capacity_fails_unbilled(
        self, movable: MovableClock, outcome: Outcome, states: list[str], words: str
    ) -> None:
        """A job that got no workers never runs, costs nothing, and says why."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", outcome)
        job_run_id = start(emr)
        movable.sleep(6 * 3600)
        assert [change.state for change in emr.jobs[0].timeline] == states
        job = get(emr, job_run_id)
        assert words in job["stateDetails"]
        assert job["billedResourceUtilization"]["vCPUHour"] == 0
        assert "startedAt" not in job

    @pytest.mark.parametrize(
        "make",
        [
            lambda: Outcome(takes=-1),
            lambda: Outcome(takes=float("nan")),
            lambda: Outcome(ends_in="QUEUED"),
            lambda: FakeEmr().takes("orders", "load", seconds=-1),
            lambda: EventFaults(drop=2),
            lambda: EventFaults(late_seconds=-1),
        ],
    )
    def test_script_that_cannot_be_is_an_error(self, make: Callable[[], object]) -> None:
        """No job ends before it starts or succeeds without running; chances end at 1."""
        with pytest.raises(RefusedError):
            make()


class TestReports:
    def uri(self, deployment: Deployment) -> str:
        """Return a context URI in the bucket, with characters that S3 must keep as they are."""
        return context_uri(bucket=deployment.bucket)

    def report(self, deployment: Deployment) -> dict[str, Any] | None:
        """Return the report that lies beside the context, and take it away."""
        s3 = aws.client("s3")
        key = self.uri(deployment).partition(f"{deployment.bucket}/")[2]
        where = {"Bucket": deployment.bucket, "Key": key.replace("context.json", "report.json")}
        try:
            body = s3.get_object(**where)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        s3.delete_object(**where)
        found: dict[str, Any] = json.loads(body)
        return found

    @pytest.mark.parametrize(
        ("outcome", "end", "report"),
        [
            (Outcome(report={"version": 1, "rows": 3}), "SUCCESS", {"version": 1, "rows": 3}),
            (
                Outcome.skipped("no new files"),
                "SUCCESS",
                {
                    "version": 1,
                    "state": "skipped",
                    "reason": "no new files",
                    "outlets": {},
                    "aliases": {},
                },
            ),
            (
                Outcome.failed("KeyError: 'x'"),
                "FAILED",
                {
                    "version": 1,
                    "state": "failed",
                    "reason": "KeyError: 'x'",
                    "outlets": {},
                    "aliases": {},
                },
            ),
            (Outcome(), "SUCCESS", None),
        ],
    )
    def test_report_lies_beside_the_context_at_the_end(
        self,
        deployment: Deployment,
        outcome: Outcome,
        end: str,
        report: dict[str, Any] | None,
    ) -> None:
        """Whoever is told that a job is over finds its report, and nobody does before."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", outcome)
        job_run_id = start(emr, uri=self.uri(deployment))
        deployment.clock.sleep(0.9)
        assert state(emr, job_run_id) == "RUNNING"
        assert self.report(deployment) is None
        deployment.clock.sleep(0.1)
        assert state(emr, job_run_id) == end
        assert self.report(deployment) == report

    def test_report_is_there_before_the_event(self, deployment: Deployment) -> None:
        """An event that tells of the end is not ahead of the report."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.skipped())
        start(emr, uri=self.uri(deployment))
        deployment.clock.sleep(1)
        emr.emit()
        assert self.report(deployment) is not None

    def test_job_cancelled_reports_nothing(self, deployment: Deployment) -> None:
        """What is ended by others puts no report."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.skipped())
        job_run_id = start(emr, uri=self.uri(deployment))
        cancel(emr, job_run_id)
        deployment.clock.sleep(10)
        assert state(emr, job_run_id) == "CANCELLED"
        assert self.report(deployment) is None

    def test_faults_of_our_clients_spare_the_job(self, deployment: Deployment) -> None:
        """Neither the report nor the event is a call of ours that could crash or be counted."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.skipped())
        start(emr, uri=self.uri(deployment))
        deployment.clock.sleep(1)
        faults = Faults()
        faults.probability(crash_before=1.0)
        with faults.on(aws.client("s3"), aws.client("sqs")):
            assert emr.emit() == 2
        assert faults.calls == []
        assert self.report(deployment) is not None


class TestEvents:
    def test_change_becomes_an_event_of_eventbridge(self, deployment: Deployment) -> None:
        """An envelope tells which job of which application went from which state to which."""
        emr = FakeEmr()
        start(emr)
        deployment.clock.sleep(0.7)
        assert emr.emit() == 1
        (event,) = deployment.received()
        assert event["source"] == "aws.emr-serverless"
        assert event["detail-type"] == "EMR Serverless Job Run State Change"
        assert event["time"] == "2026-01-05T12:00:00Z"
        detail = event["detail"]
        assert detail["jobRunId"] == "00fake000001"
        assert detail["applicationId"] == APPLICATION
        assert detail["arn"] == emr.jobs[0].arn
        assert detail["releaseLabel"] == "emr-spark-8.0.0"
        assert (detail["previousState"], detail["state"]) == ("SCHEDULED", "RUNNING")
        assert parse_instant(detail["createdAt"]) == START
        assert parse_instant(detail["updatedAt"]) == START + datetime.timedelta(seconds=0.5)

    def test_events_are_sent_once_and_only_some(self, deployment: Deployment) -> None:
        """Of a whole life the queue sees the states that the rule lets through."""
        emr = FakeEmr(capacity=1)
        emr.fail_next("orders", "load")
        start(emr)
        cancel(emr, start(emr, "t2"))
        assert run_to_the_end(emr, deployment.clock) == 3
        assert emr.emit() == 0
        assert deployment.states() == [("1", "RUNNING"), ("1", "FAILED"), ("2", "CANCELLED")]

    def test_next_change_leads_from_instant_to_instant(self, deployment: Deployment) -> None:
        """Asked again and again, it names each change, then nothing."""
        emr = FakeEmr()
        assert emr.next_change() is None
        start(emr)
        instants = []
        while (instant := emr.next_change()) is not None:
            instants.append(instant)
            deployment.clock.move(to=instant)
            emr.emit()
        assert [(at - START).total_seconds() for at in instants] == [0.25, 0.5, 1]

    def test_change_seen_by_a_question_is_still_sent(self, deployment: Deployment) -> None:
        """An answer that told of a change does not keep its event from coming."""
        emr = FakeEmr()
        job_run_id = start(emr)
        deployment.clock.sleep(1)
        assert state(emr, job_run_id) == "SUCCESS"
        assert emr.next_change() == START + datetime.timedelta(seconds=0.5)
        assert emr.emit() == 2

    def test_events_dropped_never_come(self, deployment: Deployment) -> None:
        """A job whose events are lost is over all the same."""
        emr = FakeEmr()
        emr.events = EventFaults(drop=1)
        start(emr)
        assert run_to_the_end(emr, deployment.clock) == 0
        assert emr.jobs[0].state == "SUCCESS"
        assert deployment.received() == []

    def test_events_doubled_are_the_same_event(self, deployment: Deployment) -> None:
        """A repetition has the id of the first."""
        emr = FakeEmr()
        emr.events = EventFaults(double=1)
        start(emr)
        assert run_to_the_end(emr, deployment.clock) == 4
        events = deployment.received()
        assert len({event["id"] for event in events}) == 2
        assert events[0] == events[1]

    def test_events_held_back_come_late(self, deployment: Deployment) -> None:
        """The state is told at once, and the event comes within the time it may take."""
        emr = FakeEmr()
        emr.events = EventFaults(late_seconds=600)
        ids = [start(emr, f"t{n}") for n in range(20)]
        deployment.clock.sleep(1)
        assert {state(emr, i) for i in ids} == {"SUCCESS"}
        early = emr.emit()
        assert early < 5
        assert early + run_to_the_end(emr, deployment.clock) == 40
        assert 1 < (deployment.clock.now() - START).total_seconds() <= 601
        seen = [i for i in deployment.states() if i[0] == "9"]
        assert set(seen) == {("9", "RUNNING"), ("9", "SUCCESS")}

    def test_events_shuffled_come_in_any_order(self, deployment: Deployment) -> None:
        """Those that come at one instant come all, but not in their order."""
        emr = FakeEmr()
        start(emr, "t0")
        for n in range(1, 5):
            start(emr, f"t{n}")
        deployment.clock.sleep(1)
        emr.events = EventFaults(is_shuffled=True)
        assert emr.emit() == 10
        in_order = [(str(n), s) for s in ("RUNNING", "SUCCESS") for n in range(1, 6)]
        states = deployment.states()
        assert states != in_order
        assert sorted(states) == sorted(in_order)

    def test_same_calls_make_the_same_history(self, deployment: Deployment) -> None:
        """Chance is repeatable: ids, instants and events are equal the second time."""

        def history() -> tuple[Any, Any]:
            deployment.clock._at = START
            emr = FakeEmr(capacity=3)
            emr.events = EventFaults(0.3, 0.3, 60.0, is_shuffled=True, seed=7)
            for n in range(10):
                start(emr, f"t{n}")
            run_to_the_end(emr, deployment.clock)
            return emr.jobs, deployment.received()

        assert history() == history()


@pytest.mark.usefixtures("movable")
class TestChecks:
    def test_record_tells_all_about_a_job(self) -> None:
        """A job is known by its step, its token and what was sent for it."""
        emr = FakeEmr()
        start(emr, "t1", context_uri(submission=3), name="n")
        (job,) = emr.jobs
        assert (job.job_run_id, job.name, job.token) == ("00fake000001", "n", "t1")
        assert (job.dag, job.run_key, job.task, job.submission) == ("orders", RUN_KEY, "load", 3)
        assert job.request == request("t1", context_uri(submission=3), name="n")
        assert job.context_uri == context_uri(submission=3)

    def test_request_changed_later_is_kept_as_sent(self) -> None:
        """Neither the caller's dict nor an answer is a way into the fake's memory."""
        emr = FakeEmr()
        sent = request(tags={"a": "b"})
        emr.call("StartJobRun", sent)
        sent["tags"]["a"] = "c"
        get(emr, "00fake000001")["tags"]["a"] = "d"
        assert emr.jobs[0].request["tags"] == {"a": "b"}

    def test_live_jobs_are_those_not_over(self, movable: MovableClock) -> None:
        """A job is live until its last instant, also while it is being cancelled."""
        emr = FakeEmr()
        start(emr)
        movable.sleep(0.5)
        second = start(emr, "t2")
        cancel(emr, second)
        movable.sleep(0.5)
        assert [job.job_run_id for job in emr.live()] == [second]
        movable.sleep(0.5)
        assert emr.live() == []

    def test_two_live_jobs_of_a_step_are_told(self, movable: MovableClock) -> None:
        """Two jobs of one step that overlap are named, even when both are long over."""
        emr = FakeEmr()
        start(emr, "t1")
        movable.sleep(0.75)
        start(emr, "t2", context_uri(submission=2))
        movable.sleep(3600)
        (sentence,) = emr.doubles()
        assert sentence == (
            f"step load of run {RUN_KEY} of orders had two live jobs at "
            "2026-01-05T12:00:00.750000+00:00: 00fake000001 and 00fake000002"
        )

    def test_job_that_outlives_others_is_remembered(self, movable: MovableClock) -> None:
        """A long job overlaps one that starts after a shorter one between them has ended."""
        emr = FakeEmr()
        emr.next_outcome("orders", "load", Outcome.hangs())
        start(emr, "t1")
        movable.sleep(1)
        start(emr, "t2")
        movable.sleep(5)
        start(emr, "t3")
        assert [sentence.rpartition(": ")[2] for sentence in emr.doubles()] == [
            "00fake000001 and 00fake000002",
            "00fake000001 and 00fake000003",
        ]

    def test_jobs_one_after_another_are_no_doubles(self, movable: MovableClock) -> None:
        """A job may start at the very instant at which the one before it is over."""
        emr = FakeEmr()
        start(emr, "t1")
        movable.sleep(1)
        start(emr, "t2")
        start(emr, "t3", context_uri("clean"))
        start(emr, "t4", context_uri(run_key="other"))
        start(emr, "t5", "no context")
        start(emr, "t6", "no context")
        assert emr.doubles() == []

    def test_threads_at_once_get_one_job_per_token(self) -> None:
        """Many threads that start jobs with few tokens start as many as there are tokens."""
        emr = FakeEmr(capacity=2)
        with ThreadPoolExecutor(8) as threads:
            ids = set(threads.map(lambda n: start(emr, f"t{n % 5}"), range(200)))
        assert ids == {f"00fake{n:06}" for n in range(1, 6)}
        assert len(emr.live()) == 5


class TestSnapshots:
    def test_state_put_back_goes_on_the_same_way(self, deployment: Deployment) -> None:
        """From one copy the same future comes twice, outcomes, tokens, refusals and chance."""
        emr = FakeEmr(capacity=1)
        emr.events = EventFaults(0.2, 0.2, 30.0, is_shuffled=True, seed=3)
        emr.fail_next("orders", "load", times=2)
        emr.refuse_next("GetJobRun", "ThrottlingException")
        start(emr, "t0")
        deployment.clock.sleep(0.75)
        emr.emit()
        deployment.received()
        at, copied = deployment.clock.now(), emr.copy_state()

        def future() -> tuple[Any, ...]:
            emr.put_back(copied)
            deployment.clock._at = at
            with pytest.raises(ClientError):
                state(emr, "00fake000001")
            ids = [start(emr, f"t{n}") for n in range(6)]
            emr.takes("orders", "load", seconds=99)
            emr.capacity = 2
            run_to_the_end(emr, deployment.clock)
            return ids, emr.jobs, deployment.received()

        first, second = future(), future()
        assert first == second
        assert first[0][0] == "00fake000001"
        assert [job.state for job in first[1]] == ["FAILED", "FAILED", *["SUCCESS"] * 4]

    def test_state_put_back_forgets_what_came_later(self, movable: MovableClock) -> None:
        """Jobs, tokens, scripts and settings of a future that did not happen are gone."""
        emr = FakeEmr()
        copied = emr.copy_state()
        emr.fail_next("orders", "load")
        emr.capacity = 0
        emr.remembers_tokens = False
        emr.events = EventFaults(drop=1)
        start(emr)
        emr.put_back(copied)
        assert not emr.jobs
        assert emr.remembers_tokens
        assert emr.events == EventFaults()
        assert start(emr) == start(emr) == "00fake000001"
        movable.sleep(1)
        assert state(emr, "00fake000001") == "SUCCESS"
