"""Wakes on `registers`: a push has arrived, a timetable must be asked, a push must be tidied up."""

from dataclasses import asdict
from typing import Any

from lamplighter.entry import Context, metrics_of, process_messages, publish
from lamplighter.errors import RefusedError
from lamplighter.logs import logger_of
from lamplighter.registry.custom_timetables import refill
from lamplighter.registry.pushes import Push, Refill, Retire, read_message
from lamplighter.registry.register import register, retire

logger = logger_of("register")
metrics = metrics_of("register")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Do what each message asks for; one that fails is delivered again."""
    return process_messages(event, context, _handle, queue="registers", metrics=metrics)


def _handle(body: str) -> None:
    for message in read_message(body):
        try:
            match message:
                case Push():
                    report = register(message)
                    logger.info("registered", extra={"report": asdict(report)})
                    publish(metrics, report)
                case Refill(dag_id):
                    refill(dag_id)
                case Retire(push):
                    retire(push)
        except RefusedError as refused:
            # Of an old push: there is nothing to repeat.
            logger.warning("message is out of date", extra={"error": str(refused)})
