"""What bounds the asset-triggered runs of a DAG: its dates, and a number per hour. Assigns only.

Owns: the columns `asset_start_at`, `asset_hour_start` and `asset_runs_in_hour`. Before the start
date, events wait as they do while a DAG is paused; at the start date they are kept if the DAG
catches up, and dropped if not. Events recorded after the end date are dropped, unless a run is owed
since before it: that one takes all there are.

Runs are counted by the claim that creates them, so none is counted twice or not at all. A DAG that
has had its share of the hour is paused by the claim of the next one; its events stay pending, as in
every pause.
"""

from collections.abc import Mapping

from pendulum import DateTime

from lamplighter import settings
from lamplighter.scheduler.pending import Pending, share_events
from lamplighter.store.models import Dags
from lamplighter.store.slots import free_slots, is_open
from lamplighter.store.transactions import Change

BEFORE_START = "dropped before the start date"
AFTER_END = "dropped after the end date"


def set_asset_start(row: Dags, *, now: DateTime) -> None:
    """Assign when a pushed DAG begins to have asset-triggered runs, if it has not begun."""
    is_to_come = row.earliest is not None and row.earliest > now
    # An earlier start date takes the place of one that was still to come.
    has_start = bool(row.asset_condition) and (is_to_come or row.asset_start_at is not None)
    row.asset_start_at = row.earliest if has_start else None


def in_time(row: Dags, events: Mapping[str, Pending]) -> Mapping[str, Pending]:
    """Return the pending events that count, given the end date."""
    met_at, latest = row.asset_condition_met_at, row.latest
    if latest is None or (met_at is not None and met_at <= latest):
        return events
    recorded_at = _recorded_at(events)
    return {asset: found for asset, found in events.items() if recorded_at[asset] <= latest}


def drop_out_of_bounds(row: Dags, events: Mapping[str, Pending], *, now: DateTime) -> list[Change]:
    """Return the writes that drop events out of bounds; the asset schedule begins if it is time."""
    kept = in_time(row, events)
    dropped = {asset: AFTER_END for asset in events if asset not in kept}
    start = row.asset_start_at
    if start is not None and start <= now:
        row.asset_start_at = None
        if not row.catchup:
            recorded_at = _recorded_at(kept)
            dropped |= {asset: BEFORE_START for asset in kept if recorded_at[asset] < start}
    return [events[asset].drop(why, now) for asset, why in dropped.items()]


def _recorded_at(events: Mapping[str, Pending]) -> dict[str, DateTime]:
    """Return when the newest event of each asset was recorded."""
    instants = {asset: found.recorded_at for asset, found in events.items()}
    # One event may be in several streams, and must not be dropped in one and consumed in another.
    return dict.fromkeys(instants, max(instants.values())) if share_events(events) else instants


# The number per hour.


def pause_if_spent(row: Dags, now: DateTime) -> bool:
    """Pause the DAG if an asset-triggered run could start, and it has had all of this hour.

    Return whether it was paused.
    """
    is_due = row.asset_condition_met_at is not None and row.asset_start_at is None
    if not (is_due and is_open(row) and free_slots(row)):
        return False
    count = _in_this_hour(row, now)
    if count < settings.current().asset_runs_per_hour:
        return False
    row.is_paused = True
    row.pause_reason = (
        f"{count:,} asset-triggered runs within an hour: does it trigger itself through its assets?"
        " (setting asset_runs_per_hour)"
    )
    return True


def count_run(row: Dags, now: DateTime) -> None:
    """Count an asset-triggered run that is created now."""
    count = _in_this_hour(row, now)
    if not count:
        row.asset_hour_start = now
    row.asset_runs_in_hour = count + 1


def forget_runs(row: Dags) -> None:
    """Begin to count anew, because someone has unpaused the DAG."""
    row.asset_hour_start = row.asset_runs_in_hour = None


def _in_this_hour(row: Dags, now: DateTime) -> int:
    start = row.asset_hour_start
    if start is None or now >= start.add(hours=1):
        return 0
    return int(row.asset_runs_in_hour or 0)
