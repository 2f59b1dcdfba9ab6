"""Invoked by the queues of sources, and by a timer: runs watchers, which make asset events.

An author's code runs below it, in a process of its bundle that has none of its rights.
"""

from typing import Any

from lamplighter import aws
from lamplighter.bundles import processes
from lamplighter.entry import Context, metrics_of, publish, seconds_left
from lamplighter.logs import logger_of
from lamplighter.streams.polling import poll_sources
from lamplighter.streams.watch import watch_batch

logger = logger_of("watch")
metrics = metrics_of("watch")

if processes.is_in_lambda():
    processes.shield()
    aws.withdraw_credentials()
    # Of a process that Lambda, or this function, has ended.
    processes.empty_disk()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Take a batch and return the messages to deliver again, or poll the sources."""
    if "Records" in event:
        report = watch_batch(event["Records"], seconds=seconds_left(context))
    else:
        report = poll_sources(seconds=seconds_left(context))
    publish(metrics, report)
    return {"batchItemFailures": [{"itemIdentifier": name} for name in sorted(report.failed)]}
