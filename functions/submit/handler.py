"""Wakes on `submits`: moves runs on, and starts the jobs of steps that are ready."""

import json
from typing import Any

from lamplighter import queues
from lamplighter.entry import Context, metrics_of, process_messages, publish
from lamplighter.logs import logger_of
from lamplighter.runs.advance import SUBMIT, advance_all
from lamplighter.runs.decision import RunsReport

logger = logger_of("submit")
metrics = metrics_of("submit")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Move on the runs that each message names; a message that fails is delivered again."""
    report = RunsReport()

    def submit(body: str) -> None:
        with queues.reject_unreadable():
            runs = queues.read_runs(json.loads(body))
        report.add(advance_all(runs, permissions=SUBMIT))

    answer = process_messages(event, context, submit, queue="submits", metrics=metrics)
    publish(metrics, report)
    return answer
