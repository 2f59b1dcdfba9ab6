"""The functions of a deployment: how large they are, how long they may take, what they may do.

Owns: limits and permissions. What invokes a function, and the queues that it uses, are described in
`lamplighter.topology`; permissions on queues follow from that. Scenarios hold the calls of handlers
against the result: a permission too few fails a test, and one too many another.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lamplighter.topology import FUNCTIONS, QUEUES, queues_of
from lamplighter_infra.config import Config
from lamplighter_infra.permissions import Permissions


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What Lambda gives to one function."""

    memory_mb: int = 1024
    timeout_seconds: int = 60
    batch_size: int = 10


_LIMITS: Mapping[str, Limits] = {
    "sandbox": Limits(
        # What it has is shared out among files that are parsed at once.
        memory_mb=2048,
        # Twenty questions of 30 seconds, one after the other, and fifty files.
        timeout_seconds=900,
    ),
    # It waits for the sandbox.
    "register": Limits(timeout_seconds=900, batch_size=1),
    # External queues must hide their messages for at least as long, or Lambda refuses them.
    "watch": Limits(timeout_seconds=180),
    # Less than `job_start_timeout_seconds`: the longest that a start may be under way.
    "submit": Limits(timeout_seconds=60),
    "sweep": Limits(timeout_seconds=240),
}

LIMITS: Mapping[str, Limits] = {name: _LIMITS.get(name, Limits()) for name in FUNCTIONS}


def limits_of(name: str, config: Config) -> Limits:
    """Return the limits of a function; a deployer chooses those of `task`."""
    if name != "task":
        return LIMITS[name]
    return Limits(
        memory_mb=config.task_memory_mb, timeout_seconds=config.settings.task_timeout_seconds
    )


# Permissions. First those that functions share, as they share the code.

# Turns due times and pending events into runs.
_CLAIM = Permissions(
    tables={
        "Dags": "BatchGetItem UpdateItem",
        "Runs": "PutItem UpdateItem",
        "Catalog": "BatchGetItem UpdateItem",
        "Assets": "BatchGetItem GetItem ConditionCheckItem",
        "AssetQueue": "BatchGetItem UpdateItem",
    },
)

# Raises the consumers of assets, and fires those whose condition holds.
_FAN_OUT = _CLAIM | Permissions(tables={"Assets": "Query UpdateItem"})

# Lets a backfill have the runs that it has slots for.
_BACKFILL = Permissions(
    tables={
        "Backfills": "GetItem UpdateItem",
        "Dags": "GetItem",
        "Runs": "BatchGetItem PutItem UpdateItem",
    },
)

# Moves a run on: what all who do so read and write.
_ADVANCE = Permissions(
    tables={
        # Whose slot a run gives back when it is over.
        "Backfills": "GetItem UpdateItem",
        "Dags": "GetItem UpdateItem",
        "DagVersions": "GetItem",
        "Runs": "GetItem Query UpdateItem",
        "Steps": "GetItem Query PutItem UpdateItem",
        # What steps give back of pools and capacity, and whether others wait for it.
        "Limits": "BatchGetItem UpdateItem",
    },
    publishes=True,
)

# Learns what became of jobs.
_SETTLE = _ADVANCE | Permissions(
    tables={"AssetEvents": "PutItem", "Jobs": "GetItem UpdateItem"},
    # The log of a job that failed without a report; without listing, S3 says of a missing one
    # that it is forbidden.
    gets="jobs/*/report.json logs/*/SPARK_DRIVER/stderr.gz",
    lists="jobs/* logs/*",
    jobs="GetJobRun ListJobRuns CancelJobRun",
    executions="DescribeExecution StopExecution",
)

_PERMISSIONS: Mapping[str, Permissions] = {
    # Runs author code: no table, no queue, no job.
    "sandbox": Permissions(gets="bundles/*", puts="results/*"),
    "register": Permissions(
        tables={
            "Dags": "BatchGetItem GetItem PutItem UpdateItem",
            "Dags/by_file": "Query",
            "DagVersions": "BatchGetItem Query PutItem",
            "Assets": "BatchGetItem GetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem",
            "AssetQueue": "BatchGetItem Query PutItem UpdateItem DeleteItem",
            "Catalog": "BatchGetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem",
        },
        gets="pushes/* results/*",
        invokes="sandbox",
    ),
    "tick": _CLAIM | Permissions(tables={"Dags/due": "Query", "Catalog": "GetItem"}),
    "claim": _CLAIM | _BACKFILL,
    "ingest": _FAN_OUT
    | Permissions(
        # It reads what proves that an event is of an outlet, and deletes where it was expected and
        # does not belong. What is rejected, or came again with other content, is noted.
        tables={
            "Assets": "PutItem",
            "AssetEvents": "BatchGetItem PutItem UpdateItem BatchWriteItem DeleteItem",
        },
    ),
    # Runs author code too, in processes without these rights: it sends events, and keeps leases,
    # what was seen, and counts in a table of its own.
    "watch": Permissions(
        tables={"Catalog": "Query", "WatcherStates": "Query UpdateItem"},
        gets="bundles/*",
        reads_watched_sources=True,
    ),
    "submit": _ADVANCE
    | Permissions(
        tables={
            "Dags": "BatchGetItem",
            "Runs": "BatchGetItem",
            "Backfills": "BatchGetItem",
            # The events that a run consumed, for the job to see.
            "Assets": "BatchGetItem",
            "AssetEvents/by_seq": "Query",
            "Limits": "GetItem",
            "Steps/turns": "Query",
            "Steps/waiting": "Query",
            "Variables": "Scan",
            "Jobs": "UpdateItem",
        },
        # What steps have left that are read by others; listing as above.
        gets="jobs/*/report.json",
        lists="jobs/*",
        puts="jobs/*/context.json",
        invokes="task",
        jobs="StartJobRun ListJobRuns",
        executions="StartExecution DescribeExecution",
    ),
    # Runs author code, in processes without these rights; Lambda sends the end of an invocation.
    "task": Permissions(
        tables={"Jobs": "GetItem UpdateItem"},
        gets="bundles/* jobs/*/context.json",
        puts="jobs/*/report.json",
        assumes_task_role=True,
    ),
    "settle": _SETTLE,
    "sweep": _SETTLE
    | _FAN_OUT
    | _BACKFILL
    | Permissions(
        tables={
            "Backfills/due": "Query",
            "Assets/open": "Query",
            "AssetEvents": "BatchGetItem UpdateItem",
            "AssetEvents/pending": "Query",
            "Runs/wake": "Query",
            "Limits": "Scan",
            "Catalog": "Query",
        },
        # Pushes that were announced and not registered.
        lists="pushes/*",
    ),
}


def _on_queues(function: str) -> Permissions:
    """Return what a function may do with queues: those that it consumes, and those it sends to."""
    consumed = queues_of(function)
    dlqs = [queue.dlq for queue in consumed if queue.rejects_to_dlq]
    sends = [queue.name for queue in QUEUES.values() if function in queue.producers]
    return Permissions(
        sends=" ".join([*sends, *dlqs]),
        receives=" ".join(queue.name for queue in consumed),
        delays=" ".join(queue.name for queue in consumed if queue.delays_retries),
    )


PERMISSIONS: Mapping[str, Permissions] = {
    name: _PERMISSIONS[name] | _on_queues(name) for name in FUNCTIONS
}
