"""Slots of backfills that no longer say what is true: found, and put right.

As with those of DAGs (`repair`), no protocol here leaves any behind; a row that was edited
or deleted by hand, or a restored table, can. Then a backfill waits for runs that are over.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lamplighter import clock, queues
from lamplighter.store.backfills import backfills_of, change_backfill, read_backfill
from lamplighter.store.models import Backfills, Dags, Runs
from lamplighter.store.runs import FINISHED
from lamplighter.store.transactions import Write


@dataclass(frozen=True)
class Drift:
    """The slots of a backfill whose runs are over or gone."""

    backfill_id: str
    dead: tuple[str, ...]


def find_drift() -> list[Drift]:
    """Return the backfills with such slots; reads all that occupy any, and their runs."""
    rows = backfills_of(Dags.scan(Dags.backfill.exists(), consistent_read=True))
    # Rows and runs were read at different moments: each suspect is looked at again, alone.
    suspects = [row for row in rows if row.active and _dead(row)]
    found = (_drift_now(row.backfill_id) for row in suspects)
    return [drift for drift in found if drift is not None]


def _drift_now(backfill_id: str) -> Drift | None:
    """Return what is wrong with a backfill, if its row has not changed while its runs were read."""
    row = read_backfill(backfill_id)
    dead = () if row is None else _dead(row)
    again = read_backfill(backfill_id)
    if not dead or row is None or again is None or again.rev != row.rev:
        return None
    return Drift(backfill_id, tuple(sorted(dead)))


def mend(drift: Drift) -> Drift | None:
    """Free the slots whose runs are over, and let the backfill go on; return what was mended."""
    mended: Drift | None = None

    def change(row: Backfills) -> Sequence[Write] | None:
        nonlocal mended
        dead = _dead(row)
        mended = Drift(row.backfill_id, tuple(sorted(dead))) if dead else None
        row.active = set(row.active or ()) - dead or None
        row.cancelled += len(dead)  # what became of them nobody knows
        return [] if dead else None

    change_backfill(drift.backfill_id, change, now=clock.now())
    if mended is not None:
        queues.send_backfills([drift.backfill_id])
    return mended


def _dead(row: Backfills) -> set[str]:
    keys = set(row.active or ())
    return keys - set(_living(row, keys))


def _living(row: Backfills, keys: Collection[str]) -> Iterable[str]:
    found = (
        Runs.batch_get([(row.dag_id, key) for key in keys], consistent_read=True) if keys else ()
    )
    return [
        run.run_key for run in found if run.slot_backfill_id == row.backfill_id and run.state not in FINISHED
    ]
