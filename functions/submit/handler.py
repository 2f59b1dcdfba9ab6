"""Wakes on `submits`: moves runs on, and starts the jobs of steps that are ready."""

from typing import Any

from lamplighter.entry import Context, has_time, metrics_of, process_messages, publish
from lamplighter.logs import logger_of
from lamplighter.runs.advance import submit
from lamplighter.runs.decision import RunsReport

logger = logger_of("submit")
metrics = metrics_of("submit")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Move on the runs that each message names; a message that fails is delivered again."""
    report = RunsReport()
    answer = process_messages(
        event,
        context,
        lambda body: report.add(submit(body, has_time=has_time(context))),
        queue="submits",
        metrics=metrics,
    )
    publish(metrics, report)
    return answer
