"""Records what EMR Serverless answers, for the fake to be held against.

Owns: which answers, and that nothing in them tells whose account it was. A job is started for it
with what a job of the stage was started with, and cancelled at once.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from lamplighter import aws
from tests.account.results import Result, passed, skipped
from tests.account.stage import Stage

_ACCOUNT, _SOMEONE = "111111111111", "arn:aws:iam::111111111111:user/someone"
_SENT = ("jobDriver", "configurationOverrides", "tags")
_EVENTS_SECONDS = 60.0
_OVER = ("CANCELLED", "FAILED", "SUCCESS")


def record_answers(stage: Stage) -> Result:
    """Write what EMR Serverless answers and tells as files, without the account."""
    emr = aws.client("emr-serverless")
    application = stage.settings.emr_application_id
    jobs = emr.list_job_runs(applicationId=application, states=["SUCCESS"])["jobRuns"]
    if not jobs:
        return skipped("no job has succeeded: see `job`")
    job = emr.get_job_run(applicationId=application, jobRunId=jobs[0]["id"])["jobRun"]
    with _events(stage) as received:
        answers = list(answers_about(emr, job, wait_until_over=_wait_until_over))
        started = next(answer for operation, answer in answers if operation == "StartJobRun")
        events = received(started["jobRunId"])
    path = stage.fixtures / "recorded.json"
    write_recording(path, answers, events, account=stage.account)
    return passed(f"{len(answers)} answers and {len(events)} events are in {path}")


def answers_about(
    emr: Any, job: Mapping[str, Any], *, wait_until_over: Callable[[Callable[[], str]], None]
) -> Iterator[tuple[str, Any]]:
    """Yield what is answered about a job that is over, and about one like it, by operation."""
    application = job["applicationId"]
    yield "GetJobRun", {"jobRun": job}
    request = {
        "applicationId": application,
        "clientToken": str(uuid4()),
        "name": "lamplighter-smoke",
        "executionRoleArn": job["executionRole"],
        **{name: job[name] for name in _SENT if name in job},
    }
    started = emr.start_job_run(**request)
    yield "StartJobRun", started
    named = {"applicationId": application, "jobRunId": started["jobRunId"]}
    yield "GetJobRun", emr.get_job_run(**named)
    yield "CancelJobRun", emr.cancel_job_run(**named)
    wait_until_over(lambda: emr.get_job_run(**named)["jobRun"]["state"])
    yield "GetJobRun", emr.get_job_run(**named)
    yield "ListJobRuns", emr.list_job_runs(applicationId=application, maxResults=5)


def _wait_until_over(state: Callable[[], str]) -> None:
    until = time.monotonic() + _EVENTS_SECONDS
    while state() not in _OVER and time.monotonic() < until:
        time.sleep(1)


# Events: a queue and a rule of their own, for as long as it takes.


@contextmanager
def _events(stage: Stage) -> Iterator[Callable[[str], list[Any]]]:
    """Yield what returns the events of a job since the block began."""
    name = f"{stage.stack}-recording"
    sqs, events = aws.client("sqs", read_seconds=30), aws.client("events")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = f"arn:aws:sqs:{stage.region}:{stage.account}:{name}"
    try:
        _admit(url, arn)
        pattern = {"detail-type": [{"prefix": "EMR Serverless Job"}]}
        events.put_rule(Name=name, EventPattern=json.dumps(pattern))
        events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
        yield lambda job_run_id: _received(sqs, url, job_run_id)
    finally:
        _forget(events, name)
        sqs.delete_queue(QueueUrl=url)


def _forget(events: Any, rule: str) -> None:
    try:
        events.remove_targets(Rule=rule, Ids=["queue"])
        events.delete_rule(Name=rule)
    except events.exceptions.ResourceNotFoundException:
        return  # it was never made


def _admit(url: str, arn: str) -> None:
    policy = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "events.amazonaws.com"},
                "Action": "sqs:SendMessage",
                "Resource": arn,
            }
        ],
    }
    aws.client("sqs", read_seconds=30).set_queue_attributes(
        QueueUrl=url, Attributes={"Policy": json.dumps(policy)}
    )


def _received(sqs: Any, url: str, job_run_id: str) -> list[Any]:
    """Return the events of a job, up to that of its end."""
    found: list[Any] = []
    until = time.monotonic() + _EVENTS_SECONDS
    while time.monotonic() < until and not any(_is_end(each) for each in found):
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=10)
        for each in answer.get("Messages", []):
            event = json.loads(each["Body"])
            found += [event] if event["detail"].get("jobRunId") == job_run_id else []
            sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
    return found


def _is_end(event: Mapping[str, Any]) -> bool:
    return event["detail"].get("state") in _OVER


# Files.


def write_recording(
    path: Path, answers: Sequence[tuple[str, Any]], events: Sequence[Any], *, account: str
) -> None:
    """Write answers and events without anything that tells whose they were."""
    recording = {
        "answers": [{"operation": operation, "answer": answer} for operation, answer in answers],
        "events": events,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(scrubbed(recording, account=account), indent=2, sort_keys=True)
    path.write_text(f"{text}\n")


def scrubbed(answer: Any, *, account: str) -> Any:
    """Return an answer as JSON, with another account, no person, and no ids of requests."""
    if isinstance(answer, Mapping):
        return {
            name: _SOMEONE if name == "createdBy" else scrubbed(value, account=account)
            for name, value in answer.items()
            if name != "ResponseMetadata"
        }
    if isinstance(answer, list | tuple):
        return [scrubbed(each, account=account) for each in answer]
    if isinstance(answer, datetime):
        return answer.isoformat()
    return answer.replace(account, _ACCOUNT) if isinstance(answer, str) else answer
