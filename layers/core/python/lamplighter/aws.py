"""AWS clients: one per service and runtime, with timeouts that suit Lambda."""

from typing import Any

import boto3
from botocore.config import Config

from lamplighter import runtime

# Functions run for seconds: fail early and rely on redelivery.
CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
ATTEMPTS = 3

_LIMITS = Config(
    # Requests are built by this library; validating them costs more than sending them.
    parameter_validation=False,
    connect_timeout=CONNECT_SECONDS,
    read_timeout=READ_SECONDS,
    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
)


# EMR Serverless is asked once: its calls are paced by rows, not by sleeping, and a throttle after a
# lost response would look as if nothing had been started.
_ASKED_ONCE = Config(retries={"total_max_attempts": 1})


def bucket_and_key(uri: str) -> tuple[str, str]:
    """Return the bucket and key of an S3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def client(service: str, *, read_seconds: float = READ_SECONDS) -> Any:
    """Return the client of a service; region and credentials come from the environment."""

    def make() -> Any:
        limits = _LIMITS.merge(Config(read_timeout=read_seconds))
        if service == "emr-serverless":
            limits = limits.merge(_ASKED_ONCE)
        return boto3.client(service, config=limits)

    return runtime.current().client((service, read_seconds), make)
