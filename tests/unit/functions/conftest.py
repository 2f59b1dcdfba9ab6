"""A deployment at noon whose jobs run on a fake EMR Serverless."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pendulum import datetime

from lamplighter import settings
from lamplighter.events.fan_out import forget_consumers
from lamplighter.runs.definitions import forget_definitions
from lamplighter_local.fake_emr import FakeEmr
from lamplighter_local.moto_memory import queues, tables
from lamplighter_local.stack import LocalStack, local_stack

NOON = datetime(2026, 1, 5, 12, 0, 5)
_NEW = FakeEmr().copy_state()


@pytest.fixture(scope="module")
def whole_execution() -> Iterator[tuple[LocalStack, FakeEmr]]:
    """Yield a deployment for a module, since to make one takes longer than most tests."""
    emr = FakeEmr()
    with local_stack(at=NOON, on=emr) as stack:
        made = replace(stack.settings, due_shards=1, run_shards=1)
        with settings.using(made):
            stack.settings = made
            yield stack, emr


@pytest.fixture
def executing(whole_execution: tuple[LocalStack, FakeEmr]) -> LocalStack:
    """Return the deployment as if it were new: nothing in tables and queues, no jobs, noon."""
    stack, emr = whole_execution
    for table in tables():
        table.items.clear()
    for queue in queues():
        queue._messages.clear()
        queue.deleted_messages.clear()
        queue.pending_messages.clear()
    emr.put_back(_NEW)
    forget_consumers()
    forget_definitions()
    stack.clock._at = NOON
    return stack


@pytest.fixture
def emr(executing: LocalStack, whole_execution: tuple[LocalStack, FakeEmr]) -> FakeEmr:
    """Return the fake EMR Serverless of the deployment, as if it were new."""
    assert executing is whole_execution[0]
    return whole_execution[1]
