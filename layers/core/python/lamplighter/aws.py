"""AWS clients: one per service and runtime, with timeouts that suit Lambda."""

import os
import re
from typing import Any

import boto3
from botocore.config import Config

from lamplighter import runtime

# Functions run for seconds: fail early and rely on redelivery.
CONNECT_SECONDS = 1.0
READ_SECONDS = 3.0
ATTEMPTS = 3
# Credentials of a role that another role has assumed last an hour at most.
ROLE_SECONDS = 3_600

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


# Credentials of this process that its environment no longer has, as arguments of clients.
_held: dict[str, str] = {}
_CREDENTIALS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
}


def withdraw_credentials() -> None:
    """Take the credentials out of the environment, which processes of author code might inherit.

    Those of a Lambda last as long as its process. One that began from a snapshot has none there: it
    asks for them, again and again.
    """
    for argument, name in _CREDENTIALS.items():
        if name in os.environ:
            _held[argument] = os.environ.pop(name)


def held_credentials() -> dict[str, str]:
    """Return the credentials that were withdrawn, as arguments of a client."""
    return dict(_held)


def assumed_role(role_arn: str, session_name: str, **narrowed: str) -> dict[str, str]:
    """Return temporary credentials of a role, for an hour, as the environment of a process."""
    found = client("sts").assume_role(
        RoleArn=role_arn,
        RoleSessionName=re.sub(r"[^A-Za-z0-9_=,.@-]", "-", session_name)[:64],
        DurationSeconds=ROLE_SECONDS,
        **narrowed,
    )["Credentials"]
    return {
        "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
        "AWS_SESSION_TOKEN": found["SessionToken"],
    }


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
        return boto3.client(service, config=limits, **_held)

    return runtime.current().client((service, read_seconds), make)
