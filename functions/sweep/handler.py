"""Wakes every five minutes: whatever a crash or a lost message left behind."""

from dataclasses import asdict
from typing import Any

from lamplighter.entry import Context, has_time, metrics_of, publish
from lamplighter.logs import logger_of
from lamplighter.sweep import sweep

logger = logger_of("sweep")
metrics = metrics_of("sweep")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, float]:  # noqa: ARG001 - a timer's
    """Look after everything whose time has come without news."""
    report = sweep(has_time=has_time(context))
    publish(metrics, report)
    return asdict(report)
