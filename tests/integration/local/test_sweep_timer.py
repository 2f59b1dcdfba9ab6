"""The timer that looks for what was left behind, when time passes in a local deployment."""

from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, aws
from lamplighter.events import ingest
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags
from tests.tools.faults import Crash


def test_open_asset_is_swept_at_the_next_five_minutes(stack: LocalStack) -> None:
    """An event that was recorded by a function that died, and is not delivered again, fires."""
    register_dags(DAG("dag", schedule=[Asset("a")]))
    stack.run_until_idle()
    stack.emit("a")
    with patch.object(ingest, "fan_out", side_effect=Crash("here")), pytest.raises(Crash):
        stack.run_until_idle()
    aws.client("sqs").purge_queue(QueueUrl=stack.settings.queue_url("events"))
    stack.advance(minutes=1)
    assert stack.runs("dag") == []
    stack.advance(minutes=10)
    (run,) = stack.runs("dag")
    assert run.created_at == datetime(2026, 1, 5, 12, 5)
