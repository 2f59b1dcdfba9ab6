"""A deployment in name only: what decides without AWS needs no more."""

from collections.abc import Iterator

import pytest

from lamplighter import runtime
from lamplighter.settings import Settings


@pytest.fixture
def in_name_only() -> Iterator[Settings]:
    """Let a deployment be in force that has names and nothing behind them."""
    named = Settings(
        bucket="lake",
        emr_application_id="00local",
        emr_job_role_arn="arn:aws:iam::123456789012:role/jobs",
        job_starts_per_second=0,
    )
    with runtime.using(settings=named):
        yield named
