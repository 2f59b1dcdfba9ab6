"""Greets whoever waits for a count, without Spark: nothing that Lambda lacks is imported here."""

import logging

from lamplighter_job import Context

log = logging.getLogger("hello")


def greet(context: Context) -> None:
    """Show what was counted in the log of the job."""
    for event in context.triggering_asset_events["numbers"]:
        log.info("%s numbers were counted", event.extra.get("counted", "no"))
