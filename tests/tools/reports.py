"""Reports of jobs as their own runner, or somebody else, puts them beside a context."""

import json

from lamplighter import aws
from lamplighter.runs.job_request import report_uri


def secret_of(context_uri: str) -> str:
    """Return the secret of a submission, which its job reads from its context."""
    bucket, key = aws.bucket_and_key(context_uri)
    body = aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return str(json.loads(body)["report_secret"])


def put_report(context_uri: str, body: bytes) -> None:
    """Put a report as it is."""
    bucket, key = aws.bucket_and_key(report_uri(context_uri))
    aws.client("s3").put_object(Bucket=bucket, Key=key, Body=body)


def put_signed_report(context_uri: str, body: bytes) -> None:
    """Put a report with the secret of its submission, if it is an object that can hold one."""
    secret = f'{{"secret": "{secret_of(context_uri)}", '.encode()
    put_report(context_uri, body.replace(b"{", secret, 1) if body.startswith(b"{") else body)
