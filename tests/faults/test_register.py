"""A crash or a lost answer at every single call of a registration, and then the message again.

Two pushes, the second over the first, run once to learn how many calls they make. Then each runs
again for every call and every fault, with that fault at that call. After it the platform does what
it always does: it delivers the message once more. The tables must then be what they are without
any fault, apart from revisions and times.
"""

import copy
import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from pendulum import datetime
from pynamodb.exceptions import PynamoDBException

from lamplighter import aws
from lamplighter.errors import TransientError
from lamplighter.scheduler import cursor
from lamplighter.scheduler.pending import ids_of
from lamplighter.store.models import AssetQueue, Assets, Dags, DagVersions
from lamplighter.store.rows import connection
from lamplighter.timetables.base import DagRunInfo
from lamplighter_local import handlers
from lamplighter_local.deliveries import deliver
from lamplighter_local.emulator.moto_memory import queues as all_queues
from lamplighter_local.emulator.moto_memory import tables
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.push import push_bundle
from tests.faults.reports import Report, each
from tests.tools.faults import Crash, Faults, Kind
from tests.tools.invariants.tables import violations
from tests.tools.snapshot import Snapshot

NOON = datetime(2026, 1, 5, 12, 0, 5)
READS = frozenset({"BatchGetItem", "GetItem", "GetObject", "Invoke", "Query"})
OF_SERVICES = (PynamoDBException, BotoCoreError, ClientError, TransientError)
# What differs when the same is done at another moment.
OF_THE_MOMENT = frozenset(
    {
        "claim_id",
        "created_at",
        "queued_at",
        "rev",
        "state_since",
        "updated_at",
        "wake_at",
    }
)

HEAD = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.base import DagRunInfo, Timetable
TEN = pendulum.datetime(2026, 1, 5, 10)
class Own(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours={hours}))
DAG('own', schedule=Own(), start_date=TEN.add(days=1))
"""
FIRST = {
    "dags/a.py": HEAD.format(hours=1)
    + "DAG('plain', schedule='0 * * * *', start_date=TEN)\n"
    + "DAG('waits', schedule=[Asset('a'), Asset('b')])\n",
    "dags/b.py": "import nothing_like_this\n",
}
SECOND = {
    "dags/a.py": HEAD.format(hours=2)
    + "DAG('plain', schedule='*/30 * * * *', start_date=TEN)\n"
    + "DAG('waits', schedule=[Asset('b'), Asset('c')])\n",
    "dags/b.py": "from lamplighter import DAG\nDAG('new')\n",
}
PUSHES = {"first": (FIRST,), "second": (FIRST, SECOND)}


@dataclass(frozen=True)
class Emulated:
    """A deployment with a push on its way, and where schedules stood then."""

    stack: LocalStack
    before: Snapshot
    origins: dict[str, DagRunInfo]


@contextmanager
def sandbox_remembers() -> Iterator[None]:
    """Let the sandbox be asked each question once: it answers the same to the same."""
    real = handlers.call
    known: dict[str, Any] = {}

    def call(function: str, event: dict[str, Any], *rest: Any) -> Any:
        if function != "sandbox":
            return real(function, event, *rest)
        # The instant matters only for what is owed, and nothing is owed here.
        queries = [{**query, "at": ""} for query in event.get("queries", ())]
        key = json.dumps({**event, "queries": queries, "result_key": ""}, sort_keys=True)
        if key not in known:
            known[key] = real(function, event, *rest)
        return copy.deepcopy(known[key])

    with patch.object(handlers, "call", call):
        yield


@contextmanager
def emulator(tmp_path: Path, pushes: tuple[dict[str, str], ...]) -> Iterator[Emulated]:
    """Make a deployment in which all pushes but the last are done, and the last is announced."""
    with ExitStack() as until_the_end:
        stack = until_the_end.enter_context(local_stack(at=NOON))
        made = replace(stack.settings, due_shards=1)
        stack.settings = made
        until_the_end.enter_context(sandbox_remembers())
        for number, files in enumerate(pushes):
            if number:
                stack.advance(minutes=5)
            for name, text in files.items():
                path = tmp_path / name
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            push_bundle(tmp_path, "bundle")
        yield Emulated(
            stack,
            Snapshot(stack),
            {row.dag_id: at for row in Dags.scan() if (at := cursor.position(row)) is not None},
        )


def try_with(faults: Faults, stack: LocalStack) -> None:
    """Deliver the push once under faults; only what a service could have caused may come of it."""
    lambdas = aws.client("lambda", read_seconds=900.0)
    clients = (connection().client, aws.client("sqs"), aws.client("s3"), lambdas)
    with (
        faults.on(*clients),
        suppress(Crash, *OF_SERVICES),
        warnings.catch_warnings(),
    ):
        # Powertools warns that a handler which died has no metrics, and so hides why it died.
        warnings.filterwarnings("ignore", message="No application metrics")
        deliver(stack.settings.queue_url("registers"), "register")


def deliver_again(stack: LocalStack) -> None:
    """Do what the platform does after a failure: the same message comes again."""
    # What a dead process had received becomes visible again.
    stack.clock.advance(timedelta(minutes=4))
    stack.run_until_idle()


def contents() -> dict[str, list[str]]:
    """Return all rows, as texts, apart from what depends on the moment."""
    return {
        table.name: sorted(map(_lasting, rows))
        for table in tables()
        # From the emulator's memory: there are more tries than patience for requests.
        if (rows := [item.attrs for part in table.items.values() for item in _items(part)])
    }


def _items(part: Any) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else [part]


def _lasting(row: dict[str, Any]) -> str:
    if row.get("kind") and row["kind"].value == "tick":
        return ""
    values = {name: value.to_json() for name, value in row.items() if name not in OF_THE_MOMENT}
    return repr(sorted((name, _sorted(value)) for name, value in values.items()))


def _sorted(value: dict[str, Any]) -> Any:
    return {kind: sorted(v) if isinstance(v, list) else v for kind, v in value.items()}


def wrong_now(origins: dict[str, DagRunInfo]) -> Iterator[str]:
    """Yield what must not be so even in the middle of a registration."""
    yield from violations(origins=origins, is_idle=False)
    references = {(row.asset_id, row.ref) for row in Assets.scan()}
    queued = {(row.asset_id, f"dag#{row.dag_id}") for row in AssetQueue.scan()}
    if queued != {ref for ref in references if ref[1] != "#"}:
        yield f"references {references} and queue {queued} differ"
    for row in Dags.scan():
        if not any(DagVersions.query(row.dag_id, DagVersions.version == row.version)):
            yield f"DAG {row.dag_id} has no version {row.version}"
        wanted = {(asset, f"dag#{row.dag_id}") for asset in ids_of(row.asset_condition)}
        if not wanted <= references:
            yield f"DAG {row.dag_id} waits for {wanted - references}, which do not know"


def crash_points(calls: list[str]) -> Iterator[tuple[Kind, int]]:
    """Yield faults that cover every call, with the number of the call.

    To die before a call is to die after the one before it, and a read that is done is one that was
    never made; so every way to die before or after any call is here once.
    """
    yield "crash-before", 1
    for number, operation in enumerate(calls, start=1):
        if operation == "DeleteMessage":
            yield "crash-before", number  # a function may die when its work is done
        elif operation != "ReceiveMessage":
            yield "lost-answer", number
            if operation not in READS:
                yield "crash-after", number


def wrong_after(faults: Faults, expected: dict[str, list[str]]) -> Iterator[str]:
    """Yield what is not as it would be without the fault."""
    found = contents()
    for table in expected | found:
        rows, wanted = set(found.get(table, ())), set(expected.get(table, ()))
        if rows != wanted:
            yield f"{faults.injected}: {table} has {rows - wanted} instead of {wanted - rows}"
    queues = [
        queue for queue in all_queues() if queue.name.endswith(("registers", "registers-dlq"))
    ]
    left = [message.body for queue in queues for message in queue._messages]
    if any("retire" not in body for body in left):
        yield f"{faults.injected}: messages are left: {left}"


@pytest.mark.full
@pytest.mark.parametrize("name", PUSHES)
def test_fault_at_every_call_of_a_push(name: str, tmp_path: Path, report: Report) -> None:
    """Whatever fails at whichever call, the message delivered again ends in the same state."""
    wrong: list[str] = []
    with emulator(tmp_path, PUSHES[name]) as emulated:
        try_with(Faults(), emulated.before.put_back())  # and the sandbox has been asked everything
        counted = Faults()
        try_with(counted, emulated.before.put_back())
        deliver_again(emulated.stack)
        expected = contents()
        assert list(wrong_now(emulated.origins)) == []
        points = list(crash_points(counted.calls))
        for kind, number in each(points):
            faults = Faults()
            faults.at(number, kind)
            stack = emulated.before.put_back()
            try:
                try_with(faults, stack)
                if kind == "crash-after":
                    now = wrong_now(emulated.origins)
                    wrong += [f"at once, {faults.injected}: {text}" for text in now]
                deliver_again(stack)
            except Exception as error:  # noqa: BLE001 - all of them are listed in the end
                wrong.append(f"{faults.injected} became {error!r}")
            else:
                wrong += wrong_after(faults, expected)
            assert not faults.pending
    report(f"{name} push, {len(counted.calls)} calls", len(points), wrong)
