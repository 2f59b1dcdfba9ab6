"""Where the logs of jobs lie, and what they say. Reads only.

Owns: the layout below the setting `job_logs_uri`, which is that of EMR Serverless; whatever else
runs jobs and keeps their logs puts them there too.
"""

import gzip
from collections.abc import Iterator

from botocore.exceptions import ClientError

from lamplighter import aws, settings

STREAMS = ("stdout", "stderr")

# A part of a long log over a slow line.
_READ_SECONDS = 30.0
_ABSENT = frozenset({"NoSuchKey", "404"})


def log_uri(job_run_id: str, stream: str) -> str:
    """Return where what the driver of a job wrote to a stream is, or will be."""
    deployment = settings.current()
    root = deployment.require("job_logs_uri").rstrip("/")
    application = deployment.require("emr_application_id")
    return f"{root}/applications/{application}/jobs/{job_run_id}/SPARK_DRIVER/{stream}.gz"


def read_log(uri: str) -> Iterator[str] | None:
    """Return the lines of a log, read as they are needed, or None if it is not there."""
    bucket, key = aws.bucket_and_key(uri)
    try:
        answer = aws.client("s3", read_seconds=_READ_SECONDS).get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] in _ABSENT:
            return None
        raise
    # Also what is not text is shown, as far as it can be.
    return iter(gzip.open(answer["Body"], "rt", encoding="utf-8", errors="replace"))
