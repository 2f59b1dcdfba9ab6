"""Resources that hold data keep their logical ids: CloudFormation would replace them otherwise."""

from pathlib import Path

import pytest

from tests.infra.synthesis import Synthesis
from tests.tools.releases import fixture
from tests.tools.releases.surface import stateful


@pytest.mark.parametrize("release", fixture.releases(), ids=lambda folder: folder.name)
def test_resources_with_data_are_those_of_the_release(dev: Synthesis, release: Path) -> None:
    """An upgrade updates tables, bucket, key and queues where they are."""
    before, now = fixture.read(release, "stateful"), stateful(dev.template)
    assert before.items() <= now.items(), fixture.POLICY
    assert "AWS::DynamoDB::Table" in before.values()
