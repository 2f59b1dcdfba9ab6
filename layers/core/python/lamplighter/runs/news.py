"""Tells whoever subscribes on EventBridge that a run is over."""

import json
import logging
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from lamplighter import aws, settings
from lamplighter.store.models import Runs
from lamplighter.zones import iso

log = logging.getLogger(__name__)

SOURCE = "lamplighter"
RUN_FINISHED = "Run Finished"
_TEXTS = ("dag_id", "run_id", "run_type", "state", "reason", "cost")
_INSTANTS = ("logical_date", "data_interval_start", "data_interval_end", "started_at", "ended_at")


def tell_finished(run: Runs) -> None:
    """Put the event `Run Finished` on the deployment's bus, if it has one.

    At best effort, as AWS's own events are: the run is over whether or not anyone is told.
    """
    bus = settings.current().event_bus
    if not bus:
        return
    instants = {name: getattr(run, name) for name in _INSTANTS}
    detail: dict[str, Any] = {name: getattr(run, name) for name in _TEXTS}
    detail |= {name: None if at is None else iso(at) for name, at in instants.items()}
    entry = {
        "Source": SOURCE,
        "DetailType": RUN_FINISHED,
        "Detail": json.dumps(detail),
        "EventBusName": bus,
    }
    try:
        aws.client("events").put_events(Entries=[entry])
    except (BotoCoreError, ClientError):
        log.warning("nobody was told that run %s is %s", run.run_id, run.state, exc_info=True)
