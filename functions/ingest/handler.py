"""Wakes on `events` and `events.fifo`: records asset events and fires who waits for them."""

from typing import Any

from lamplighter.entry import Context, has_time, metrics_of, publish
from lamplighter.events.ingest import ingest
from lamplighter.logs import logger_of

logger = logger_of("ingest")
metrics = metrics_of("ingest")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and name the messages that are to be delivered again."""
    report = ingest(event.get("Records", []), has_time=has_time(context))
    publish(metrics, report)
    return {"batchItemFailures": [{"itemIdentifier": name} for name in sorted(report.failed)]}
