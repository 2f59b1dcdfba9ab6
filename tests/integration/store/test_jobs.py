"""Rows of jobs on Lambda: of two who move one, one has moved it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from pendulum import datetime

from lamplighter.store import jobs
from lamplighter.store.jobs import (
    Claim,
    cancel_job,
    claim_job,
    end_job,
    give_up_job,
    read_job,
    request_job,
)
from lamplighter.store.models import Jobs

NAME = "orders/first/load/1#0123456789ab"
DEADLINE = datetime(2026, 1, 5, 12)


def request(timeout: timedelta | None = None) -> Jobs:
    """Request the job; return its row."""
    request_job(NAME, context_uri="s3://b/context.json", bundle_uri="s3://b/a.zip", timeout=timeout)
    return stored()


def stored() -> Jobs:
    """Return the row as it is."""
    row = read_job(NAME)
    assert row is not None
    return row


def claim(claim_id: str = "one") -> Jobs | None:
    """Claim the job for an invocation."""
    return claim_job(NAME, Claim(claim_id, DEADLINE, 1_024, "arm64"))


@pytest.mark.usefixtures("stack")
class TestMoves:
    def test_request_that_is_repeated_changes_nothing(self) -> None:
        """The row of a job that runs, or is over, stays as it is."""
        request(timedelta(minutes=1))
        assert claim() is not None
        row = request(timedelta(minutes=2))
        assert (row.state, row.timeout_seconds, row.claim_id) == (jobs.RUNNING, 60, "one")

    def test_job_is_claimed_once(self) -> None:
        """A second invocation gets nothing; the first may ask again, its answer lost."""
        request()
        assert claim("one") is not None
        assert claim("two") is None
        assert claim("one") is not None
        assert (stored().state, stored().claim_id, stored().memory_mb) == (
            jobs.RUNNING,
            "one",
            1_024,
        )

    def test_job_that_nobody_has_requested_is_not_claimed(self) -> None:
        """An invocation of nothing leaves nothing."""
        assert claim() is None
        assert read_job(NAME) is None

    @pytest.mark.parametrize("state", [jobs.SUCCESS, jobs.FAILED])
    def test_job_ends_once(self, state: str) -> None:
        """The first end counts."""
        request()
        row = claim()
        assert row is not None
        end_job(row, state, "first")
        end_job(row, jobs.FAILED, "second")
        assert (stored().state, stored().details) == (state, "first")

    def test_end_of_a_cancelled_job_is_its_cancellation(self) -> None:
        """Whatever its function has done meanwhile, somebody wanted it to end."""
        request()
        row = claim()
        assert row is not None
        cancel_job(NAME)
        assert stored().state == jobs.CANCELLING
        assert claim("one") is None
        end_job(row, jobs.SUCCESS, "")
        assert stored().state == jobs.CANCELLED

    def test_job_cancelled_before_it_begins_never_does(self) -> None:
        """A claim comes too late."""
        request()
        cancel_job(NAME)
        assert (stored().state, claim()) == (jobs.CANCELLED, None)

    @pytest.mark.parametrize("before", [jobs.SUBMITTED, jobs.RUNNING])
    def test_job_that_is_given_up_is_never_claimed_or_ended(self, before: str) -> None:
        """A late invocation finds nothing to do, and cannot say what it did."""
        row = request()
        claimed = claim() if before == jobs.RUNNING else None
        give_up_job(stored(), jobs.FAILED, "nobody can run it")
        assert claim("two") is None
        end_job(claimed or row, jobs.SUCCESS, "")
        assert (stored().state, stored().details) == (jobs.FAILED, "nobody can run it")

    def test_job_that_has_moved_on_is_not_given_up(self) -> None:
        """Between the look and the write somebody may have claimed it."""
        seen = request()
        assert claim() is not None
        give_up_job(seen, jobs.FAILED, "no room")
        assert stored().state == jobs.RUNNING

    @pytest.mark.parametrize("act", [cancel_job, lambda _: claim("two")])
    def test_job_that_is_over_stays_so(self, act: Callable[[str], object]) -> None:
        """Neither a cancel nor another invocation changes it."""
        request()
        row = claim()
        assert row is not None
        end_job(row, jobs.SUCCESS, "")
        act(NAME)
        assert stored().state == jobs.SUCCESS
