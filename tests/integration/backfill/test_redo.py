"""A backfill that runs a date again, while someone else moves the run of that date."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, SparkTask
from lamplighter.backfill.advance import advance_backfills
from lamplighter.backfill.plan import Request
from lamplighter.store.models import Runs
from lamplighter.store.rows import connection
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.backfills import create_backfill
from lamplighter_operations.runs import retry_run
from tests.integration.functions.job_messages import lose_messages
from tests.tools.definitions import register_dags
from tests.tools.invariants.tables import violations

DAY = datetime(2026, 1, 1)
KEY = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def emr() -> FakeEmr:
    """Return an EMR Serverless that pretends."""
    return FakeEmr()


@pytest.fixture
def stack(emr: FakeEmr) -> Iterator[LocalStack]:
    """Return a deployment with one failed run."""
    with local_stack(at=DAY.add(days=1, hours=1), on=emr) as made:
        with DAG("daily", schedule="0 0 * * *", start_date=DAY, end_date=DAY) as dag:
            SparkTask("t", job="jobs:run")
        register_dags(dag)
        emr.fail_next("daily", "t")
        made.advance(minutes=5)
        assert run().state == "failed"
        yield made


def run() -> Runs:
    """Return the run of the only date."""
    return Runs.get("daily", KEY, consistent_read=True)


def new_backfill() -> str:
    """Return a backfill that will run the date again; the message about it is lost."""
    request = Request(
        dag_id="daily", start=DAY, end=DAY.add(days=1), reprocess="completed", max_active_runs=1
    )
    made = create_backfill(request)
    lose_messages("claims")
    return made.backfill_id


@contextmanager
def before_transaction(do: Callable[[], object]) -> Iterator[None]:
    """Let something happen between what is read and the first transaction that follows from it."""
    client: Any = connection().client
    send = client._make_api_call
    waiting = [do]

    def send_later(name: str, request: Any) -> Any:
        if name == "TransactWriteItems" and waiting:
            waiting.pop()()
        return send(name, request)

    client._make_api_call = send_later
    try:
        yield
    finally:
        del client._make_api_call
    assert not waiting


def test_redo_of_a_run_that_failed_once_more_meanwhile_goes_on_from_there(
    stack: LocalStack, emr: FakeEmr
) -> None:
    """Though the run is failed as it was when it was read, its number never goes back."""
    backfill = new_backfill()
    seen: list[float] = []

    def fail_again() -> None:
        emr.fail_next("daily", "t")
        retry_run("daily", KEY)
        stack.advance(seconds=20)
        assert run().state == "failed"
        seen.append(run().rev)

    with before_transaction(fail_again):
        advance_backfills([backfill])

    assert run().rev > seen[0]
    stack.advance(minutes=10)
    assert run().state == "success"
    assert len(emr.jobs) == 3
    assert violations() == []


def test_redo_of_a_run_that_was_begun_again_by_hand_meanwhile_is_refused(
    stack: LocalStack,
) -> None:
    """A person's edit in the console knows nothing of `rev`, and the run is not replaced."""
    backfill = new_backfill()
    created_at = run().created_at

    with before_transaction(lambda: run().update([Runs.state.set("running")])):
        advance_backfills([backfill])

    assert (run().state, run().created_at) == ("running", created_at)
