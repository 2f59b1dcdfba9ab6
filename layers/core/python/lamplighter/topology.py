"""The functions and queues of a deployment, and how they are connected.

Owns: the one description that settings, the CDK app, the local deployment and `doctor` read; what
is added here, they all know. Refuses: calling AWS.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# As many as SQS allows. Our own code gives messages up, by their age; SQS moves only those of a
# function that never gets to decide about them.
MAX_RECEIVES = 1_000
# As long as SQS allows, on queues and on dead-letter queues.
RETENTION_DAYS = 14


@dataclass(frozen=True, kw_only=True)
class Function:
    """A Lambda function. Its handler is `functions/<name>/handler.py`."""

    description: str
    # Minutes between two invocations by its timer; 0 is no timer.
    every_minutes: int = 0
    # Author code must not learn more than it needs.
    runs_author_code: bool = False


FUNCTIONS: Mapping[str, Function] = {
    "sandbox": Function(
        description="runs author code: parses DAG files, asks custom timetables",
        runs_author_code=True,
    ),
    "register": Function(description="writes what a push defines, retires what it left out"),
    "tick": Function(
        description="claims what is due, sends ahead what comes due within minutes",
        every_minutes=1,
    ),
    "claim": Function(description="claims DAGs in the second in which they are due"),
    "ingest": Function(description="records asset events once, creates the runs they complete"),
    "watch": Function(
        description="lets watchers turn messages and polled sources into asset events",
        every_minutes=1,
        runs_author_code=True,
    ),
    "submit": Function(description="advances runs, starts the jobs of steps that are ready"),
    "task": Function(
        description="runs Python tasks, each in a process of its own",
        runs_author_code=True,
    ),
    "settle": Function(description="reads the state of jobs; retries, skips, finishes, cancels"),
    "sweep": Function(
        description="finds what a crash or a lost message left behind",
        every_minutes=5,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Queue:
    """An SQS queue with its dead-letter queue. One function consumes it."""

    name: str
    consumer: str
    # Functions that send to it. Operators may always; services and others need a queue policy.
    producers: tuple[str, ...] = ()
    # Whether the consumer sends messages that it rejects or gives up to this queue's own DLQ.
    rejects_to_dlq: bool = True
    # Whether the consumer delays failed messages itself, rather than by the visibility timeout.
    delays_retries: bool = True

    @property
    def dlq(self) -> str:
        """The name of its dead-letter queue, which for a FIFO queue must be FIFO too."""
        stem, dot, kind = self.name.partition(".")
        return f"{stem}-dlq{dot}{kind}"

    @property
    def is_fifo(self) -> bool:
        """Whether messages of one group keep their order."""
        return self.name.endswith(".fifo")


_CLAIMING = ("tick", "claim", "ingest", "sweep")
_ADVANCING = ("submit", "settle", "sweep")

# In the order in which the local deployment delivers them.
QUEUES: Mapping[str, Queue] = {
    queue.name: queue
    for queue in (
        # Names jobs and runs to look at. Also fed by EventBridge, with state changes of jobs, and
        # by Lambda, with ends of `task`.
        Queue(name="jobstates", consumer="settle", producers=(*_ADVANCING, "task")),
        # Names runs to advance, and limits that steps wait for.
        Queue(name="submits", consumer="submit", producers=(*_CLAIMING, "submit", "settle")),
        # Names timetables to ask, and pushes to tidy up. Also fed by the bucket, with pushes.
        Queue(name="registers", consumer="register", producers=(*_CLAIMING, "register")),
        # Fed by EventBridge only, with what watchers of buckets and event sources listen to.
        Queue(name="sources", consumer="watch", delays_retries=False),
        # Asset events of producers, watchers and outlets, in any order.
        Queue(name="events", consumer="ingest", producers=("watch", "settle", "sweep")),
        # Asset events that keep their order within a lane. What `ingest` rejects of either queue
        # goes to the dead-letter queue of `events`.
        Queue(name="events.fifo", consumer="ingest", producers=("watch",), rejects_to_dlq=False),
        # Names DAGs that are due, and backfills.
        Queue(
            name="claims",
            consumer="claim",
            producers=(*_CLAIMING, "register", "submit", "settle"),
        ),
    )
}

# By the name of a queue or dead-letter queue, the setting that has its URL. Variables and outputs
# of the stack are named after it: `LAMPLIGHTER_CLAIMS_DLQ_URL`, `ClaimsDlqUrl`.
URL_SETTINGS: Mapping[str, str] = {
    name: f"{queue.name.replace('.', '_').replace('-', '_')}_{kind}_url"
    for queue in QUEUES.values()
    for name, kind in ((queue.name, "queue"), (queue.dlq, "dlq"))
}


def queues_of(function: str) -> tuple[Queue, ...]:
    """Return the queues that a function consumes."""
    return tuple(queue for queue in QUEUES.values() if queue.consumer == function)
