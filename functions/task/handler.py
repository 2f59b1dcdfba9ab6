"""Invoked by `submit`, and again whenever that is repeated: runs the job of one Python task.

An author's code runs below it, in a process of the job that has none of its rights.
"""

from typing import Any

from lamplighter import aws
from lamplighter.bundles import processes
from lamplighter.entry import Context
from lamplighter.executors.python_job import Host, run_job
from lamplighter.logs import logger_of

logger = logger_of("task")

if processes.is_in_lambda():
    processes.shield()
    aws.withdraw_credentials()
    # Of a process that Lambda, or this function, has ended.
    processes.empty_disk()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, bool]:
    """Run the job that the event names, unless that is done elsewhere or not wanted."""
    seconds = context.get_remaining_time_in_millis() / 1000
    try:
        has_run = run_job(event["job"], Host(seconds, int(context.memory_limit_in_mb)))
    finally:
        processes.leave_nothing()
    return {"has_run": has_run}
