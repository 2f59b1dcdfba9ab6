"""Wakes on `claims`: claims the DAGs that the messages name, together; then moves on backfills."""

from typing import Any

from lamplighter import queues
from lamplighter.backfill.advance import advance_backfills
from lamplighter.entry import Context, answer_each, has_time, logger_of, metrics_of, publish
from lamplighter.scheduler.claim import claim_all

logger = logger_of("claim")
metrics = metrics_of("claim")


def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Claim what all messages of the batch name; an unreadable one is delivered again, alone."""
    dag_ids: list[str] = []
    backfill_ids: list[str] = []

    def read(body: str) -> None:
        dag_ids.extend(queues.read_claims(body))
        backfill_ids.extend(queues.read_backfills(body))

    answer = answer_each(event, context, read, queue="claims_queue_url", metrics=metrics)
    publish(metrics, claim_all(dag_ids, has_time=has_time(context)))
    # Last: no DAG ever waits for a backfill.
    if backfill_ids:
        publish(metrics, advance_backfills(backfill_ids, has_time=has_time(context)))
    return answer
