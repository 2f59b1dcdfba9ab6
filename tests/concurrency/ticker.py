"""One of the processes of a storm: threads that tick, claim, finish, pause and trigger at random.

A program that `test_tickers` starts several of. It says `ready`, reads what to do as one line of
JSON, works until nothing is left or time is up, and answers with one line of JSON. Every turn of a
thread stands for one invocation of a Lambda: it may die at any call, and the next one knows nothing
of it.

Owns: what happens at the same time. Refuses: judging whether the outcome is right.
"""

import json
import random
import re
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from pendulum import DateTime
from pynamodb.exceptions import PynamoDBException
from pynamodb.expressions.condition import Condition

from lamplighter import clock, queues
from lamplighter.errors import RefusedError, TransientError
from lamplighter.runs.finish import finish_run
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.manual import create_manual_run
from lamplighter.scheduler.pause import pause, unpause
from lamplighter.scheduler.report import ClaimReport
from lamplighter.scheduler.tick import tick
from lamplighter.store.models import TABLES, Dags
from lamplighter.store.rows import connection
from lamplighter.zones import parse_instant
from lamplighter_local.faults import Crash, Faults

_Message = TypeVar("_Message")

# How long an invocation that finds more and more to do goes on.
_BUDGET_SECONDS = 1.0
# How many DAGs a message names that says nothing new.
_MOST_GUESSED = 4
# How many runs a sweep takes up again.
_MOST_SWEPT = 4
_SWEPT = ["dag_id", "active", "is_paused"]
# A thread that found nothing to do leaves the machine to the others for a moment.
_IDLE_SECONDS = 0.1
_MOST_ERRORS, _MOST_FRAMES = 5, 4


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
    # How many DAGs to pause, and for which dates of which DAGs to ask for a run; none is undated.
    pauses: int
    manual: list[tuple[str, str | None]]


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
        puts = [item["Put"]["Item"] for item in items if "Put" in item]
        updates = [item["Update"] for item in items if "Update" in item]
        commits = []
        for update in updates:
            if not update["TableName"].endswith("Dags"):
                continue
            dag_id = update["Key"]["dag_id"]["S"]
            changed = self._changed(update)
            commit = {
                "dag_id": dag_id,
                "rev": int(changed["rev"]["N"]),
                "span": span,
                "runs": {
                    run["run_key"]["S"]: run["run_type"]["S"]
                    for run in puts
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
class Process:
    """Everything that the threads of this process share."""

    storm: Storm
    faults: Faults
    ledger: Ledger = field(default_factory=Ledger)
    claims: deque[list[str]] = field(default_factory=deque)
    submits: deque[tuple[str, str]] = field(default_factory=deque)
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
        self.left = self.storm.dag_ids
        chance = random.Random(self.storm.seed)
        for dag_id in chance.choices(self.storm.dag_ids, k=self.storm.pauses):
            self.mischief += [partial(pause, dag_id), partial(unpause, dag_id)]
        for dag_id, date in self.storm.manual:
            asked = None if date is None else parse_instant(date)
            self.mischief.append(partial(create_manual_run, dag_id, logical_date=asked))
        chance.shuffle(self.mischief)

    def send_submits(self, runs: Iterable[tuple[str, str]]) -> None:
        """Stand in for SQS."""
        self.submits.extend(self._delivered(runs))

    def send_claims(self, due: Iterable[tuple[str, DateTime]]) -> int:
        """Stand in for SQS; delays are not kept, so that some messages come too early."""
        dag_ids = [dag_id for dag_id, _ in self._delivered(due)]
        self.claims.extend([dag_ids] if dag_ids else [])
        return len(dag_ids)

    def _delivered(self, messages: Iterable[_Message]) -> Iterator[_Message]:
        """Lose some, and deliver some twice."""
        for message in messages:
            if random.random() >= self.storm.lost_messages:
                yield message
            if random.random() < self.storm.repeated_messages:
                yield message

    def count(self, report: ClaimReport) -> None:
        """Add up what a claim said about itself."""
        with self.lock:
            self.reported["claimed runs"] += report.claimed_runs
            self.reported["released runs"] += report.released_runs
            self.reported["lost"] += report.lost
            self.reported["left busy"] += report.left_busy
            for reason, number in report.skipped.items():
                self.reported[reason] += number


def _something_is_left() -> Condition:
    """Return the condition that there is something to be done with a DAG."""
    is_due = Dags.due_shard.exists() & (Dags.next_run_create_after <= clock.now())
    is_busy = Dags.active.exists() | Dags.waiting.exists()
    left: Condition = is_due | is_busy | Dags.is_paused.is_in(True)
    return left


@dataclass
class Thread:
    """One thread: invocation after invocation, each of a random kind."""

    process: Process
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
        except (TransientError, PynamoDBException, BotoCoreError, ClientError):
            return "failed for now"
        except RefusedError:
            return "refused"
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must hear of it
            with self.process.lock:
                where = traceback.format_tb(error.__traceback__)[-_MOST_FRAMES:]
                self.process.errors.append(f"{role}: {error!r}\n{''.join(where)}")
                if len(self.process.errors) > _MOST_ERRORS:
                    self.process.is_over.set()
            return "broken"

    # The kinds of invocation; each returns whether it found anything to do.

    def tick(self) -> bool:
        """Be the minute timer."""
        report = tick(has_time=self._budget())
        self.process.count(report)
        return report.considered > 0

    def claim(self) -> bool:
        """Be the consumer of `claims`: of a message, or of one that is old and wrong."""
        try:
            dag_ids = self.process.claims.popleft()
        except IndexError:
            left = self.process.left
            dag_ids = self.chance.sample(left, k=min(len(left), _MOST_GUESSED))
        report = claim_all(dag_ids, has_time=self._budget())
        self.process.count(report)
        return report.claimed_runs > 0

    def finish(self) -> bool:
        """Be whoever ends a run that was submitted."""
        try:
            dag_id, run_key = self.process.submits.popleft()
        except IndexError:
            return False
        try:
            finish_run(dag_id, run_key, state=self.chance.choice(["success", "failed"]))
        except BaseException:  # a message that was not dealt with comes again
            self.process.submits.append((dag_id, run_key))
            raise
        return True

    def sweep(self) -> bool:
        """Find what lost messages left behind, and whether anything is left at all."""
        process = self.process
        with process.lock:
            is_quiet = not process.mischief and not process.busy
        is_still = not self._is_moving()
        rows = list(Dags.scan(_something_is_left(), consistent_read=True, attributes_to_get=_SWEPT))
        if is_quiet and is_still and not rows:
            process.is_over.set()
        if is_quiet:
            paused = [row.dag_id for row in rows if row.is_paused]
            with process.lock:
                process.mischief += [partial(unpause, dag_id) for dag_id in paused]
        process.left = [row.dag_id for row in rows]
        active = [(row.dag_id, key) for row in rows for key in sorted(row.active or ())]
        if process.storm.lost_messages or process.storm.faults:
            # Only some: the other processes find them too.
            process.submits.extend(self.chance.sample(active, k=min(len(active), _MOST_SWEPT)))
        return bool(rows)

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

    def _budget(self) -> Callable[[], bool]:
        until = time.monotonic() + _BUDGET_SECONDS
        return lambda: time.monotonic() < until

    def _is_moving(self) -> bool:
        storm = self.process.storm
        return bool(storm.speed) and time.monotonic() < storm.began_at + storm.moves_for


def main() -> None:
    """Take part in a storm."""
    random.seed()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    storm = Storm(**json.loads(sys.stdin.readline()))
    random.seed(storm.seed)
    faults = Faults(storm.seed)
    faults.probability(**storm.faults)
    process = Process(storm, faults)
    queues.send_submits, queues.send_claims = process.send_submits, process.send_claims
    for table in TABLES:
        table._get_connection()
    client = connection().client
    process.ledger.listen(client)
    seeds = [storm.seed * 1000 + number for number in range(storm.threads)]
    workers = [
        threading.Thread(target=Thread(process, random.Random(seed)).run, daemon=True)
        for seed in seeds
    ]
    with clock.using(StormClock(storm)), faults.on(client):
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    answer = {
        "is_over": process.is_over.is_set(),
        "commits": process.ledger.commits,
        "calls": process.ledger.calls,
        "cancelled": process.ledger.cancelled,
        "unsure": process.ledger.unsure,
        "injected": Counter(text.rpartition(" ")[2] for text in faults.injected),
        "outcomes": process.outcomes,
        "reported": process.reported,
        "errors": process.errors,
    }
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
