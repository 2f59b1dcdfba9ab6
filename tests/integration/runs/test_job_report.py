"""Reports of jobs: whatever author code left behind, it is read or it is not, and no more."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter.executors.base import Job, JobState
from lamplighter.runs.job_request import NO_REPORT, JobReport, read_report
from lamplighter_local.stack import LocalStack
from tests.tools.faults import Faults

FOLDER = "jobs/orders/2026-01-31/load/1-0123456789ab"
UNREADABLE = "the job's report cannot be read"

Reporting = Callable[[bytes], JobReport]


def job(stack: LocalStack) -> Job:
    """Return a job that is over."""
    return Job("00a", JobState.SUCCESS, f"s3://{stack.settings.bucket}/{FOLDER}/context.json")


@pytest.fixture
def reporting(stack: LocalStack) -> Reporting:
    """Return a function that lets a job leave a report, and reads it."""

    def read(body: bytes) -> JobReport:
        key = f"{FOLDER}/report.json"
        aws.client("s3").put_object(Bucket=stack.settings.bucket, Key=key, Body=body)
        return read_report(job(stack))

    return read


def test_job_that_left_nothing_has_no_report(stack: LocalStack) -> None:
    """A job that died says nothing, which is no error."""
    other = Job("00b", JobState.FAILED, job(stack).context_uri.replace("orders", "nobody"))
    assert read_report(other) is NO_REPORT
    assert not NO_REPORT.is_skipped


@pytest.mark.parametrize("code", ["AccessDenied", "SlowDown", "InternalError", "NoSuchBucket"])
def test_report_out_of_reach_is_asked_for_again(
    stack: LocalStack, reporting: Reporting, code: str
) -> None:
    """A report that is there is never taken for none: the message comes again."""
    reporting(b"{}")
    faults = Faults()
    faults.at(1, "throttle", "GetObject", code=code)
    with faults.on(aws.client("s3")), pytest.raises(ClientError, match=code):
        read_report(job(stack))


def test_report_that_cannot_be_looked_for_is_asked_for_again(stack: LocalStack) -> None:
    """If S3 forbids both the report and the list of objects, nobody knows, and it raises."""
    faults = Faults()
    faults.at(1, "throttle", "GetObject", code="AccessDenied")
    faults.at(1, "throttle", "ListObjectsV2", code="AccessDenied")
    with faults.on(aws.client("s3")), pytest.raises(ClientError, match="ListObjectsV2"):
        read_report(job(stack))


def test_report_of_a_job_is_read_as_written(reporting: Reporting) -> None:
    """Extras, aliases and the reason come through."""
    said = {
        "version": 1,
        "state": "success",
        "reason": None,
        "outlets": {"orders": {"rows": 5}},
        "aliases": {"found": [{"name": "x", "uri": None, "extra": {}}]},
    }

    report = reporting(json.dumps(said).encode())

    assert report == JobReport(False, None, said["outlets"], said["aliases"])  # type: ignore[arg-type] # mappings


def test_report_of_a_skip_says_why(reporting: Reporting) -> None:
    """A job that found nothing to do is skipped, with its reason."""
    report = reporting(b'{"state": "skipped", "reason": "no files"}')
    assert (report.is_skipped, report.reason) == (True, "no files")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b"null",
        b'"skipped"',
        b"5",
        b'{"state": "skipped"',
        b"[" * 100_000,
        b'{"reason": ' + b"9" * 5_000 + b"}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_report_that_is_garbage_is_called_so(reporting: Reporting, body: bytes) -> None:
    """What is no report is not believed, not even about a skip."""
    assert reporting(body) == JobReport(reason=UNREADABLE)


def test_report_that_is_huge_is_not_read_to_its_end(reporting: Reporting) -> None:
    """A report of many megabytes is cut off, which makes it unreadable."""
    body = json.dumps({"state": "skipped", "reason": "x" * 4_000_001}).encode()
    assert reporting(body) == JobReport(reason=UNREADABLE)


def test_report_of_the_largest_size_is_read(reporting: Reporting) -> None:
    """Ninety outlets with all that each may say fit."""
    outlets = {f"asset{number}": {"text": "x" * 31_900} for number in range(90)}
    report = reporting(json.dumps({"state": "success", "outlets": outlets}).encode())
    assert report.extras == outlets


@pytest.mark.parametrize("value", [None, 5, "x", [], [["a", {}]], True])
def test_report_with_fields_of_a_wrong_kind_loses_them(reporting: Reporting, value: Any) -> None:
    """Outlets and aliases that are no mappings are as good as none."""
    report = reporting(json.dumps({"outlets": value, "aliases": value, "state": value}).encode())
    assert report == JobReport()


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (["a"], "['a']"), ({"a": 1}, "{'a': 1}"), (False, "False")]
)
def test_reason_of_a_wrong_kind_becomes_a_text(reporting: Reporting, value: Any, text: str) -> None:
    """Whatever a job gives as its reason is shown."""
    assert reporting(json.dumps({"reason": value}).encode()).reason == text


def test_outputs_of_a_job_are_read_as_written(reporting: Reporting) -> None:
    """What is JSON and small comes through."""
    outputs = {"rows": 3, "files": ["a"], "größe": {"b": None}, "text": "x" * 31_000}
    report = reporting(json.dumps({"state": "success", "outputs": outputs}).encode())
    assert (report.outputs, report.problem) == (outputs, None)


REFUSED_OUTPUTS = [
    (b'{"x": "' + b"a" * 32_000 + b'"}', "32,009 characters"),
    (b'{"x": NaN}', "not finite"),
    (b'{"x": 1e999}', "not finite"),
    (b'{"x": "\\ud800"}', "lone surrogate"),
    (b'{"x": ' + b"[" * 21 + b"]" * 21 + b"}", "nested too deeply"),
    (b'{"x": ' + b"[" * 900 + b"]" * 900 + b"}", "nested too deeply"),
    (b"[1]", "must be an object"),
    (b"5", "must be an object"),
    (b'"rows"', "must be an object"),
]


@pytest.mark.parametrize(
    ("outputs", "problem"), REFUSED_OUTPUTS, ids=[p for _, p in REFUSED_OUTPUTS]
)
def test_outputs_that_cannot_be_used_are_none_with_a_reason(
    reporting: Reporting, outputs: bytes, problem: str
) -> None:
    """The rest of the report counts all the same."""
    report = reporting(b'{"state": "skipped", "outputs": ' + outputs + b"}")
    assert (report.outputs, report.is_skipped) == ({}, True)
    assert "outputs" in str(report.problem)
    assert problem in str(report.problem)


def test_report_that_its_executor_gives_is_not_looked_for(stack: LocalStack) -> None:
    """It is believed whoever asks: no job could have written it."""
    given = replace(job(stack), report={"state": "success", "outputs": {"rows": 3}})
    report = read_report(given)
    assert (report.outputs, report.is_trusted) == ({"rows": 3}, True)


@pytest.mark.parametrize("state", ["SKIPPED", "skip", "", ["skipped"], {"skipped": 1}])
def test_state_that_is_not_exactly_skipped_is_no_skip(reporting: Reporting, state: Any) -> None:
    """Only the one word of the contract skips a step."""
    assert not reporting(json.dumps({"state": state}).encode()).is_skipped
