"""Stacks that are synthesized once, in one process: the CDK takes longer than the tests."""

from pathlib import Path

import pytest

from tests.infra.permissions_file import NAMED, WATCHED
from tests.infra.synthesis import EVERYTHING, Synthesis, synthesize

_HERE = Path(__file__).parent
_SYNTHESIZING = {
    _HERE / name
    for name in (
        "test_construct.py",
        "test_dashboard.py",
        "test_permissions.py",
        "test_settings.py",
        "test_spark.py",
        "test_stored_resources.py",
        "test_template.py",
        "test_watch.py",
    )
}


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have all tests that synthesize."""
    for item in items:
        if item.path in _SYNTHESIZING:
            item.add_marker(pytest.mark.xdist_group("cdk"))


@pytest.fixture(scope="session")
def dev() -> Synthesis:
    """Return a small stack: a stage for development, with something to watch and to start."""
    sources = {"watch_buckets": [WATCHED], "watch_queues": [WATCHED]}
    return synthesize({"stage": "dev", "state_machines": [NAMED], **sources})


@pytest.fixture(scope="session")
def prod() -> Synthesis:
    """Return the largest stack: production, with every flag that brings something."""
    return synthesize(EVERYTHING)
