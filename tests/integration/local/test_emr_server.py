"""The fake EMR Serverless over HTTP: the same answers as in this process, and events on a bus."""

import datetime
import http.client
import json
from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lamplighter import runtime
from lamplighter.zones import as_utc
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.movable_clock import MovableClock
from tests.tools.emr_server import read_request, serving_emr

START = as_utc(datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC))
REQUEST = {
    "applicationId": "00local",
    "clientToken": "token",
    "executionRoleArn": "arn:aws:iam::123456789012:role/jobs",
    "jobDriver": {"sparkSubmit": {"entryPoint": "s3://bucket/run_step.py"}},
    "name": "a/b c",
}


class Bus(FakeEmr):
    """A fake whose events stay with it, because there is no bus here to tell."""

    def take_events(self) -> list[str]:
        return []

    def told(self) -> list[str]:
        """Return the states that the bus would have been told of."""
        return [json.loads(text)["detail"]["state"] for text in super().take_events()]


@pytest.fixture
def movable() -> Iterator[MovableClock]:
    """Yield the clock of the fake."""
    made = MovableClock(START)
    with runtime.using(clock=made):
        yield made


def _client(address: str) -> boto3.client:
    return boto3.client(
        "emr-serverless",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106 - of nobody
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_job_over_http_is_started_listed_and_described(movable: MovableClock) -> None:
    """A client elsewhere starts a job once per token, finds it by time, and sees it end."""
    emr = Bus()
    with serving_emr(emr) as address:
        client = _client(address)
        first, again = client.start_job_run(**REQUEST), client.start_job_run(**REQUEST)
        movable.advance(datetime.timedelta(minutes=1))
        application, job = REQUEST["applicationId"], first["jobRunId"]
        found = client.get_job_run(applicationId=application, jobRunId=job)["jobRun"]
        page = {"applicationId": application, "states": ["SUCCESS", "FAILED"], "maxResults": 5}
        listed = client.list_job_runs(**page, createdAtAfter=START)["jobRuns"]
        later = client.list_job_runs(**page, createdAtAfter=movable.now())["jobRuns"]

    assert first["jobRunId"] == again["jobRunId"]
    assert (found["state"], found["name"]) == ("SUCCESS", "a/b c")
    assert as_utc(found["createdAt"]) == START
    assert ([each["id"] for each in listed], later) == ([job], [])
    assert emr.told() == ["RUNNING", "SUCCESS"]


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_application_and_dashboard_over_http_are_described(movable: MovableClock) -> None:
    """A client elsewhere is told the state of the application, and where the Spark UI is."""
    with serving_emr(Bus()) as address:
        client = _client(address)
        job = client.start_job_run(**REQUEST)["jobRunId"]
        movable.advance(datetime.timedelta(minutes=1))
        application = client.get_application(applicationId="00local")["application"]
        dashboard = client.get_dashboard_for_job_run(applicationId="00local", jobRunId=job)
    assert (application["state"], application["releaseLabel"]) == ("STARTED", "emr-spark-8.0.0")
    assert dashboard["url"].startswith(f"https://{job}.")


@pytest.mark.allow_hosts(["127.0.0.1"])
def test_refusal_over_http_is_the_error_of_the_service(movable: MovableClock) -> None:
    """What the fake refuses, a client elsewhere gets under the name that the service has for it."""
    emr = Bus()
    emr.refuse_next("StartJobRun", "ThrottlingException")
    with serving_emr(emr) as address:
        client = _client(address)
        with pytest.raises(ClientError) as throttled:
            client.start_job_run(**REQUEST)
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            client.get_job_run(applicationId="00local", jobRunId="00nothere")
        with pytest.raises(client.exceptions.ValidationException):
            client.start_job_run(**REQUEST, executionTimeoutMinutes=1)
    assert throttled.value.response["Error"]["Code"] == "ThrottlingException"


@pytest.mark.allow_hosts(["127.0.0.1"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ],
    ids=["unsigned", "origin", "cross-site", "host"],
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
def test_request_of_a_web_page_is_refused(
    movable: MovableClock, method: str, headers: dict[str, str]
) -> None:
    """A page that a browser shows can neither start a job nor ask whether it may."""
    emr = Bus()
    with serving_emr(emr) as address:
        connection = http.client.HTTPConnection("127.0.0.1", int(address.rpartition(":")[2]))
        path = f"/applications/{REQUEST['applicationId']}/jobruns"
        connection.request(method, path, json.dumps(REQUEST), headers)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("Access-Control-Allow-Origin")) == (403, None)
        connection.close()
        listed = _client(address).list_job_runs(applicationId=REQUEST["applicationId"])
    assert listed["jobRuns"] == []


def test_request_of_another_kind_is_for_nobody() -> None:
    """Only the calls that the library makes are answered."""
    assert read_request("POST", "/applications", b"{}") is None
    assert read_request("DELETE", "/applications/a/jobruns/b", b"") == (
        "CancelJobRun",
        {"applicationId": "a", "jobRunId": "b"},
    )
