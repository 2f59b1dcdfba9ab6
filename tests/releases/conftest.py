"""Every stored release, one by one."""

from pathlib import Path

import pytest

from tests.tools.releases import fixture


@pytest.fixture(params=fixture.releases(), ids=lambda folder: folder.name)
def release(request: pytest.FixtureRequest) -> Path:
    """Return the folder of a release."""
    folder: Path = request.param
    return folder
