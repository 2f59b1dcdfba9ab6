"""Reads `report.json`, which a job writes beside its context when it ends."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws
from lamplighter.executors.base import Job
from lamplighter.runs.job_request import report_uri

# Ninety outlets with 32 KB each.
_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class JobReport:
    """A job's report. It comes from author code, so its values are checked where they are used."""

    is_skipped: bool = False
    reason: str | None = None
    # By outlet name.
    extras: Mapping[str, Any] = field(default_factory=dict)
    # By alias name: the assets that the job produced under it.
    aliases: Mapping[str, Any] = field(default_factory=dict)


NO_REPORT = JobReport()


def read_report(job: Job) -> JobReport:
    """Return the report of a finished job, or an empty one if there is none.

    Only a report that is definitely missing counts as none. If it cannot be read, this raises: the
    step would be settled without its skip, extras and error.
    """
    bucket, key = aws.bucket_and_key(report_uri(job.context_uri))
    s3 = aws.client("s3")
    try:
        body = s3.get_object(Bucket=bucket, Key=key)["Body"].read(_MAX_BYTES)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        # S3 may answer "access denied" for a missing object, but never lists one.
        if code == "NoSuchKey" or (code == "AccessDenied" and not _is_listed(s3, bucket, key)):
            return NO_REPORT
        raise
    return _read(body)


def _is_listed(s3: Any, bucket: str, key: str) -> bool:
    answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)
    return any(found["Key"] == key for found in answer.get("Contents", ()))


def _read(body: bytes) -> JobReport:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return JobReport(reason="the job's report cannot be read")
    if not isinstance(said, dict):
        return JobReport(reason="the job's report cannot be read")
    reason = said.get("reason")
    return JobReport(
        is_skipped=said.get("state") == "skipped",
        reason=readable(str(reason)) if reason is not None else None,
        extras=_mapping(said.get("outlets")),
        aliases=_mapping(said.get("aliases")),
    )


def readable(text: str) -> str:
    """Return a text that can be stored: JSON may contain lone surrogates, UTF-8 may not."""
    return text.encode(errors="replace").decode()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
