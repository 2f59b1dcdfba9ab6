"""Wakes on `claims`: claims the DAGs that the messages name, together; then moves on backfills.

A message is acknowledged when all its DAGs were dealt with. Otherwise it comes again, later each
time: a DAG that cannot be claimed now is neither forgotten nor tried without a pause.
"""

from collections.abc import Iterator
from typing import Any

from lamplighter import queues
from lamplighter.backfill.advance import advance_backfills
from lamplighter.entry import Context, has_time, metrics_of, process_messages, publish
from lamplighter.errors import RejectedError, TransientError
from lamplighter.logs import logger_of
from lamplighter.scheduler.claim import ClaimReport, claim_all

logger = logger_of("claim")
metrics = metrics_of("claim")


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Context) -> dict[str, Any]:
    """Claim what all messages of the batch name, and name those that are to be delivered again."""
    claims = list(_readable(event))
    dag_ids = [dag_id for each in claims for dag_id in each.dag_ids]
    try:
        report = claim_all(dag_ids, has_time=has_time(context), sends_rest=False)
    except Exception:  # an error of Lambda's would bring the messages back without a pause
        logger.exception("batch could not be claimed", extra={"dag_ids": dag_ids})
        report = ClaimReport(failed=1, unclaimed=set(dag_ids))
    publish(metrics, report)
    # Last: no DAG ever waits for a backfill.
    backfill_ids = [backfill_id for each in claims for backfill_id in each.backfill_ids]
    if backfill_ids:
        publish(metrics, advance_backfills(backfill_ids, has_time=has_time(context)))

    def require_claimed(body: str) -> None:
        if left := report.unclaimed.intersection(queues.read_claims(body).dag_ids):
            raise TransientError(
                f"{len(left)} DAGs were not claimed and are retried, such as {min(left)!r}"
            )

    return process_messages(event, context, require_claimed, queue="claims", metrics=metrics)


def _readable(event: dict[str, Any]) -> Iterator[queues.Claims]:
    """Yield what the messages name that can be read; the others are rejected, each alone."""
    for record in event.get("Records", ()):
        try:
            yield queues.read_claims(record["body"])
        except RejectedError:
            about = {"queue": "claims", "message_id": record.get("messageId")}
            logger.warning("message cannot be read", extra=about)
