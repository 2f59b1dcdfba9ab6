"""The rows of assets, aliases and URIs: how they begin, and how far their events have come."""

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pynamodb.exceptions import PynamoDBException
from pynamodb.transactions import TransactGet

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset, AssetAlias, AssetRef
from lamplighter.assets.condition import AssetLeaf
from lamplighter.errors import TransientError
from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.store.models import Assets
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.rows import Malformed, connection
from lamplighter.store.transactions import TransactionCanceled, Put, pack, transact_with_retry, retry_attempts


def leaf_id(leaf: AssetLeaf) -> str:
    """Return the id of what a condition waits for."""
    match leaf:
        case AssetAlias(name=name):
            return alias_id(name)
        case AssetRef(name=None, uri=str(uri)):
            return uri_id(uri)
        case Asset(name=name) | AssetRef(name=str(name)):
            return asset_id(name)
    raise TypeError(leaf)


def new_rows(leaf: AssetLeaf) -> list[Assets]:
    """Return the rows that a leaf needs: its own and, of an asset with a URI, the URI's."""
    key = leaf_id(leaf)
    match leaf:
        case Asset():
            extra = leaf.extra or None
            own = _row(key, "asset", name=leaf.name, uri=leaf.uri, group=leaf.group, extra=extra)
            return [own, _row(uri_id(leaf.uri), "uri", uri=leaf.uri, target=key)]
        case AssetRef(uri=str(uri)):
            return [_row(key, "uri", uri=uri)]
        case AssetAlias(name=name):
            return [_row(key, "alias", name=name)]
        case AssetRef(name=name):
            return [_row(key, "asset", name=name)]
    raise TypeError(leaf)


def _row(key: str, kind: str, **columns: Any) -> Assets:
    return Assets(key, ITSELF, kind=kind, seq=0, refs_rev=0, created_at=clock.now(), **columns)


def put_missing(units: Sequence[Sequence[Assets]]) -> None:
    """Store rows where there are none, those of a unit together or not at all.

    A unit of which someone else has stored a row is left to them.
    """
    for some in pack(units, (len, settings.current().transaction_actions)):
        try:
            transact_with_retry([Put(row) for unit in some for row in unit])
        except TransactionCanceled:
            for unit in some:
                with suppress(TransactionCanceled):
                    transact_with_retry([Put(row) for row in unit])


def read_assets(
    asset_ids: Iterable[str], *, malformed: set[str] | None = None
) -> dict[str, Assets]:
    """Return the rows that exist, each as it is now; ids of others are added to `malformed`."""
    keys = [(key, ITSELF) for key in dict.fromkeys(asset_ids)]
    bad: list[Malformed] = []
    try:
        rows = Assets.batch_get(keys, consistent_read=True, malformed=bad)
        found = {row.asset_id: row for row in rows}
    except PynamoDBException as error:
        raise TransientError(f"assets cannot be read now: {error}") from error
    if malformed is not None:
        malformed.update(key[0] for key, _ in bad)
    return found


def read_assets_at_one_moment(asset_ids: Collection[str]) -> dict[str, Assets]:
    """Return the rows that exist as they are together at one moment.

    An event that came through an alias is recorded there and under its asset at once; whoever waits
    for both must see it in both or in neither.
    """
    failure: Exception | None = None
    for _ in retry_attempts():
        try:
            with TransactGet(connection=connection()) as reading:
                found = [reading.get(Assets, key, ITSELF) for key in asset_ids]
            return {row.asset_id: row for future in found if (row := _or_none(future)) is not None}
        except PynamoDBException as error:  # someone is writing one of them
            failure = error
    raise TransientError(f"assets {sorted(asset_ids)} stayed busy") from failure


def _or_none(future: Any) -> Assets | None:
    try:
        row: Assets = future.get()
    except Assets.DoesNotExist:
        return None
    return row
