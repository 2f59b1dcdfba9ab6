"""A deployment on one shard, whose tables must be sound when the test is over.

What its functions ask of AWS is held against the permissions that they have there.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from pendulum import DateTime

from lamplighter_local.stack import NAME, LocalStack, local_stack
from tests.infra.permissions_file import USED_FILE, CheckedPermissions, Need
from tests.tools.function_calls import noted_calls

Deploy = Callable[..., LocalStack]
Forbidden = set[tuple[str, Need]]


# What all stories of this process have asked for.
_checked = CheckedPermissions(f"{NAME}-")


# Of a module, because a folder ends only with the process: other tests would be heard too.
@pytest.fixture(scope="module", autouse=True)
def forbidden() -> Iterator[Forbidden]:
    """Yield what functions have asked for without permission; it is emptied by each test."""
    with noted_calls(_checked.note):
        yield _checked.forbidden
    if USED_FILE in os.environ:
        Path(os.environ[USED_FILE]).write_text(json.dumps(sorted(_checked.used)))


@pytest.fixture(autouse=True)
def _is_allowed(forbidden: Forbidden, request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which a function needs more permissions than it has on AWS."""
    forbidden.clear()
    yield
    if request.node.get_closest_marker("interferes") is None:
        assert forbidden == set()


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Return a function that makes a deployment whose clock stands at an instant."""
    with ExitStack() as until_the_end:

        def make(at: DateTime, *, due_shards: int = 1) -> LocalStack:
            # One shard instead of sixteen: a tick reads each of them, and the emulator is slow.
            stack = until_the_end.enter_context(local_stack(at=at))
            made = replace(stack.settings, due_shards=due_shards)
            stack.settings = made
            return stack

        yield make
