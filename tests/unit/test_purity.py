"""Unit tests that would call AWS or start a process are refused, whatever else is tested."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable

import boto3
import pytest


def call_aws() -> object:
    """Ask AWS who we are; without a key, looking for one would be the first call."""
    key = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return boto3.client("sts", region_name="us-east-1", **key).get_caller_identity()


ACTS = {
    "a call of AWS": call_aws,
    "a program": lambda: subprocess.run([sys.executable, "-c", ""], check=False),
    "a process": multiprocessing.Process().start,
    "a fork": os.fork,
}


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_slow_act_in_a_unit_test_is_refused(act: Callable[[], object]) -> None:
    """The error says where such a test belongs."""
    with pytest.raises(AssertionError, match="belongs in tests/integration"):
        act()
