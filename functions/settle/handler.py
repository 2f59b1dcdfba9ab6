"""Wakes on `jobstates`: lets runs know what became of their jobs."""

from typing import Any

from lamplighter.entry import Context, metrics_of, process_messages, publish
from lamplighter.logs import logger_of
from lamplighter.runs.advance import settle
from lamplighter.runs.decision import RunsReport

logger = logger_of("settle")
metrics = metrics_of("settle")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Settle what each message speaks of; a message that fails is delivered again."""
    report = RunsReport()
    answer = process_messages(
        event,
        context,
        lambda body: report.add(settle(body)),
        queue="jobstates",
        metrics=metrics,
    )
    publish(metrics, report)
    return answer
