"""Hands events on: everyone who waits for an asset is looked at, and fires if it can.

Owns: closing an asset, which is done when all who waited have been claimed or sent to be claimed,
and no newer event has come. An asset that stays open because someone crashed is found again by the
next delivery of the event, by the next event, or by the sweep. Looking at a consumer twice changes
nothing.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from functools import lru_cache

from lamplighter import clock, queues, settings
from lamplighter.errors import TransientError
from lamplighter.scheduler.claim import claim_all
from lamplighter.scheduler.report import ClaimReport
from lamplighter.store.assets import read_assets
from lamplighter.store.models import Assets
from lamplighter.store.transactions import Cancelled, Change, Verdict, transact
from lamplighter.store.wire import consumers_of, open_assets

log = logging.getLogger(__name__)

# More consumers than this are not claimed here, but sent in chunks to those who claim.
MOST_AT_ONCE = 50


def fan_out(assets: Collection[Assets], *, has_time: Callable[[], bool]) -> ClaimReport:
    """Let everyone who waits for these assets, as they are now, get the run that is due."""
    here: list[str] = []
    elsewhere: list[str] = []
    for row in assets:
        waiting = _consumers(row.asset_id, int(row.refs_rev or 0))
        (here if len(waiting) <= MOST_AT_ONCE else elsewhere).extend(waiting)
    now = clock.now()
    queues.send_claims((dag_id, now) for dag_id in dict.fromkeys(elsewhere))
    report = claim_all(here, has_time=has_time)
    # Else someone has not been claimed, and is looked at again by the sweep. A hint was sent of one
    # that was busy, but only the open asset remembers.
    if not report.failed and not report.left_busy:
        _close(assets)
    return report


# Whoever comes or goes raises the number, so that what is remembered cannot be out of date.
@lru_cache(maxsize=1_000)
def _consumers(asset_id: str, refs_rev: int) -> tuple[str, ...]:  # noqa: ARG001 - it is the key
    return tuple(consumers_of(asset_id))


def forget_consumers() -> None:
    """Forget who waits for what: for tests, which begin again with other tables."""
    _consumers.cache_clear()


def _close(assets: Iterable[Assets]) -> None:
    """Note that nothing is left to hand on, except where an event has come in the meantime."""
    todo = [row for row in assets if row.open_shard is not None]
    size = settings.current().transaction_actions
    for at in range(0, len(todo), size):
        try:
            _close_together(todo[at : at + size])
        except TransientError:
            # All has been handed on; that this is not noted costs a look by the sweep.
            log.warning("assets stay open", exc_info=True)


def _close_together(rows: list[Assets]) -> None:
    while rows:
        for row in rows:
            row.open_shard = None
        try:
            transact([Change(row, ("seq",)) for row in rows])
        except Cancelled as cancelled:
            # The others are someone else's to close, or open until the sweep looks at them.
            pairs = zip(rows, cancelled.reasons, strict=True)
            innocent = [row for row, reason in pairs if reason.verdict is Verdict.INNOCENT]
            rows = innocent if len(innocent) < len(rows) else []
        else:
            return


def sweep_open(*, has_time: Callable[[], bool]) -> ClaimReport:
    """Hand on again what someone recorded and did not hand on; whoever does it now is not hurt."""
    report = ClaimReport()
    until = clock.now().subtract(seconds=settings.current().wake_after_seconds)
    for shard in range(settings.current().run_shards):
        found = read_assets(open_assets(shard, until))
        rows = [row for row in found.values() if row.open_shard is not None]
        if rows:
            report.add(fan_out(rows, has_time=has_time))
        if not has_time():
            break
    return report
