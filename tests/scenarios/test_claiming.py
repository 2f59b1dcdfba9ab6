"""Who gets a run when several want to make it: ticks at once, full limits, long shards."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from pendulum import DateTime, datetime

from lamplighter import DAG
from lamplighter.scheduler import claim as claim_module
from lamplighter.scheduler.claim import claim, claim_all
from lamplighter.scheduler.tick import due_until, tick
from lamplighter.store.dags import read_dags
from lamplighter.store.models import Dags
from lamplighter.store.transactions import (
    CancellationReason,
    Cause,
    TransactionCanceled,
    transact,
)
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import row_of, store_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

Deploy = Callable[..., LocalStack]

MIDNIGHT = datetime(2026, 1, 1)
FIVE_PAST = MIDNIGHT.add(seconds=5)


def hourly(dag_id: str = "hourly", **arguments: Any) -> DAG:
    """Return an hourly DAG whose first interval ended at midnight."""
    arguments.setdefault("start_date", MIDNIGHT.subtract(hours=1))
    return DAG(dag_id, schedule="0 * * * *", **arguments)


def hours(stack: LocalStack, dag_id: str) -> list[DateTime | None]:
    """Return the logical dates of a DAG's runs."""
    return [run.logical_date for run in stack.runs(dag_id)]


def test_ticks_at_once_create_one_run_each(deploy: Deploy) -> None:
    """Three schedulers that tick at the same moment give every DAG its one run."""
    stack = deploy(FIVE_PAST)
    names = [f"dag-{number}" for number in range(12)]
    store_dags(hourly(name) for name in names)
    barrier = threading.Barrier(3)

    def tick_with_others(_: int) -> int:
        barrier.wait()
        return tick(has_time=lambda: True).claimed_runs

    with ThreadPoolExecutor(3) as pool:
        claimed = sum(pool.map(tick_with_others, range(3)))

    assert claimed == len(names)
    assert [hours(stack, name) for name in names] == [[MIDNIGHT.subtract(hours=1)]] * len(names)
    require_sound()


def test_claim_of_moved_row_is_lost_without_a_run(deploy: Deploy) -> None:
    """A tick that read the row before another one claimed it reports a lost claim, and no run."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly()])
    before = read_dags

    def read_and_be_overtaken(ids: Any, **more: Any) -> list[Dags]:
        rows = before(ids, **more)
        with patch.object(claim_module, "read_dags", before):
            claim(["hourly"])
        return rows

    with patch.object(claim_module, "read_dags", read_and_be_overtaken):
        report, _ = claim(["hourly"])

    assert (report.lost_claims, report.claimed_runs) == (1, 0)
    assert len(stack.runs("hourly")) == 1
    require_sound()


def test_message_delivered_again_days_later_creates_nothing(deploy: Deploy) -> None:
    """A claim message is a hint: whoever gets it a second time finds nothing to do."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(schedule_end := "hourly", end_date=MIDNIGHT.subtract(hours=1))])
    claim_all([schedule_end])
    stack.clock.advance(timedelta(days=3))

    report = claim_all([schedule_end, schedule_end, "a DAG that never was"])

    assert (report.claimed_runs, report.considered) == (0, 1)
    assert len(stack.runs(schedule_end)) == 1
    require_sound()


def test_due_time_at_the_limit_survives_until_a_slot_is_free(deploy: Deploy) -> None:
    """At the limit the due time is kept, and the next interval starts as soon as a run ends."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=1)])
    stack.tick()
    stack.advance(to=MIDNIGHT.add(hours=3, minutes=30))
    full = stack.dag("hourly")
    assert full.due_shard is None
    assert full.next_run_create_after == MIDNIGHT.add(hours=1)

    finish_run("hourly", stack.runs("hourly")[0].run_key, state="success")
    assert stack.dag("hourly").due_shard is not None
    stack.run_until_idle()

    assert hours(stack, "hourly") == [MIDNIGHT.subtract(hours=1), MIDNIGHT]
    require_sound()


def test_run_that_ends_early_does_not_start_the_next_early(deploy: Deploy) -> None:
    """A run that ends just before the next interval is complete does not bring it forward."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly(max_active_runs=1)])
    stack.tick()
    stack.advance(to=MIDNIGHT.add(minutes=59, seconds=58, microseconds=500))

    finish_run("hourly", stack.runs("hourly")[0].run_key, state="success")
    stack.run_until_idle()
    assert len(stack.runs("hourly")) == 1
    stack.advance(seconds=10)

    created = stack.runs("hourly")[1].created_at
    assert MIDNIGHT.add(hours=1) <= created <= MIDNIGHT.add(hours=1, seconds=1)
    require_sound()


def _pages_of_one(client: Any) -> Iterator[None]:
    send = client._make_api_call

    def ask_for_one(operation: str, request: dict[str, Any]) -> Any:
        limit = {"Limit": 1} if operation == "Query" else {}
        return send(operation, {**request, **limit})

    with patch.object(client, "_make_api_call", ask_for_one):
        yield


def test_due_read_in_pages_of_one_skips_nobody(deploy: Deploy) -> None:
    """However short the pages of the index are, every due DAG is found."""
    deploy(FIVE_PAST, due_shards=2)
    store_dags(hourly(f"dag-{number}") for number in range(25))
    pages = _pages_of_one(Dags._get_connection().connection.client)
    next(pages)

    found = due_until(FIVE_PAST, shards=2)

    next(pages, None)
    assert {entry.dag_id for entry in found} == {f"dag-{number}" for number in range(25)}


def test_shard_of_a_thousand_and_one_skips_nobody(deploy: Deploy) -> None:
    """A shard with 1,001 due DAGs names each of them once."""
    deploy(FIVE_PAST)
    template = row_of(hourly())
    with Dags.batch_write() as batch:
        for number in range(1_001):
            row = copy(template)
            row.attribute_values = {**template.attribute_values, "dag_id": f"dag-{number}"}
            batch.save(row)

    found = due_until(FIVE_PAST, shards=2)

    assert len(found) == len({entry.dag_id for entry in found}) == 1_001


def test_dags_with_backlog_wait_for_the_others_turn(deploy: Deploy) -> None:
    """A DAG with a long backlog gets its second run only when every other has had its first."""
    deploy(FIVE_PAST)
    store_dags([hourly("backlog", start_date=MIDNIGHT.subtract(days=2)), hourly("prompt")])
    order: list[str] = []

    def note(writes: Any) -> None:
        transact(writes)
        order.extend(write.row.dag_id for write in writes if isinstance(write.row, Dags))

    with patch.object(claim_module, "transact", note):
        tick(has_time=lambda: True)

    assert order[:2] in (["backlog", "prompt"], ["prompt", "backlog"])
    require_sound()


def test_backlog_without_time_left_goes_on_by_message(deploy: Deploy) -> None:
    """What a tick has no time for is sent on, and done by whoever gets the message."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly("backlog", start_date=MIDNIGHT.subtract(hours=9))])

    tick(has_time=lambda: False)
    assert len(stack.runs("backlog")) == 1
    stack.run_until_idle()

    assert len(stack.runs("backlog")) == 9
    require_sound()


def test_row_that_stays_busy_is_left_to_the_next_tick(deploy: Deploy) -> None:
    """A row that is always busy costs no one else anything, and has its run a minute later."""
    stack = deploy(FIVE_PAST)
    store_dags([hourly("busy"), hourly("calm")])

    def conflict(writes: Any) -> None:
        busy = [write.row.dag_id == "busy" for write in writes]
        if any(busy):
            causes = [Cause.BUSY if is_busy else Cause.NONE for is_busy in busy]
            raise TransactionCanceled([CancellationReason(cause) for cause in causes])
        transact(writes)

    with patch.object(claim_module, "transact", conflict):
        report = tick(has_time=lambda: True)
    assert (len(report.contended_dags), report.claimed_runs) == (1, 1)
    assert (hours(stack, "busy"), len(hours(stack, "calm"))) == ([], 1)

    stack.clock.advance(timedelta(minutes=1))
    stack.tick()

    assert len(hours(stack, "busy")) == 1
    require_sound()
