"""What the shop's jobs want to know about their run."""

import datetime

from lamplighter_job import Context


def data_root(context: Context) -> str:
    """Return where the data lies: a folder, or a prefix in S3."""
    try:
        root: str = context.variables["data_root"]
    except KeyError:
        raise ValueError(
            "the deployment has no variable 'data_root': set it to a folder or to s3://bucket/prefix"
        ) from None
    return root.rstrip("/")


def interval_of(context: Context) -> tuple[datetime.datetime, datetime.datetime]:
    """Return start and end of the data interval, which a run without a date does not have."""
    if context.data_interval_start is None or context.data_interval_end is None:
        raise ValueError(
            f"{context.dag_id} works on a data interval, and run {context.run_id} has none: start"
            " it with a date"
        )
    return context.data_interval_start, context.data_interval_end


def days_named(context: Context) -> list[datetime.date]:
    """Return the days named by the events that triggered the run, and by its parameter `days`.

    Each day once, however often it is named: events may come twice, and two may name the same day.
    """
    texts = set(context.params.get("days") or ())
    for events in context.triggering_asset_events.values():
        for event in events:
            texts.update(event.extra.get("days", ()))
    return sorted(map(datetime.date.fromisoformat, texts))
