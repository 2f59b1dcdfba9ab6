"""Wakes on the queues of sources, and on a timer: lets watchers make asset events of it.

The second and last place where an author's code runs.
"""

from typing import Any

from lamplighter.entry import Context, metrics_of, publish, seconds_left
from lamplighter.logs import logger_of
from lamplighter.streams.asking import ask_sources
from lamplighter.streams.watch import watch_batch

logger = logger_of("watch")
metrics = metrics_of("watch")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch, and name the messages that are to be delivered again; or ask the sources."""
    if "Records" in event:
        report = watch_batch(event["Records"], seconds=seconds_left(context))
    else:
        report = ask_sources(seconds=seconds_left(context))
    publish(metrics, report)
    return {"batchItemFailures": [{"itemIdentifier": name} for name in sorted(report.failed)]}
