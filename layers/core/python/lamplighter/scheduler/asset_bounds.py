"""Start and end date of a DAG as the bounds of its asset-triggered runs. Pure: assigns only.

Owns: the column `asset_start_at`. Before the start date, events wait as they do while a DAG is
paused; at the start date they are kept if the DAG catches up, and dropped if not. Events recorded
after the end date are dropped, unless a run is owed since before it: that one takes all there are.
"""

from collections.abc import Mapping

from pendulum import DateTime

from lamplighter.scheduler.pending import Pending, share_events
from lamplighter.store.models import Dags
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
