"""The handler of `sweep`, called as its timer calls it."""

import json
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset
from lamplighter.scheduler.report import ClaimReport
from lamplighter_local import handlers
from lamplighter_local.definitions import register_dags
from lamplighter_local.handlers import LambdaContext
from lamplighter_local.stack import LocalStack
from tests.unit.events.batches import asset_row, body, ingest, lines

TIMER = {"source": "aws.events", "detail-type": "Scheduled Event", "time": "2026-01-05T12:05:00Z"}


def leave_open(stack: LocalStack) -> None:
    """Record an event, and let whoever did it end before anyone was told."""
    register_dags(DAG("dag", schedule=[Asset("orders", "s3://lake/orders")]))
    with patch("lamplighter.events.ingest.fan_out", return_value=ClaimReport()):
        assert ingest(lines(body("orders", "a"))) == []
    assert asset_row("orders").open_shard is not None


def test_sweep_fires_what_a_crash_left_behind(stack: LocalStack) -> None:
    """An event that reached nobody creates its run after the waiting time, and only one."""
    leave_open(stack)
    assert handlers.call("sweep", TIMER) == {"claimed_runs": 0}
    stack.clock.move(to=stack.clock.now().add(seconds=stack.settings.wake_after_seconds))
    assert handlers.call("sweep", TIMER) == {"claimed_runs": 1}
    assert handlers.call("sweep", TIMER) == {"claimed_runs": 0}
    (run,) = stack.runs("dag")
    assert (run.run_type, run.events) == ("asset_triggered", {"orders": [0, 1]})
    assert asset_row("orders").open_shard is None


def test_sweep_of_nothing_is_answered(stack: LocalStack) -> None:
    """On most days there is nothing to do."""
    assert handlers.call("sweep", TIMER) == {"claimed_runs": 0}


def test_sweep_without_time_leaves_nothing_lost(stack: LocalStack) -> None:
    """A sweep that has to stop leaves the rest as it is, for the next one."""
    leave_open(stack)
    stack.clock.move(to=stack.clock.now().add(minutes=5))
    for _ in range(stack.settings.run_shards):
        handlers.call("sweep", TIMER, LambdaContext(milliseconds=1_000))
    handlers.call("sweep", TIMER)
    assert len(stack.runs("dag")) == 1


def test_sweep_reports_its_numbers(stack: LocalStack, capsys: pytest.CaptureFixture[str]) -> None:
    """What was claimed is written as metrics of the function."""
    leave_open(stack)
    stack.clock.move(to=stack.clock.now().add(minutes=5))
    handlers.handler_of("sweep")(TIMER, LambdaContext())
    metrics = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (metrics["service"], metrics["ClaimedRuns"]) == ("sweep", [1.0])
