"""Rows of bundles: push numbers, and problems of their files.

Owns: the Catalog kinds about bundles. Pushes are numbered, and an older one never replaces a newer.
"""

from collections.abc import Iterator
from typing import Any

from pendulum import DateTime

from lamplighter import clock
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import Check, update, update_if

BUNDLE = "bundle"


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


def end_registration(bundle: str, push: int, version: str) -> None:
    """Record that a push is registered, unless a newer one has begun."""
    actions = [
        Catalog.registered.set(push),
        Catalog.bundle_version.set(version),
        Catalog.updated_at.set(clock.now()),
    ]
    update_if(Catalog(BUNDLE, bundle), actions, Catalog.registering == push)


def mark_unreadable(bundle: str, push: int) -> None:
    """Record that a push is unreadable, unless a newer one has begun."""
    actions = [Catalog.unreadable_push.set(push)]
    update_if(Catalog(BUNDLE, bundle), actions, Catalog.registering == push)


def note_resend(row: Catalog, *, next_at: DateTime) -> None:
    """Count a resend of the newest push, unless there is a newer one."""
    actions = [Catalog.resend_at.set(next_at), Catalog.resends.add(1)]
    update_if(Catalog(BUNDLE, row.id), actions, Catalog.pushed == row.pushed)


def read_bundles(*, consistent: bool = True) -> Iterator[Catalog]:
    """Yield the row of each bundle."""
    yield from Catalog.query(BUNDLE, consistent_read=consistent)


# Problems of files.


def read_problems(bundle: str) -> list[Catalog]:
    """Return the rows of a bundle's files with import errors or warnings."""
    return list(Catalog.query(_problems_of(bundle), consistent_read=True))


def problems_row(bundle: str, file: str, **columns: Any) -> Catalog:
    """Return the row with the problems of a file."""
    return Catalog(_problems_of(bundle), file, updated_at=clock.now(), **columns)


def _problems_of(bundle: str) -> str:
    return f"problems#{bundle}"
