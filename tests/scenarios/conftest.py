"""A deployment on one shard, whose tables must be sound when the test is over."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from pendulum import DateTime

from lamplighter import settings
from lamplighter_local.stack import LocalStack, local_stack

Deploy = Callable[..., LocalStack]


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Return a function that makes a deployment whose clock stands at an instant."""
    with ExitStack() as until_the_end:

        def make(at: DateTime, *, due_shards: int = 1) -> LocalStack:
            # One shard instead of sixteen: a tick reads each of them, and the emulator is slow.
            stack = until_the_end.enter_context(local_stack(at=at))
            made = replace(stack.settings, due_shards=due_shards)
            stack.settings = until_the_end.enter_context(settings.using(made))
            return stack

        yield make
