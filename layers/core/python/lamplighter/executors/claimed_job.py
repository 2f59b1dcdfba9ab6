"""A job that an invocation of the function `task` has claimed: what it is told, and its end.

Owns: the order of an end. The report is put before the row is moved, and whoever reads the row
finds the report.
"""

import json
import logging
import platform
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, clock
from lamplighter.errors import in_short
from lamplighter.store import jobs
from lamplighter.store.models import Jobs
from lamplighter.store.rows import StoreError

log = logging.getLogger(__name__)

# Of an invocation: to end the process of a job, put its report and move its row.
SECONDS_TO_END = 30.0
# Clocks differ.
_MARGIN_SECONDS = 120.0
_REPORT = "report.json"
_ARCHITECTURES = {"aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Ended:
    """How a job has ended: what it says itself, which is not to be trusted, or what is known."""

    document: Mapping[str, Any] | None = None
    details: str = ""

    @property
    def state(self) -> str:
        """The last state of the job."""
        said = None if self.document is None else self.document.get("state")
        return jobs.SUCCESS if said in {"success", "skipped"} else jobs.FAILED


@dataclass(frozen=True)
class ClaimedJob:
    """A job that this invocation, and no other, may run."""

    row: Jobs

    @classmethod
    def claim(cls, job_id: str, *, seconds: float, memory_mb: int | None) -> Self | None:
        """Claim a job for an invocation that lives so long; None if it is not to be run (again)."""
        claim = jobs.Claim(
            uuid.uuid4().hex,
            clock.now().add(seconds=seconds + _MARGIN_SECONDS),
            memory_mb,
            _ARCHITECTURES.get(platform.machine(), "x86_64"),
        )
        row = jobs.claim_job(job_id, claim)
        return None if row is None else cls(row)

    def limit(self, seconds: float) -> tuple[float, str]:
        """Return how long it may run, and what is said of more; an invocation has `seconds`."""
        own, there_are = self.row.timeout_seconds, seconds - SECONDS_TO_END
        if own is not None and own <= there_are:
            return float(own), f"execution_timeout: it ran for longer than {own:g} s"
        return there_are, (
            f"it ran for longer than the {there_are:g} s that Lambda has for a step: split the"
            " task, or use a SparkTask"
        )

    def read_context(self) -> "JobContext":
        """Return what the job is told; raise what S3 raises if that is not there."""
        bucket, key = aws.bucket_and_key(self.row.context_uri)
        body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"]
        document = json.loads(body.read())
        return JobContext(document.pop("report_secret", None), document)

    def is_cancelled(self) -> bool:
        """Whether someone has asked for its end, or has given it up."""
        try:
            row = jobs.read_job(self.row.job_id)
        except StoreError:  # it is asked again in a few seconds; a job is not ended for that
            log.warning(
                "row of a job cannot be read", exc_info=True, extra={"job": self.row.job_id}
            )
            return False
        return row is None or row.state != jobs.RUNNING or row.claim_id != self.row.claim_id

    def end(self, ended: Ended, secret: str | None = None) -> None:
        """Put the report of the job, if it has one, and move its row."""
        state, details = ended.state, ended.details
        if ended.document is not None:
            try:
                self._put_report({**ended.document, "secret": secret})
            except (BotoCoreError, ClientError) as error:
                state, details = jobs.FAILED, f"its report could not be stored: {error}"
        jobs.end_job(self.row, state, in_short(details))

    def _put_report(self, report: Mapping[str, Any]) -> None:
        bucket, key = aws.bucket_and_key(self.row.context_uri)
        beside = f"{key.rpartition('/')[0]}/{_REPORT}"
        aws.client("s3").put_object(Bucket=bucket, Key=beside, Body=json.dumps(report).encode())


@dataclass(frozen=True)
class JobContext:
    """The document that a job finds as its context, and the secret of its report apart from it."""

    secret: str | None = field(repr=False)
    document: Mapping[str, Any]
