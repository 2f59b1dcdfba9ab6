"""What the processes of all storms have in common: threads that take turns, each an invocation.

A process says `ready`, reads what to do as one line of JSON, works until nothing is left or time is
up, and answers with one line of JSON. Every turn of a thread stands for one invocation of a Lambda:
it may die at any call, and the next one knows nothing of it.

Owns: what happens at the same time. Refuses: judging whether the outcome is right.
"""

import json
import logging
import random
import re
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition

from lamplighter import aws, clock, queues, runtime
from lamplighter.errors import RefusedError, TransientError
from lamplighter.scheduler.claim import ClaimReport, claim_all
from lamplighter.scheduler.tick import tick
from lamplighter.store.models import TABLES, Dags
from lamplighter.store.rows import connection
from lamplighter.zones import parse_instant
from lamplighter_operations.pause import pause, unpause
from tests.concurrency.sqs_stand_in import Message, Queues
from tests.tools.faults import Crash, Faults
from tests.tools.finish_run import finish_run

# How long an invocation that finds more and more to do goes on.
_BUDGET_SECONDS = 1.0
# How many DAGs a message names that says nothing new.
_MAX_GUESSED = 4
# How many runs a sweep takes up again.
_MAX_SWEPT = 4
_SWEPT = ["dag_id", "active", "is_paused"]
# A thread that found nothing to do leaves the machine to the others for a moment.
_IDLE_SECONDS = 0.1
_MAX_ERRORS, _MAX_FRAMES = 5, 4
# What an invocation may end with when its calls fail.
_EXPECTED = (TransientError, PynamoDBException, BotoCoreError, ClientError)


@dataclass(frozen=True)
class Storm:
    """What one process is asked to do."""

    seed: int
    # The simulated time, and how many seconds of it pass in a real one, for how many real ones.
    now: str
    speed: float
    moves_for: float
    # On the system's monotonic clock, which all processes share.
    began_at: float
    ends_at: float
    threads: int
    dag_ids: list[str]
    # Chances by kind, as `Faults.probability` takes them.
    faults: dict[str, float]
    # The chances that a message is lost, and that it comes once more.
    lost_messages: float
    repeated_messages: float
    # How often each thing is done, beside the others.
    weights: dict[str, float]
    # How many DAGs to pause.
    pause_count: int


S = TypeVar("S", bound=Storm)


@dataclass(frozen=True)
class StormClock:
    """The time of the storm, the same in all processes; sleeping takes real time."""

    storm: Storm

    def now(self) -> DateTime:
        """Return the time to which the storm has come."""
        real = min(time.monotonic() - self.storm.began_at, self.storm.moves_for)
        return parse_instant(self.storm.now).add(seconds=real * self.storm.speed)

    def sleep(self, seconds: float) -> None:
        """Wait, so that competitors do not meet again."""
        time.sleep(seconds)


class Ledger:
    """What DynamoDB was sent and has committed, also where the answer never reached the code.

    It listens to botocore below the injected faults. Each commit of a DAG's row is kept as its new
    `rev`, the slots if they changed, and the runs that were put together with it, with their type.
    """

    _ASSIGNMENT = re.compile(r"(#\w+)\s*=\s*(:\w+)")
    _NAME = re.compile(r"#\w+")

    def __init__(self) -> None:
        self.commits: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self.cancelled = 0
        # Calls that were sent twice or had no answer: their commits may have gone unseen.
        self.unsure = 0
        self.role = threading.local()
        self._lock = threading.Lock()

    def listen(self, client: Any) -> None:
        """Note what this client does from now on."""
        events = client.meta.events
        # The request as it is signed and sent, whatever was done to it on the way.
        events.register("request-created.dynamodb", self._note_request)
        events.register("after-call.dynamodb.TransactWriteItems", self._note_answer)
        events.register("after-call-error.dynamodb", self._note_error)

    def _note_request(self, request: Any, operation_name: str, **_: object) -> None:
        request.context["sent"] = request.data
        request.context.setdefault("sent_at", time.monotonic())
        with self._lock:
            self.calls[f"{getattr(self.role, 'name', 'main')} {operation_name}"] += 1

    def _note_answer(
        self, http_response: Any, parsed: Mapping[str, Any], context: dict[str, Any], **_: object
    ) -> None:
        span = (context["sent_at"], time.monotonic())
        with self._lock:
            self.unsure += bool(parsed.get("ResponseMetadata", {}).get("RetryAttempts"))
            if http_response.status_code == 200:
                sent = json.loads(context["sent"])
                self.commits += self._commits_of(sent["TransactItems"], span)
            else:
                self.cancelled += 1

    def _note_error(self, **_: object) -> None:
        with self._lock:
            self.unsure += 1

    def _commits_of(
        self, items: Sequence[Mapping[str, Any]], span: tuple[float, float]
    ) -> list[dict[str, Any]]:
        puts = [item["Put"] for item in items if "Put" in item]
        runs = [put["Item"] for put in puts if put["TableName"].endswith("Runs")]
        updates = [item["Update"] for item in items if "Update" in item]
        commits = []
        for update in updates:
            if not update["TableName"].endswith("Dags"):
                continue
            dag_id = update["Key"]["dag_id"]["S"]
            changed = self._changed(update)
            if "rev" not in changed:
                continue  # a note that a claim got nowhere, which decides about nothing
            commit = {
                "dag_id": dag_id,
                "rev": int(changed["rev"]["N"]),
                "span": span,
                "runs": {
                    run["run_key"]["S"]: run["run_type"]["S"]
                    for run in runs
                    if run["dag_id"]["S"] == dag_id
                },
            }
            if "active" in changed:
                commit["active"] = changed["active"]["SS"] if changed["active"] else []
            commits.append(commit)
        return commits

    def _changed(self, update: Mapping[str, Any]) -> dict[str, Any]:
        names, values = update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
        expression = update["UpdateExpression"]
        changed = {names[n]: values[v] for n, v in self._ASSIGNMENT.findall(expression)}
        removed = self._NAME.findall(expression.partition("REMOVE ")[2])
        changed |= {names[name]: None for name in removed}
        return changed


@dataclass
class Process(Generic[S]):
    """Everything that the threads of this process share."""

    storm: S
    queues: Queues = field(init=False)
    faults: Faults = field(init=False)
    ledger: Ledger = field(default_factory=Ledger)
    # The DAGs with which there was something to be done when someone looked last.
    left: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reported: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    # What is still to be done to the DAGs, and by how many threads it is being done.
    mischief: list[Callable[[], object]] = field(default_factory=list)
    busy: int = 0

    def __post_init__(self) -> None:
        """Deal the mischief."""
        storm = self.storm
        self.left = storm.dag_ids
        self.queues = Queues(lost=storm.lost_messages, repeated=storm.repeated_messages)
        self.faults = Faults(storm.seed)
        self.faults.probability(**storm.faults)
        chance = random.Random(storm.seed)
        for dag_id in chance.choices(storm.dag_ids, k=storm.pause_count):
            self.mischief += [partial(pause, dag_id), partial(unpause, dag_id)]
        self.mischief += self.more_mischief()
        chance.shuffle(self.mischief)

    def more_mischief(self) -> list[Callable[[], object]]:
        """Return what else people do to the DAGs of this storm."""
        return []

    def is_quiet(self) -> bool:
        """Return whether nobody will do anything that nothing asks for."""
        with self.lock:
            return not self.mischief and not self.busy

    def count(self, report: ClaimReport) -> None:
        """Add up what a claim said about itself."""
        with self.lock:
            self.reported["claimed runs"] += report.claimed_runs
            self.reported["released runs"] += report.released_runs
            self.reported["lost"] += report.lost_claims
            self.reported["left busy"] += len(report.contended_dags)
            for reason, number in report.skipped.items():
                self.reported[reason] += number

    def note(self, error: BaseException) -> None:
        """Keep an error that no fault explains, for the test to hear of it."""
        with self.lock:
            where = traceback.format_tb(error.__traceback__)[-_MAX_FRAMES:]
            role = getattr(self.ledger.role, "name", "main")
            self.errors.append(f"{role}: {error!r}\n{''.join(where)}")
            if len(self.errors) > _MAX_ERRORS:
                self.is_over.set()

    def answer(self) -> dict[str, Any]:
        """Return what is to be known about this process when it is over."""
        return {
            "is_over": self.is_over.is_set(),
            "commits": self.ledger.commits,
            "calls": self.ledger.calls,
            "cancelled": self.ledger.cancelled,
            "unsure": self.ledger.unsure,
            "injected": Counter(text.rpartition(" ")[2] for text in self.faults.injected),
            "outcomes": self.outcomes,
            "reported": self.reported,
            "errors": self.errors,
        }


class Listener(logging.Handler):
    """Hears what the library logs. Errors that it logs instead of raising them count as well."""

    def __init__(self, process: Process[Any]) -> None:
        super().__init__()
        self.process = process

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what no fault explains, and drop the rest, which would fill pages."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, _EXPECTED):
            self.process.note(error)


def _something_is_left() -> Condition:
    """Return the condition that there is something to be done with a DAG."""
    is_due = Dags.due_shard.exists() & (Dags.next_run_create_after <= clock.now())
    is_busy = Dags.active.exists() | Dags.waiting.exists()
    left: Condition = is_due | is_busy | Dags.is_paused.is_in(True)
    return left


P = TypeVar("P", bound=Process[Any])


@dataclass
class Thread(Generic[P]):
    """One thread: invocation after invocation, each of a random kind."""

    process: P
    chance: random.Random

    def run(self) -> None:
        """Go on until nothing is left to be done, or time is up."""
        process = self.process
        weights = process.storm.weights
        while not process.is_over.is_set() and time.monotonic() < process.storm.ends_at:
            (role,) = self.chance.choices(list(weights), list(weights.values()))
            process.ledger.role.name = role
            outcome = self._invoke(role)
            with process.lock:
                process.outcomes[f"{role}: {outcome}"] += 1
            if outcome == "idle":
                time.sleep(self.chance.uniform(0, _IDLE_SECONDS))

    def _invoke(self, role: str) -> str:
        invoke: Callable[[], bool] = getattr(self, role)
        try:
            return "done" if invoke() else "idle"
        except Crash:
            return "died"
        except _EXPECTED:
            return "failed for now"
        except RefusedError:
            return "refused"
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            self.process.note(error)
            return "broken"

    # The kinds of invocation; each returns whether it found anything to do.

    def tick(self) -> bool:
        """Be the minute timer."""
        report = tick(has_time=self.budget())
        self.process.count(report)
        return report.considered > 0

    def claim(self) -> bool:
        """Be the consumer of `claims`: of a message, or of one that is old and wrong."""
        with self.process.queues["claims"].receive(1) as (messages, _):
            dag_ids = [name for one in messages for name in queues.read_claims(one.body).dag_ids]
            report = claim_all(dag_ids or self._guess(), has_time=self.budget())
        self.process.count(report)
        return report.claimed_runs > 0

    def _guess(self) -> list[str]:
        left = self.process.left
        return self.chance.sample(left, k=min(len(left), _MAX_GUESSED))

    def finish(self) -> bool:
        """Be whoever ends the runs that were submitted."""
        submits = self.process.queues["submits"]
        with submits.receive(1) as (messages, _):
            runs = [run for one in messages for run in json.loads(one.body)["runs"]]
            for run in runs[1:]:  # each run has an end of its own
                submits.put(Message(json.dumps({"runs": [run]})))
            for dag_id, run_key in runs[:1]:
                finish_run(dag_id, run_key, state=self.chance.choice(["success", "failed"]))
        return bool(runs)

    def sweep(self) -> bool:
        """Find what lost messages left behind, and whether anything is left at all."""
        process = self.process
        is_quiet = process.is_quiet()
        is_still = not self.is_moving()
        rows = list(Dags.scan(_something_is_left(), consistent_read=True, attributes_to_get=_SWEPT))
        # Asked again in the end: whoever closed an asset just now has sent messages before that.
        if is_quiet and is_still and not rows and not self.is_more_left() and process.is_quiet():
            process.is_over.set()
        if is_quiet:
            paused = [row.dag_id for row in rows if row.is_paused]
            with process.lock:
                process.mischief += [partial(unpause, dag_id) for dag_id in paused]
        process.left = [row.dag_id for row in rows]
        active = [(row.dag_id, key) for row in rows for key in sorted(row.active or ())]
        if (process.storm.lost_messages or process.storm.faults) and not process.queues["submits"]:
            # Only some: the other processes find them too.
            queues.send_submits(self.chance.sample(active, k=min(len(active), _MAX_SWEPT)))
        return bool(rows)

    def is_more_left(self) -> bool:
        """Return whether there is something to be done that no DAG's row tells."""
        return False

    def meddle(self) -> bool:
        """Be a person who pauses and triggers DAGs."""
        process = self.process
        with process.lock:
            if not process.mischief:
                return False
            deed = process.mischief.pop()
            process.busy += 1
        try:
            deed()
        finally:
            with process.lock:
                process.busy -= 1
        return True

    def budget(self) -> Callable[[], bool]:
        """Return what tells an invocation whether it has time left."""
        until = time.monotonic() + _BUDGET_SECONDS
        return lambda: time.monotonic() < until

    def is_moving(self) -> bool:
        """Return whether more can come due."""
        storm = self.process.storm
        return bool(storm.speed) and time.monotonic() < storm.began_at + storm.moves_for


def take_part(
    read: Callable[..., S],
    process_of: Callable[[S], P],
    thread_of: Callable[[P, random.Random], Thread[P]],
) -> None:
    """Be one process of a storm, from `ready` to the answer."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    storm = read(**json.loads(sys.stdin.readline()))
    random.seed(storm.seed)
    process = process_of(storm)
    logging.getLogger("lamplighter").propagate = False
    logging.getLogger("lamplighter").addHandler(Listener(process))
    sqs = process.queues.client()
    aws.client = {"sqs": sqs}.__getitem__  # type: ignore[assignment] # nothing else is called
    for table in TABLES:
        table._get_connection()
    dynamodb = connection().client
    process.ledger.listen(dynamodb)
    seeds = [storm.seed * 1000 + number for number in range(storm.threads)]
    workers = [
        threading.Thread(target=thread_of(process, random.Random(seed)).run, daemon=True)
        for seed in seeds
    ]
    # Where messages are lost by chance, sending them need not fail as well.
    clients = [dynamodb] if storm.lost_messages else [dynamodb, sqs]
    with runtime.using(clock=StormClock(storm)), process.faults.on(*clients):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    sys.stdout.write(json.dumps(process.answer()) + "\n")
