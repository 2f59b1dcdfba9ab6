"""The slot of a run that waits for its past. Assigns only.

Owns: when a run moves between the three sets of its DAG's row. A run that has nothing to do until
the run before it is mended gives its slot back, else the run before could never be tried again. It
is not put among those that wait for a slot, since the claim would give it one at once.
"""

from pendulum import DateTime

from lamplighter.runs.states import RUNNING
from lamplighter.runs.view import RunView
from lamplighter.store.due import run_of, waiting_entry
from lamplighter.store.models import Dags


def holds_slot(view: RunView) -> bool:
    """Return whether the run occupies one of its DAG's slots; without a DAG, none are counted.

    A run that has begun has its slot unless its DAG's row says that it waits.
    """
    row, key = view.row, view.run.run_key
    if row is None or key in (row.active or ()):
        return True
    return view.run.state == RUNNING and not (has_given_back(view) or key in _queue(row))


def has_given_back(view: RunView) -> bool:
    """Return whether the run has given its slot back."""
    return view.row is not None and view.run.run_key in (view.row.waiting_for_past or ())


def give_back(view: RunView) -> None:
    """Let another run have the slot of one that waits for its past."""
    row, key = view.row, view.run.run_key
    # A slot of a backfill is its own affair: its runs follow each other anyway.
    if row is not None and key in (row.active or ()):
        row.active = set(row.active or ()) - {key} or None
        row.waiting_for_past = set(row.waiting_for_past or ()) | {key}


def queue_again(view: RunView, now: DateTime) -> None:
    """Let a run whose past no longer keeps it wait for a slot, which the claim gives it."""
    row, key = view.row, view.run.run_key
    assert row is not None
    row.waiting_for_past = set(row.waiting_for_past or ()) - {key} or None
    row.waiting = set(row.waiting or ()) | {waiting_entry(now, key)}


def forget(row: Dags, run_key: str) -> None:
    """Let the row not name a run that is over."""
    row.active = set(row.active or ()) - {run_key} or None
    row.waiting_for_past = set(row.waiting_for_past or ()) - {run_key} or None
    row.waiting = {entry for entry in row.waiting or () if run_of(entry) != run_key} or None


def _queue(row: Dags) -> set[str]:
    return {run_of(entry) for entry in row.waiting or ()}
