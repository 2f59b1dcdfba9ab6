"""What each function may do, in the project's own words. Whatever is not here, it may not.

Owns: the rights; those on queues follow from the topology. `policies` turns them into IAM's words;
scenarios hold the calls of handlers against the result, so that a right too few fails a test, and a
right too many another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lamplighter.topology import FUNCTIONS, QUEUES, queues_of


@dataclass(frozen=True, kw_only=True)
class Rights:
    """Names separated by blanks; none is no right at all."""

    # Operations by table, or by index as in "Dags/due". Transactions are made of these too.
    tables: Mapping[str, str] = field(default_factory=dict)
    # Queues to send to, to be woken by, and to say when a message of theirs shall come again.
    sends: str = ""
    receives: str = ""
    delays: str = ""
    # Patterns of keys in the bucket.
    gets: str = ""
    puts: str = ""
    # Patterns of keys to list: else S3 says of a missing object that it is forbidden.
    lists: str = ""
    # Operations on jobs of the application.
    jobs: str = ""
    invokes: str = ""
    # Whether it may put `Run Finished` on the bus.
    tells: bool = False
    # Whether it is woken by the queues of others, and may list the buckets of others, that the
    # flags of the stage name.
    is_for_watchers: bool = False

    def __or__(self, other: "Rights") -> "Rights":
        """Return what is allowed by one of the two."""
        names = {*self.tables, *other.tables}
        return Rights(
            tables={
                name: _both(self.tables.get(name, ""), other.tables.get(name, ""))
                for name in sorted(names)
            },
            sends=_both(self.sends, other.sends),
            receives=_both(self.receives, other.receives),
            delays=_both(self.delays, other.delays),
            gets=_both(self.gets, other.gets),
            puts=_both(self.puts, other.puts),
            lists=_both(self.lists, other.lists),
            jobs=_both(self.jobs, other.jobs),
            invokes=_both(self.invokes, other.invokes),
            tells=self.tells or other.tells,
            is_for_watchers=self.is_for_watchers or other.is_for_watchers,
        )


def _both(one: str, other: str) -> str:
    return " ".join(sorted({*one.split(), *other.split()}))


# Parts that functions share, as they share the code.

# Turns due times and pending events into runs.
_CLAIM = Rights(
    tables={
        "Dags": "BatchGetItem UpdateItem",
        "Runs": "PutItem UpdateItem",
        "Catalog": "BatchGetItem UpdateItem",
        "Assets": "BatchGetItem GetItem ConditionCheckItem",
        "AssetQueue": "BatchGetItem UpdateItem",
    },
)

# Raises the consumers of assets, and fires those whose condition holds.
_FAN_OUT = _CLAIM | Rights(tables={"Assets": "Query UpdateItem"})

# Lets a backfill have the runs that it has slots for.
_BACKFILL = Rights(
    tables={
        "Backfills": "GetItem UpdateItem",
        "Dags": "GetItem",
        "Runs": "BatchGetItem PutItem UpdateItem",
    },
)

# Moves a run on: what all who do so read and write.
_ADVANCE = Rights(
    tables={
        # Whose slot a run gives back when it is over.
        "Backfills": "GetItem UpdateItem",
        "Dags": "GetItem UpdateItem",
        "DagVersions": "GetItem",
        "Runs": "GetItem Query UpdateItem",
        "Steps": "GetItem Query PutItem UpdateItem",
    },
    tells=True,
)

# Learns what became of jobs.
_SETTLE = _ADVANCE | Rights(
    tables={"AssetEvents": "PutItem"},
    gets="jobs/*/report.json",
    lists="jobs/*",
    jobs="GetJobRun ListJobRuns CancelJobRun",
)

_RIGHTS: Mapping[str, Rights] = {
    # Runs author code: no table, no queue, no job.
    "sandbox": Rights(gets="bundles/*", puts="results/*"),
    "register": Rights(
        tables={
            "Dags": "BatchGetItem GetItem PutItem UpdateItem",
            "Dags/by_file": "Query",
            "DagVersions": "Query PutItem",
            "Assets": "BatchGetItem GetItem PutItem UpdateItem DeleteItem ConditionCheckItem",
            "AssetQueue": "BatchGetItem Query PutItem UpdateItem DeleteItem",
            "Catalog": "BatchGetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem",
        },
        gets="pushes/* results/*",
        invokes="sandbox",
    ),
    "tick": _CLAIM | Rights(tables={"Dags/due": "Query", "Catalog": "GetItem"}),
    "claim": _CLAIM | _BACKFILL,
    "ingest": _FAN_OUT
    | Rights(
        # It deletes where an outlet's event was expected and does not belong.
        tables={"Assets": "PutItem", "AssetEvents": "PutItem BatchWriteItem DeleteItem"},
    ),
    # Runs author code too: it sends events, and keeps leases, what was seen, and counts.
    "watch": Rights(
        tables={"Catalog": "Query UpdateItem"},
        gets="bundles/*",
        is_for_watchers=True,
    ),
    "submit": _ADVANCE
    | Rights(
        tables={
            "Dags": "BatchGetItem",
            "Runs": "BatchGetItem",
            "Backfills": "BatchGetItem",
            # The events that a run consumed, for the job to see.
            "Assets": "BatchGetItem",
            "AssetEvents/by_seq": "Query",
        },
        puts="jobs/*/context.json",
        jobs="StartJobRun ListJobRuns",
    ),
    "settle": _SETTLE,
    "sweep": _SETTLE
    | _FAN_OUT
    | _BACKFILL
    | Rights(
        tables={
            "Backfills/due": "Query",
            "Assets/open": "Query",
            "AssetEvents": "BatchGetItem UpdateItem",
            "AssetEvents/pending": "Query",
            "Runs/wake": "Query",
            "Catalog": "Query",
        },
        # Pushes that were announced and not registered.
        lists="pushes/*",
    ),
}


def _on_queues(function: str) -> Rights:
    """Return what a function may do with queues: those that it consumes, and those it sends to."""
    consumed = queues_of(function)
    dlqs = [queue.dlq for queue in consumed if queue.rejects_to_dlq]
    sends = [queue.name for queue in QUEUES.values() if function in queue.producers]
    return Rights(
        sends=" ".join([*sends, *dlqs]),
        receives=" ".join(queue.name for queue in consumed),
        delays=" ".join(queue.name for queue in consumed if queue.delays_retries),
    )


RIGHTS: Mapping[str, Rights] = {name: _RIGHTS[name] | _on_queues(name) for name in FUNCTIONS}
