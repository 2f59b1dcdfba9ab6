"""Clients of AWS services: one of each per runtime, with time limits that suit a Lambda."""

from typing import Any

import boto3
from botocore.config import Config

from lamplighter import runtime

# A function has seconds, not minutes: give up early and let the platform deliver again.
CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
ATTEMPTS = 3

_LIMITS = Config(
    # What is sent is made by this library: checking it again costs more than sending it.
    parameter_validation=False,
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
)


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Return the two parts of an address in S3."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def client(service: str, *, read_seconds: float = READ_SECONDS) -> Any:
    """Return the client of a service; where and who it is come from the environment."""
    return runtime.current().client(
        (service, read_seconds),
        lambda: boto3.client(service, config=_LIMITS.merge(Config(read_timeout=read_seconds))),
    )
