"""Hands events on: everyone who waits for an asset is looked at, and fires if it can.

Owns: closing an asset. It is closed only when every consumer has been claimed in this process and
no newer event has come: a message is a hint, and only the open asset remembers. An asset that stays
open is found by the next delivery of the event, by the next event, or by the sweep, which claims
all of its consumers itself. Looking at a consumer twice changes nothing.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from lamplighter import clock, queues, runtime, settings
from lamplighter.errors import TransientError
from lamplighter.scheduler.claim import ClaimReport, claim_all
from lamplighter.store.assets import consumers_of, open_assets, read_assets
from lamplighter.store.models import Assets
from lamplighter.store.transactions import Cause, Change, TransactionCanceled, transact

log = logging.getLogger(__name__)

# More consumers than this are claimed faster by many functions at once. They get messages, and the
# asset stays open until the sweep has seen that each of them was claimed.
MAX_AT_ONCE = 50
_SHARD_TURN_SECONDS = 300
# A consumer that stayed busy through all tries is left alone for this time.
_BUSY_SECONDS = 30


def fan_out(assets: Collection[Assets], *, has_time: Callable[[], bool]) -> ClaimReport:
    """Let everyone who waits for these assets, as they are now, get the run that is due."""
    few = [row for row in assets if len(_waiting(row)) <= MAX_AT_ONCE]
    many = [row for row in assets if len(_waiting(row)) > MAX_AT_ONCE]
    report = _claim_consumers(few, has_time=has_time)
    now = clock.now()
    named = dict.fromkeys(dag_id for row in many for dag_id in _waiting(row))
    queues.send_claims((dag_id, now) for dag_id in named)
    # The open asset remembers them, too, but the sweep would take minutes.
    soon = now.add(seconds=_BUSY_SECONDS)
    queues.send_claims((dag_id, soon) for dag_id in sorted(report.contended_dags))
    return report


def _claim_consumers(assets: Sequence[Assets], *, has_time: Callable[[], bool]) -> ClaimReport:
    """Claim the consumers of some assets, and close those of which none is left."""
    report = claim_all((dag_id for row in assets for dag_id in _waiting(row)), has_time=has_time)
    _close(row for row in assets if report.unclaimed.isdisjoint(_waiting(row)))
    return report


def _waiting(row: Assets) -> tuple[str, ...]:
    return _consumers(row.asset_id, int(row.refs_rev or 0))


# Whoever comes or goes raises the number, so that what is remembered cannot be out of date.
@runtime.cached(maxsize=1_000)
def _consumers(asset_id: str, refs_rev: int) -> tuple[str, ...]:  # noqa: ARG001 - it is the key
    return tuple(consumers_of(asset_id))


def _close(assets: Iterable[Assets]) -> None:
    """Note that nothing is left to hand on, except where an event has come in the meantime."""
    todo = [row for row in assets if row.open_shard is not None]
    size = settings.current().transaction_actions
    for at in range(0, len(todo), size):
        try:
            _close_together(todo[at : at + size])
        except TransientError:
            # All has been handed on; that this is not noted costs a look by the sweep.
            about = {"assets": [row.asset_id for row in todo[at : at + size]]}
            log.warning("assets stay open", extra=about, exc_info=True)


def _close_together(rows: list[Assets]) -> None:
    while rows:
        for row in rows:
            row.open_shard = row.open_since = None
        try:
            transact([Change(row, ("seq",)) for row in rows])
        except TransactionCanceled as cancelled:
            # The others are someone else's to close, or open until the sweep looks at them.
            pairs = zip(rows, cancelled.reasons, strict=True)
            innocent = [row for row, reason in pairs if reason.cause is Cause.NONE]
            rows = innocent if len(innocent) < len(rows) else []
        else:
            return


def sweep_open(*, has_time: Callable[[], bool]) -> ClaimReport:
    """Claim the consumers of assets that stayed open, one asset after the other.

    Each asset is closed as soon as it is done, and consumers that were claimed before cost only
    reads: a sweep that runs out of time gets further than the one before it.
    """
    report = ClaimReport()
    for row in _open_assets():
        try:
            report.add(_claim_consumers([row], has_time=has_time))
        except Exception:  # it stays open for the next sweep; the other assets must not wait for it
            log.exception("consumers could not be claimed", extra={"asset": row.asset_id})
            report.failed += 1
        if not has_time():
            break
    return report


def _open_assets() -> Iterator[Assets]:
    now, shards = clock.now(), settings.current().run_shards
    until = now.subtract(seconds=settings.current().resend_after_seconds)
    # Every sweep begins with another shard, so that none of them is always the last.
    first = now.int_timestamp // _SHARD_TURN_SECONDS
    for at in range(shards):
        found = read_assets(open_assets((first + at) % shards, until))
        yield from (row for row in found.values() if row.open_shard is not None)
