"""Watchers whose time passes only when all of them wait."""

from collections.abc import Iterator

import pytest

from tests.loop_time import jumping_time


@pytest.fixture(autouse=True, scope="module")
def _jumping_loops() -> Iterator[None]:
    with jumping_time():
        yield
