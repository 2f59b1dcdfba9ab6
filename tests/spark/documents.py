"""Contexts as the scheduler writes them for jobs."""

from typing import Any

SECRET = "of-this-submission"  # noqa: S105 - of a test


def context_document(**changes: Any) -> dict[str, Any]:
    """Return the context of a step with one outlet, `orders`, changed as told."""
    document = {
        "version": 1,
        "dag_id": "orders_hourly",
        "run_id": "scheduled__2026-01-05T00:00:00Z",
        "run_type": "scheduled",
        "task_id": "clean",
        "try_number": 1,
        "submission": 1,
        "logical_date": "2026-01-05T00:00:00Z",
        "data_interval_start": "2026-01-05T00:00:00Z",
        "data_interval_end": None,
        "run_after": "2026-01-05T01:00:00Z",
        "partition_key": None,
        "params": {},
        "conf": {},
        "variables": {},
        "triggering_asset_events": {},
        "inlets": [],
        "outlets": [{"kind": "asset", "name": "orders", "uri": "s3://lake/orders"}],
        "job": None,
        "entry_point": None,
        "arguments": [],
        "report_secret": SECRET,
    }
    return document | changes
