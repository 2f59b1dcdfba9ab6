"""What a person may ask of a backfill: to pause, to go on, to be cancelled.

Owns: what each means for its row. Its runs read the row before they begin anything, so that a
message which is lost on the way delays them, and no more.
"""

from collections.abc import Sequence

from lamplighter import clock, queues
from lamplighter.backfill.plan import require_limits
from lamplighter.errors import RefusedError
from lamplighter.store.backfills import CANCELLED, OPEN, PAUSED, RUNNING, change_backfill
from lamplighter.store.models import Backfills
from lamplighter.store.transactions import Write


def pause_backfill(backfill_id: str, *, reason: str = "someone asked for it") -> Backfills:
    """Let no more of its runs begin; those that have begun go on to their ends."""

    def change(row: Backfills) -> Sequence[Write] | None:
        _require_open(row)
        if row.state == PAUSED:
            return None
        row.state, row.reason = PAUSED, reason
        return []

    return change_backfill(backfill_id, change, now=clock.now())


def resume_backfill(
    backfill_id: str, *, max_active_runs: int | None = None, max_cost: float | None = None
) -> Backfills:
    """Let it go on where it stands; its limits may be others from here on."""
    require_limits(max_active_runs, max_cost)

    def change(row: Backfills) -> Sequence[Write] | None:
        _require_open(row)
        row.state, row.reason = RUNNING, None
        row.max_active_runs = max_active_runs or row.max_active_runs
        row.max_cost = max_cost or row.max_cost
        return []

    row = change_backfill(backfill_id, change, now=clock.now())
    queues.send_backfills([backfill_id])
    queues.send_submits((row.dag_id, key) for key in sorted(row.active or ()))
    return row


def cancel_backfill(backfill_id: str, *, cancels_running_runs: bool = False) -> Backfills:
    """Let it create no more runs, and those that wait never begin.

    Runs that have begun go on, unless `cancels_running_runs`: then their jobs are cancelled.
    """

    def change(row: Backfills) -> Sequence[Write] | None:
        # Asked again, it may also end what was left running the first time.
        if row.state != CANCELLED:
            _require_open(row)
            row.state, row.ended_at = CANCELLED, clock.now()
            row.reason = "someone asked for it"
        row.cancels_running_runs = row.cancels_running_runs or cancels_running_runs or None
        return []

    row = change_backfill(backfill_id, change, now=clock.now())
    # They see for themselves that they must end; this only lets them look at once.
    queues.send_settles((row.dag_id, key) for key in sorted(row.active or ()))
    return row


def _require_open(row: Backfills) -> None:
    if row.state not in OPEN:
        raise RefusedError(f"backfill {row.backfill_id!r} is {row.state}")
