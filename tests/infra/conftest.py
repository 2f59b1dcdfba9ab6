"""Stacks that are synthesized once, in one process: the CDK takes longer than the tests."""

import pytest

from tests.infra.rights_file import WATCHED
from tests.infra.synthesis import EVERYTHING, Synthesis, synthesize


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have all tests that synthesize."""
    for item in items:
        if isinstance(item, pytest.Function) and {"dev", "prod"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.xdist_group("cdk"))


@pytest.fixture(scope="session")
def dev() -> Synthesis:
    """Return a small stack: a stage for development, with something to watch."""
    return synthesize({"stage": "dev", "watch_buckets": [WATCHED], "watch_queues": [WATCHED]})


@pytest.fixture(scope="session")
def prod() -> Synthesis:
    """Return the largest stack: production, with every flag that brings something."""
    return synthesize(EVERYTHING)
