"""What the function `task` does: it runs the job of one Python task, once.

Owns: from the claim of the job to its end. The author's function runs in a process of its own,
which has the credentials of the role of such jobs and none of this one's, and never learns the
secret of its report.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, settings
from lamplighter.bundles.archive import MAX_ARCHIVE_BYTES, open_stored
from lamplighter.errors import DefinitionError
from lamplighter.executors.claimed_job import ClaimedJob, Ended
from lamplighter.executors.job_process import JobProcess
from lamplighter.safe_text import masked_text

log = logging.getLogger(__name__)

# All that fetching and unpacking what a job needs can end with.
_NOT_THERE = (BotoCoreError, ClientError, DefinitionError, OSError, ValueError)
_ON_EVERY_LINE = ("dag_id", "run_id", "task_id", "try_number")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class Host:
    """Where jobs run: for how long, what is billed, and where lines of their logs go."""

    seconds: float
    memory_mb: int | None
    write: Callable[[str], object] = field(default=print)
    # For the process of the author's function.
    environment: Mapping[str, str] = field(default_factory=dict)


def run_job(job_id: str, host: Host) -> bool:
    """Run a job to its end; return False if another invocation has it, or nobody wants it."""
    began_at = time.monotonic()
    job = ClaimedJob.claim(job_id, seconds=host.seconds, memory_mb=host.memory_mb)
    if job is None:
        log.info("job is not to be run, or not again", extra={"job": job_id})
        return False
    with TemporaryDirectory(prefix="lamplighter-job-", ignore_cleanup_errors=True) as folder:
        secret, ended = _run(job, host, Path(folder).resolve(), began_at)
    job.end(ended, secret)
    return True


def _run(job: ClaimedJob, host: Host, folder: Path, began_at: float) -> tuple[str | None, Ended]:
    try:
        context = job.read_context()
        root = _unpacked(job.row.bundle_uri, folder)
        environment = {**_region(), **_credentials(context.document), **host.environment}
    except _NOT_THERE as error:
        return None, Ended(details=f"what the job needs cannot be had: {error}")
    request = {"context": context.document, "bundle": str(root)}
    seconds, text = job.limit(host.seconds)
    ended = JobProcess(folder, request, environment).run(
        began_at + seconds,
        is_cancelled=job.is_cancelled,
        on_line=partial(_write_line, host, job.row.job_id, context.document),
    )
    if ended.document is None and ended.details == "late":
        ended = Ended(details=text)
    return context.secret, ended


def _unpacked(bundle_uri: str, folder: Path) -> Path:
    bucket, key = aws.bucket_and_key(bundle_uri)
    body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"]
    # One byte more than allowed is enough to be refused.
    return open_stored(body.read(MAX_ARCHIVE_BYTES + 1), key, folder / "bundle")


def _region() -> dict[str, str]:
    return {name: os.environ[name] for name in _REGION if name in os.environ}


def _credentials(context: Mapping[str, Any]) -> dict[str, str]:
    """Return credentials of the role of such jobs, for everything but the deployment's bucket."""
    given = settings.current()
    if not given.task_job_role_arn:
        return {}
    partition = given.task_job_role_arn.split(":")[1]
    own = f"arn:{partition}:s3:::{given.bucket}"
    elsewhere = {"Effect": "Allow", "Action": "*", "NotResource": [own, f"{own}/*"]}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [elsewhere]})
    name = f"{context['dag_id']}-{context['task_id']}"
    return aws.assumed_role(given.task_job_role_arn, name, Policy=policy)


def _write_line(
    host: Host, job_id: str, context: Mapping[str, Any], stream: str, text: str
) -> None:
    about = {name: context.get(name) for name in _ON_EVERY_LINE}
    line = {"job": job_id, **about, "stream": stream, "message": masked_text(text)}
    host.write(json.dumps(line))
