"""Greets whoever waits for a count, without Spark: nothing that Lambda lacks is imported here."""

import logging

from lamplighter_job import Context

log = logging.getLogger("hello")


def greet(context: Context) -> None:
    """Show what was counted in the log of the job."""
    # Triggered by hand, or by an event that someone else sends, it has nobody's count.
    events = context.triggering_asset_events.get("numbers", [])
    counted = sum(event.extra.get("counted", 0) for event in events)
    log.info("%s numbers were counted", f"{counted:,}")
