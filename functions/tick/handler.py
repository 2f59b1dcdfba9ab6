"""Wakes every minute: claims what is due and sends ahead what comes due soon."""

from typing import Any

from lamplighter.entry import Context, has_time, metrics_of, publish
from lamplighter.logs import logger_of
from lamplighter.scheduler.tick import tick
from lamplighter.zones import parse_instant

logger = logger_of("tick")
metrics = metrics_of("tick")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, int]:
    """Do the work of the minute that the timer's event names, whenever it arrives."""
    scheduled_at = parse_instant(event["time"]) if "time" in event else None
    report = tick(scheduled_at=scheduled_at, has_time=has_time(context))
    publish(metrics, report)
    return {"claimed_runs": report.claimed_runs, "sent_ahead": report.sent_ahead}
