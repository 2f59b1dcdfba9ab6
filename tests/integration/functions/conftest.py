"""A deployment at noon whose jobs run on a fake EMR Serverless."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pendulum import datetime

from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from tests.tools.snapshot import begin_anew

NOON = datetime(2026, 1, 5, 12, 0, 5)


@pytest.fixture(scope="module")
def whole_execution() -> Iterator[tuple[LocalStack, FakeEmr]]:
    """Yield a deployment for a module, since to make one takes longer than most tests."""
    emr = FakeEmr()
    with local_stack(at=NOON, on=emr) as stack:
        made = replace(stack.settings, due_shards=1, run_shards=1)
        stack.settings = made
        yield stack, emr


@pytest.fixture
def executing(whole_execution: tuple[LocalStack, FakeEmr]) -> LocalStack:
    """Return the deployment as if it were new: nothing in tables and queues, no jobs, noon."""
    begin_anew(whole_execution[0], at=NOON)
    return whole_execution[0]


@pytest.fixture
def emr(executing: LocalStack, whole_execution: tuple[LocalStack, FakeEmr]) -> FakeEmr:
    """Return the fake EMR Serverless of the deployment, as if it were new."""
    assert executing is whole_execution[0]
    return whole_execution[1]
