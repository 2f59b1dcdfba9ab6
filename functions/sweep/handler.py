"""Wakes every five minutes: whatever a crash or a lost message left behind."""

from typing import Any

from lamplighter.entry import Context, has_time, logger_of, metrics_of, publish
from lamplighter.events.fan_out import sweep_open

logger = logger_of("sweep")
metrics = metrics_of("sweep")


def handler(event: dict[str, Any], context: Context) -> dict[str, int]:  # noqa: ARG001 - a timer's
    """Hand on events that were recorded and reached nobody."""
    report = sweep_open(has_time=has_time(context))
    publish(metrics, report)
    return {"claimed_runs": report.claimed_runs}
