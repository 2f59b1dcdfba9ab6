"""The release of EMR Serverless that a stack is made with."""

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from pendulum import DateTime, datetime

from lamplighter import runtime
from lamplighter.executors.emr_releases import SUPPORT_ENDS
from lamplighter_infra.config import Config
from lamplighter_infra.spark import Spark
from lamplighter_local.movable_clock import MovableClock


@pytest.mark.parametrize(
    ("at", "flags", "warnings"),
    [
        (datetime(2026, 11, 18), {}, 0),
        (datetime(2027, 5, 1), {}, 1),
        (datetime(2027, 5, 1), {"emr_release": "emr-spark-8.1.0"}, 0),
        (datetime(2027, 5, 1), {"emr_application_id": "00abc"}, 0),
    ],
)
def test_stack_warns_of_the_end_of_support(
    at: DateTime, flags: dict[str, str], warnings: int
) -> None:
    """Whoever deploys is told, in time, unless the application is another's."""
    stack = cdk.Stack(cdk.App(), "lamp")
    key, bucket = kms.Key(stack, "Key"), s3.Bucket(stack, "Bucket")
    with runtime.using(clock=MovableClock(at)):
        Spark(stack, "Spark", config=Config.from_context(flags), key=key, bucket=bucket)
    told = [
        str(entry.data)
        for construct in stack.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:warning"
    ]
    assert len(told) == warnings
    assert all("support of emr-spark-8.0.0 ends on 2027-05-20" in text for text in told)


def test_release_that_is_deployed_by_default_is_known() -> None:
    """Whoever chooses nothing is told when the support ends."""
    assert Config(stage="dev").emr_release in SUPPORT_ENDS
