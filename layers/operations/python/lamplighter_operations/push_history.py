"""The last pushes of a bundle: who made them, why, from what, and what became of them.

Owns: what is said of a push whose record is older than its outcome, or missing.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.store import bundles
from lamplighter.store.bundles import RECORDS_KEPT, REGISTERED, UNREADABLE
from lamplighter.store.dags import dags_in_use
from lamplighter_operations import bundle_objects
from lamplighter_operations.bundle_objects import Changes
from lamplighter_operations.push_notes import FROM_FILES, Origin, deployment_name

if TYPE_CHECKING:
    from lamplighter.store.models import Catalog

ANNOUNCED = "announced"
REGISTERING = "registering"
SUPERSEDED = "superseded"
_IN_WORDS = {
    ANNOUNCED: "is not registered yet",
    REGISTERING: "is being registered",
    SUPERSEDED: "was never registered, because a newer push came first",
    UNREADABLE: "could not be read",
}


@dataclass(frozen=True, kw_only=True)
class PushRecord:
    """One push of a bundle."""

    bundle: str
    push: int
    # "registered", "unreadable", "announced", "registering" or "superseded".
    state: str
    # Whether its DAGs are those in force.
    is_current: bool
    version: str | None
    pushed_at: DateTime | None = None
    pushed_by: str | None = None
    why: str | None = None
    origin: Origin = FROM_FILES
    # Import errors when it was registered; None if it is not known.
    errors: int | None = None

    @property
    def problem(self) -> str:
        """Why it cannot be pushed again, as the end of a sentence."""
        return _IN_WORDS[self.state]


@dataclass(frozen=True, kw_only=True)
class BundleHistory:
    """A bundle in one deployment, and its last pushes, the newest first."""

    bundle: str
    # The newest number that was given away.
    newest: int
    pushes: Sequence[PushRecord]

    @property
    def current(self) -> PushRecord | None:
        """The push whose DAGs are in force."""
        return next((push for push in self.pushes if push.is_current), None)

    def find(self, number: int) -> PushRecord:
        """Return a push by its number."""
        for push in self.pushes:
            if push.push == number:
                return push
        kept = ", ".join(str(push.push) for push in reversed(self.pushes)) or "none"
        raise RefusedError(
            f"there is no record of push {number} of bundle {self.bundle!r} in"
            f" {deployment_name()} (the last {RECORDS_KEPT} are kept: {kept})"
        )

    def before(self, number: int) -> PushRecord | None:
        """Return the push that was registered before another one."""
        return next((each for each in self._registered if each.push < number), None)

    def before_current(self) -> PushRecord | None:
        """Return the newest push before the current one that had another archive."""
        now = self.current
        if now is None:
            return None
        earlier = (each for each in self._registered if each.push < now.push)
        return next((each for each in earlier if each.version != now.version), None)

    @property
    def _registered(self) -> Iterator[PushRecord]:
        return (push for push in self.pushes if push.state == REGISTERED)


def find_history(bundle: str) -> BundleHistory | None:
    """Return a bundle with its last pushes, or None if it was never pushed."""
    row = bundles.read_bundle(bundle)
    return None if row is None else _history(row)


def read_history(bundle: str) -> BundleHistory:
    """Return a bundle with its last pushes; refuse one that was never pushed."""
    found = find_history(bundle)
    if found is None:
        raise RefusedError(f"there is no bundle {bundle!r} in {deployment_name()}{_hint(bundle)}")
    return found


def _hint(bundle: str) -> str:
    known = sorted(row.id for row in bundles.read_bundles(consistent=False))
    near = difflib.get_close_matches(bundle, known, n=3, cutoff=0.5) or known[:5]
    return f": there is {', '.join(near)}" if near else ": push one first"


def all_histories() -> list[BundleHistory]:
    """Return all bundles by name, with their last pushes."""
    return [_history(row) for row in bundles.read_bundles()]


def _history(row: "Catalog") -> BundleHistory:
    records = [_view(record, row) for record in bundles.read_records(row.id)]
    registered = int(row.registered or 0)
    if registered and all(record.push != registered for record in records):
        records.append(_without_record(row, registered))
        records.sort(key=lambda record: -record.push)
    return BundleHistory(bundle=row.id, newest=int(row.pushed or 0), pushes=records)


def _without_record(row: "Catalog", number: int) -> PushRecord:
    """Return the current push of a bundle that was pushed before there were records."""
    return PushRecord(
        bundle=row.id, push=number, state=REGISTERED, is_current=True, version=row.bundle_version
    )


def _view(record: "Catalog", row: "Catalog") -> PushRecord:
    number = int(record.push or 0)
    return PushRecord(
        bundle=row.id,
        push=number,
        state=_state(record, row),
        is_current=number == int(row.registered or 0),
        version=record.bundle_version,
        pushed_at=record.created_at,
        pushed_by=record.pushed_by,
        why=record.why,
        origin=Origin.from_json(record.origin),
        errors=None if record.errors is None else int(record.errors),
    )


def _state(record: "Catalog", row: "Catalog") -> str:
    number, begun = int(record.push or 0), int(row.registering or 0)
    if record.outcome is not None:
        return str(record.outcome)
    if number == int(row.registered or 0):
        return REGISTERED
    if number < begun:
        return SUPERSEDED
    return REGISTERING if number == begun else ANNOUNCED


# What a bundle has now.


def dags_by_bundle() -> dict[str, list[str]]:
    """Return the ids of all DAGs in use by bundle."""
    found: dict[str, list[str]] = {}
    for row in sorted(dags_in_use(), key=lambda row: str(row.dag_id)):
        found.setdefault(row.bundle, []).append(row.dag_id)
    return found


def count_files_with_errors(bundle: str) -> int:
    """Return how many files of a bundle have import errors now."""
    return sum(bool(row.has_errors) for row in bundles.read_problems(bundle))


def changes_of(history: BundleHistory, push: PushRecord) -> Changes | None:
    """Return what differs between a push and the one registered before it; None if not known."""
    before = history.before(push.push)
    if before is None or before.version is None or push.version is None:
        return None
    manifests = [
        bundle_objects.read_manifest(history.bundle, version)
        for version in (before.version, push.version)
    ]
    older, newer = manifests
    if older is None or newer is None:
        return None
    return bundle_objects.changes_between(older, newer)
