"""Pushes an archive again: that of another deployment, or that of an earlier push.

Owns: which push is taken, and that its bytes are what its hash says. What follows is a push like
any other: it takes the next number, and numbers decide when several come at once. Positions of
schedules are left as they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from lamplighter import aws
from lamplighter.bundles.archive import Archive
from lamplighter.errors import RefusedError
from lamplighter.store.bundles import REGISTERED
from lamplighter_operations import bundle_objects
from lamplighter_operations.push_history import (
    BundleHistory,
    PushRecord,
    count_files_with_errors,
    find_history,
    read_history,
)
from lamplighter_operations.push_notes import (
    PROMOTION,
    ROLLBACK,
    Origin,
    caller_arn,
    deployment_name,
)


@dataclass(frozen=True)
class Fetched:
    """The archive of a push, on its way to be pushed again."""

    bundle: str
    version: str
    data: bytes
    origin: Origin
    # Import errors that the push has, or had when it was registered.
    errors: int
    # The newest push of the source, if it is not the one that was taken.
    newer: int | None


@contextmanager
def unpacked(found: Fetched) -> Iterator[tuple[Path, Archive]]:
    """Yield a folder with the verified content of an archive, and the archive with its bytes."""
    with TemporaryDirectory(prefix="lamplighter-") as folder:
        root = Path(folder) / found.bundle
        yield root, bundle_objects.open_verified(found.bundle, found.version, found.data, root)


def fetch_for_promotion(bundle: str, number: int | None = None) -> Fetched:
    """Return the newest registered push of the deployment in force, or the one with a number."""
    history = read_history(bundle)
    push = _registered(history, number)
    arn = caller_arn()
    origin = Origin(
        PROMOTION,
        push.push,
        deployment_name(),
        account=arn.split(":")[4] if arn else None,
        region=aws.client("s3").meta.region_name,
    )
    return _fetch(history, push, origin)


def _registered(history: BundleHistory, number: int | None) -> PushRecord:
    where = f"bundle {history.bundle!r} in {deployment_name()}"
    if number is None and history.current is None:
        newest = next(iter(history.pushes), None)
        seen = f": push {newest.push} {newest.problem}" if newest else ""
        raise RefusedError(f"no push of {where} is registered{seen}")
    push = history.current if number is None else history.find(number)
    assert push is not None
    if push.state != REGISTERED:
        raise RefusedError(
            f"push {push.push} of {where} {push.problem}: `lamplighter bundles show"
            f" {history.bundle}` lists the others"
        )
    return push


def _fetch(history: BundleHistory, push: PushRecord, origin: Origin) -> Fetched:
    assert push.version is not None
    # Errors can come and go after the registration, with timetables for instance.
    errors = count_files_with_errors(history.bundle) if push.is_current else push.errors
    return Fetched(
        history.bundle,
        push.version,
        bundle_objects.read_archive(history.bundle, push.version),
        origin,
        errors or 0,
        history.newest if history.newest > push.push and push.is_current else None,
    )


def fetch_for_rollback(bundle: str, number: int | None = None) -> Fetched:
    """Return the push before the current one, or the one with a number.

    A rollback is not rolled back unless the push is named: otherwise a command that is repeated,
    because its answer was lost, would bring back what was taken away.
    """
    history = read_history(bundle)
    push = _push_before(history) if number is None else _registered(history, number)
    return _fetch(history, push, Origin(ROLLBACK, push.push))


def _push_before(history: BundleHistory) -> PushRecord:
    now = _registered(history, None)
    if now.origin.kind == ROLLBACK:
        raise RefusedError(
            f"push {now.push} of bundle {history.bundle!r} is a rollback to push"
            f" {now.origin.push}: choose another push with --to"
        )
    before = history.before_current()
    if before is None:
        raise RefusedError(
            f"bundle {history.bundle!r} in {deployment_name()} has no push with another archive"
            f" before push {now.push}"
        )
    return before


def require_other_deployment(found: Fetched) -> None:
    """Refuse to promote to the deployment that the archive comes from."""
    origin, region = found.origin, aws.client("s3").meta.region_name
    if (origin.deployment, origin.region) != (deployment_name(), region):
        return
    arn = caller_arn()
    if arn is None or origin.account in {None, arn.split(":")[4]}:
        raise RefusedError(
            f"--from and --to are both {origin.deployment}: use `lamplighter rollback` to push an"
            " earlier archive again"
        )


def current_push_of(found: Fetched) -> int | None:
    """Return the push with which an archive is in force, unless a newer push is on its way."""
    history = find_history(found.bundle)
    now = None if history is None else history.current
    if history is None or now is None or now.version != found.version or history.newest > now.push:
        return None
    return now.push
