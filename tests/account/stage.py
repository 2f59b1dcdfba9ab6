"""The stage that is deployed to an account to look at it, and deleted again.

Owns: its name, its flags, and that nothing else is ever deployed or deleted.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from lamplighter import aws, settings
from lamplighter.errors import LamplighterError
from lamplighter.settings import Settings

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures" / "emr"
STAGE = "smoke"
STACK = f"lamplighter-{STAGE}"
# Small: one job of the example fits into the quota of a new account.
FLAGS: Mapping[str, str] = {
    "keep_data": "false",
    "log_days": "1",
    "concurrency": "2",
    "spark_vcpus": "16",
    "spark_memory_gb": "64",
    "spark_disk_gb": "400",
    "spark_concurrent_runs": "2",
    "spark_idle_minutes": "1",
}
_CDK = ROOT / "node_modules" / "aws-cdk" / "bin" / "cdk"
_ASK_SECONDS = 5.0
_STOP_SECONDS = 300.0


class SmokeError(LamplighterError):
    """The stage could not be deployed or deleted."""


@dataclass(frozen=True)
class Stage:
    """A stage that is deployed, in the account of the current credentials."""

    stack: str
    account: str
    region: str
    # As deployed: what quotas are held against.
    flags: Mapping[str, str]
    # Whether it is an emulator, which has less than AWS.
    is_emulated: bool = False
    # How long to wait for what comes by itself.
    wait_seconds: float = 900.0
    # Where recorded answers go.
    fixtures: Path = FIXTURES

    @property
    def settings(self) -> Settings:
        """The settings that the outputs of the stack tell."""
        return settings.current()

    def wait_for(self, ask: Callable[[], Any]) -> Any:
        """Return what a question answers as soon as that is something; None if it never is."""
        until = time.monotonic() + self.wait_seconds
        while not (found := ask()) and time.monotonic() < until:
            time.sleep(_ASK_SECONDS)
        return found or None


def identity() -> tuple[str, str]:
    """Return the account and the region that the credentials lead to."""
    client = aws.client("sts")
    return client.get_caller_identity()["Account"], client.meta.region_name


def deploy(further: Mapping[str, str]) -> Mapping[str, str]:
    """Deploy the stage, or bring it up to date; return its flags."""
    flags = {**FLAGS, **further, "stage": STAGE}
    _cdk("deploy", flags, "--require-approval", "never")
    return flags


def destroy() -> None:
    """Delete the stage with its data; one that is not there is not an error."""
    outputs = _outputs()
    if outputs is None:
        return
    if application := outputs.get("EmrApplicationId"):
        _stop_application(application)
    if bucket := outputs.get("Bucket"):
        _empty_bucket(bucket)
    _cdk("destroy", {**FLAGS, "stage": STAGE}, "--force")


def _outputs() -> dict[str, str] | None:
    try:
        (stack,) = aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs", ())}


def _stop_application(application: str) -> None:
    """Stop an application: one that is started cannot be deleted."""
    emr = aws.client("emr-serverless")
    until = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < until:
        state = emr.get_application(applicationId=application)["application"]["state"]
        if state in ("CREATED", "STOPPED", "TERMINATED"):
            return
        if state == "STARTED":
            emr.stop_application(applicationId=application)
        time.sleep(_ASK_SECONDS)
    raise SmokeError(f"application {application} does not stop: cancel its jobs, then run it again")


def _empty_bucket(bucket: str) -> None:
    s3 = aws.client("s3")
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        keys = [{"Key": each["Key"]} for each in page.get("Contents", ())]
        if keys:
            s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})


def _cdk(command: str, flags: Mapping[str, str], *options: str) -> None:
    node = os.environ.get("JSII_NODE") or shutil.which("node")
    if node is None or not _CDK.is_file():
        raise SmokeError("the CDK's command line is missing: run `make cdk`")
    given = [part for name, text in flags.items() for part in ("-c", f"{name}={text}")]
    done = subprocess.run(
        [node, str(_CDK), command, *given, *options, "--progress", "events", "--no-color"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SmokeError(f"cdk {command} failed:\n{done.stdout}{done.stderr}")
