"""Shared by all handlers: remaining time, partial batch responses, reports as metrics."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lamplighter import queues, settings
from lamplighter.errors import RejectedError, in_short
from lamplighter.events.dead_letters import FailedMessage, send_expired_to_dlq, send_to_dlq
from lamplighter.queues import Delivery
from lamplighter.topology import QUEUES

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)

NAMESPACE = "Lamplighter"
# Reserved for finishing and answering what is in flight when time runs out.
_RESERVE_MILLISECONDS = 5_000


class Context(Protocol):
    """The part of Lambda's context that handlers and log lines use."""

    function_name: str
    memory_limit_in_mb: int
    invoked_function_arn: str
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds left in this invocation."""
        ...


def has_time(context: Context) -> Callable[[], bool]:
    """Return a function that tells whether there is time to start more work."""
    return lambda: context.get_remaining_time_in_millis() > _RESERVE_MILLISECONDS


def seconds_left(context: Context) -> float:
    """Return the seconds that new work may take."""
    return max(0, context.get_remaining_time_in_millis() - _RESERVE_MILLISECONDS) / 1000


def metrics_of(service: str) -> Metrics:
    """Return the metrics of a function."""
    return Metrics(namespace=NAMESPACE, service=service)


def publish(metrics: Metrics, report: "DataclassInstance") -> None:
    """Write the numbers of a report as metrics: `claimed_runs` becomes `ClaimedRuns`.

    Metrics carry the deployment's name, because several may share an account. Zeros are left out:
    a metric is billed for every hour in which it has a value.
    """
    found = [each for field in fields(report) for each in _numbers(field.name, report)]
    if not found:
        return
    metrics.add_dimension(name="stack", value=settings.current().table_prefix.removesuffix("-"))
    for name, unit, value in found:
        metrics.add_metric(name, unit, value)
    if metrics.metric_set:
        metrics.flush_metrics()
    else:  # a hundred values of one metric were written by themselves
        metrics.clear_metrics()


def _numbers(
    field: str, report: "DataclassInstance"
) -> Iterator[tuple[str, MetricUnit, int | float]]:
    value = getattr(report, field)
    name = field.title().replace("_", "")
    if name.endswith("Seconds"):  # zero is a valid measurement; a list gives the distribution
        for seconds in value if isinstance(value, list) else [value]:
            yield name, MetricUnit.Seconds, seconds
        return
    counts: dict[str, int | float] = {}
    if isinstance(value, Counter):  # of a few known reasons
        counts = {f"{name}: {reason}": count for reason, count in value.items()}
    elif isinstance(value, Mapping):  # by DAG; one metric per DAG would be too many
        counts = {name: sum(value.values())}
    elif isinstance(value, int | float):
        counts = {name: value}
    elif isinstance(value, Iterable) and not isinstance(value, str):
        counts = {name: len(list(value))}
    for each, count in counts.items():
        if count:
            yield each, MetricUnit.Count, count


@dataclass
class BatchReport:
    """Counts of the messages that were not handled."""

    failed: int = 0  # Messages that are delivered again.
    rejected: int = 0  # Messages that no retry would help.
    dead_lettered: int = 0  # Messages that were given up because of their age.


def process_messages(
    event: dict[str, Any],
    context: Any,
    handle: Callable[[str], None],
    *,
    queue: str,
    metrics: Metrics,
) -> dict[str, Any]:
    """Handle the body of each message from `queue`; report those that raise for redelivery.

    A message that is rejected, or has failed for too long, goes to the dead-letter queue instead.
    """
    if not event.get("Records"):
        return {"batchItemFailures": []}
    failed: list[FailedMessage] = []
    rejected: list[FailedMessage] = []

    def on_record(record: SQSRecord) -> None:
        delivery = Delivery.of(record.raw_event)
        about = {"queue": queue, "message_id": delivery.message_id}
        try:
            handle(delivery.body)
        except RejectedError as error:
            log.exception("message is rejected", extra=about)
            rejected.append(FailedMessage(delivery, str(error)))
            raise
        except Exception as error:
            log.exception("message failed and is delivered again", extra=about)
            failed.append(FailedMessage(delivery, in_short(error)))
            raise

    process_partial_response(
        event=event,
        record_handler=on_record,
        processor=BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False),
        context=context,
    )
    not_kept = send_to_dlq(rejected, QUEUES[queue].dlq)
    report = BatchReport(rejected=len(rejected) - len(not_kept))
    return {"batchItemFailures": _redeliver([*failed, *not_kept], queue, report, metrics)}


def _redeliver(
    failed: Sequence[FailedMessage], queue: str, report: BatchReport, metrics: Metrics
) -> list[dict[str, str]]:
    """Return the batch item failures: delayed longer each time, or moved to the DLQ if expired."""
    given_up = send_expired_to_dlq(failed, QUEUES[queue].dlq)
    again = [one.delivery for one in failed if one.delivery.message_id not in given_up]
    if again:
        queues.delay_redelivery(queue, [(one.receipt, one.receives) for one in again])
    report.failed, report.dead_lettered = len(again), len(given_up)
    publish(metrics, report)
    return [{"itemIdentifier": one.message_id} for one in again]
