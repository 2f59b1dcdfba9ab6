"""Rows of bundles: push numbers, records of pushes, and problems of their files.

Owns: the Catalog kinds about bundles. Pushes are numbered, and an older one never replaces a newer.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import Check, update, update_if

BUNDLE = "bundle"
# Each record takes the place of the one so many pushes before, so that none has to be deleted.
RECORDS_KEPT = 50
REGISTERED = "registered"
UNREADABLE = "unreadable"


def next_push_number(bundle: str) -> int:
    """Return the number of a new push."""
    row = Catalog(BUNDLE, bundle)
    update(
        row,
        [
            Catalog.pushed.add(1),
            Catalog.updated_at.set(clock.now()),
            Catalog.resend_at.remove(),
            Catalog.resends.remove(),
        ],
    )
    assert row.pushed is not None
    return int(row.pushed)


def begin_registration(bundle: str, push: int) -> Catalog | None:
    """Record that a push is being registered; return the row, or None if a newer one has begun."""
    row = Catalog(BUNDLE, bundle)
    is_newest = Catalog.registering.does_not_exist() | (Catalog.registering <= push)
    return row if update_if(row, [Catalog.registering.set(push)], is_newest) else None


def newest_push_check(bundle: str, push: int) -> Check:
    """Return a check that no newer push has begun."""
    return Check(Catalog(BUNDLE, bundle), Catalog.registering == push)


def end_registration(bundle: str, push: int, version: str, *, errors: int) -> None:
    """Record that a push is registered, unless a newer one has begun."""
    actions = [
        Catalog.registered.set(push),
        Catalog.bundle_version.set(version),
        Catalog.updated_at.set(clock.now()),
    ]
    if update_if(Catalog(BUNDLE, bundle), actions, Catalog.registering == push):
        _note_outcome(bundle, push, REGISTERED, errors=errors)


def mark_unreadable(bundle: str, push: int) -> None:
    """Record that a push is unreadable, unless a newer one has begun."""
    actions = [Catalog.unreadable_push.set(push)]
    if update_if(Catalog(BUNDLE, bundle), actions, Catalog.registering == push):
        _note_outcome(bundle, push, UNREADABLE, errors=1)


def note_resend(row: Catalog, *, next_at: DateTime) -> None:
    """Count a resend of the newest push, unless there is a newer one."""
    actions = [Catalog.resend_at.set(next_at), Catalog.resends.add(1)]
    update_if(Catalog(BUNDLE, row.id), actions, Catalog.pushed == row.pushed)


def read_bundle(bundle: str) -> Catalog | None:
    """Return the row of a bundle, or None."""
    try:
        return Catalog.get(BUNDLE, bundle, consistent_read=True)
    except Catalog.DoesNotExist:
        return None


def read_bundles(*, consistent: bool = True) -> Iterator[Catalog]:
    """Yield the row of each bundle."""
    yield from Catalog.query(BUNDLE, consistent_read=consistent)


# Records of the last pushes.


def record_push(
    bundle: str,
    push: int,
    version: str,
    *,
    by: str | None,
    why: str | None,
    origin: Mapping[str, Any],
) -> None:
    """Record who made a push, why and from what, unless a much newer one has its place."""
    texts = ((Catalog.pushed_by, by), (Catalog.why, why))
    actions = [
        Catalog.push.set(push),
        Catalog.bundle_version.set(version),
        Catalog.created_at.set(clock.now()),
        Catalog.origin.set(dict(origin)),
        *(column.remove() if text is None else column.set(text) for column, text in texts),
        *(column.remove() for column in (Catalog.outcome, Catalog.errors, Catalog.updated_at)),
    ]
    is_free = Catalog.push.does_not_exist() | (Catalog.push <= push)
    update_if(_record(bundle, push), actions, is_free)


def _note_outcome(bundle: str, push: int, outcome: str, *, errors: int) -> None:
    """Record what became of a push, if it has a record."""
    actions = [
        Catalog.outcome.set(outcome),
        Catalog.errors.set(errors),
        Catalog.updated_at.set(clock.now()),
    ]
    update_if(_record(bundle, push), actions, Catalog.push == push)


def read_records(bundle: str) -> list[Catalog]:
    """Return the records of the last pushes of a bundle, the newest first."""
    rows = Catalog.query(f"pushes#{bundle}", consistent_read=True)
    return sorted(rows, key=lambda row: -int(row.push or 0))


def _record(bundle: str, push: int) -> Catalog:
    return Catalog(f"pushes#{bundle}", f"{push % RECORDS_KEPT:02}")


# Problems of files.


def read_problems(bundle: str) -> list[Catalog]:
    """Return the rows of a bundle's files with import errors or warnings."""
    return list(Catalog.query(_problems_of(bundle), consistent_read=True))


def problems_row(bundle: str, file: str, **columns: Any) -> Catalog:
    """Return the row with the problems of a file."""
    return Catalog(_problems_of(bundle), file, updated_at=clock.now(), **columns)


def _problems_of(bundle: str) -> str:
    return f"problems#{bundle}"
