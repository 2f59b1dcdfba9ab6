"""Bundles and the numbers of their pushes: an older push never follows a newer one."""

import json
from collections.abc import Sequence

from lamplighter import aws, clock, settings
from lamplighter.errors import RefusedError
from lamplighter.registry.definition import Source
from lamplighter.store.models import Catalog
from lamplighter.store.transactions import (
    Cause,
    Check,
    TransactionCanceled,
    Write,
    transact_with_retry,
    update,
    update_if,
)

KIND = "bundle"
_PUSHES = "pushes"


def number(bundle: str) -> int:
    """Return the number of a new push."""
    row = Catalog(KIND, bundle)
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


def begin(source: Source) -> bool:
    """Note that a push is being registered, or refuse it if a newer one is or was.

    Returns whether all pushes before it came to their end, and so left nothing half done.
    """
    row = Catalog(KIND, source.bundle)
    is_newest = Catalog.registering.does_not_exist() | (Catalog.registering <= source.push)
    if not update_if(row, [Catalog.registering.set(source.push)], is_newest):
        raise _overtaken(source)
    return int(row.registered or 0) >= source.push - 1


def is_newest(source: Source) -> Check:
    """Return the write that lets others through only while no newer push has begun."""
    return Check(Catalog(KIND, source.bundle), Catalog.registering == source.push)


def write(source: Source, writes: Sequence[Write]) -> None:
    """Write all on behalf of a push, or refuse because a newer one has begun."""
    try:
        transact_with_retry([is_newest(source), *writes])
    except TransactionCanceled as cancelled:
        require_newest(source, cancelled)
        raise


def require_newest(source: Source, cancelled: TransactionCanceled) -> None:
    """Refuse the push if that is why a transaction that began with `is_newest` was cancelled."""
    if cancelled.reasons[0].cause is Cause.CONDITION_FAILED:
        raise _overtaken(source)


def _overtaken(source: Source) -> RefusedError:
    return RefusedError(
        f"push {source.push} of bundle {source.bundle!r} is older than what is registered"
    )


def end(source: Source) -> None:
    """Note that a push is registered."""
    actions = [
        Catalog.registered.set(source.push),
        Catalog.bundle_version.set(source.version),
        Catalog.updated_at.set(clock.now()),
    ]
    update_if(Catalog(KIND, source.bundle), actions, Catalog.registering == source.push)


def end_unread(source: Source) -> None:
    """Note that nothing of a push could be read, and that nobody needs to try again.

    It is not noted as registered: the push after it must know of one before that died half-way.
    """
    actions = [Catalog.unreadable_push.set(source.push)]
    update_if(Catalog(KIND, source.bundle), actions, Catalog.registering == source.push)


# A push is announced by a small object of its own: its arrival wakes `register`, and the archive,
# which is named by its content, is never overwritten.


def announce(source: Source) -> None:
    """Put the object that announces a push."""
    aws.client("s3").put_object(
        Bucket=settings.current().require("bucket"),
        Key=announcement_key(source.bundle, source.push),
        Body=json.dumps({"version": source.version, "skip_owed": source.skip_owed}).encode(),
        ContentType="application/json",
    )


def announcement_prefix(bundle: str) -> str:
    """Return what the keys of the objects begin with that announce pushes of a bundle."""
    return f"{_PUSHES}/{bundle}/"


def announcement_key(bundle: str, push: int) -> str:
    """Return the key of the object that announces a push; they sort by number."""
    return f"{announcement_prefix(bundle)}{push:08}.json"


def read_announcement(bucket: str, key: str) -> Source:
    """Return the push that an object announces."""
    _, bundle, name = key.split("/")
    data = json.loads(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read())
    number = int(name.removesuffix(".json"))
    return Source(bundle, data["version"], number, skip_owed=bool(data.get("skip_owed")))
