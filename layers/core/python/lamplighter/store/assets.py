"""Rows of assets, aliases and URIs, of their events and of their consumers."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pendulum import DateTime
from pynamodb.exceptions import PynamoDBException
from pynamodb.transactions import TransactGet

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset, AssetAlias, AssetRef
from lamplighter.assets.condition import AssetLeaf
from lamplighter.errors import TransientError
from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.store import wire
from lamplighter.store.models import AssetEvents, AssetQueue, Assets
from lamplighter.store.models.assets import CONSUMER, ITSELF, REJECTED
from lamplighter.store.rows import Malformed, connection
from lamplighter.store.transactions import (
    Delete,
    Put,
    TransactionCanceled,
    delete_if,
    pack,
    retry_attempts,
    transact_with_retry,
    update_if,
)

_THREADS = 8


def leaf_id(leaf: AssetLeaf) -> str:
    """Return the asset id of a leaf of a condition."""
    match leaf:
        case AssetAlias(name=name):
            return alias_id(name)
        case AssetRef(name=None, uri=str(uri)):
            return uri_id(uri)
        case Asset(name=name) | AssetRef(name=str(name)):
            return asset_id(name)
    raise TypeError(leaf)


def new_rows(leaf: AssetLeaf) -> list[Assets]:
    """Return the rows of a leaf: its own and, for an asset with a URI, the URI's."""
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
    """Store missing rows; a unit is left out if one of its rows exists."""
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
    """Return the rows that exist; ids of malformed ones are added to `malformed`."""
    keys = [(key, ITSELF) for key in dict.fromkeys(asset_ids)]
    bad: list[Malformed] = []
    try:
        rows = Assets.batch_get(keys, consistent_read=True, malformed=bad)
        found = {row.asset_id: row for row in rows}
    except PynamoDBException as error:
        raise TransientError(f"assets cannot be read: {error}") from error
    if malformed is not None:
        malformed.update(key[0] for key, _ in bad)
    return found


def read_asset(asset_id: str) -> Assets:
    """Return the row of an asset, alias or URI, which must exist."""
    return Assets.get(asset_id, ITSELF, consistent_read=True)


def read_assets_at_one_moment(asset_ids: Collection[str]) -> dict[str, Assets]:
    """Return the rows that exist, read in one transaction.

    An event that came through an alias is recorded there and under its asset at once; a consumer of
    both must see it in both or in neither.
    """
    failure: Exception | None = None
    for _ in retry_attempts():
        try:
            with TransactGet(connection=connection()) as reading:
                found = [reading.get(Assets, key, ITSELF) for key in asset_ids]
            return {row.asset_id: row for future in found if (row := _or_none(future)) is not None}
        except PynamoDBException as error:  # one of them is being written
            failure = error
    raise TransientError(f"assets {sorted(asset_ids)} are contended") from failure


def _or_none(future: Any) -> Assets | None:
    try:
        row: Assets = future.get()
    except Assets.DoesNotExist:
        return None
    return row


def open_assets(shard: int, until: DateTime) -> Iterator[str]:
    """Yield the open assets of one shard, oldest first."""
    items = wire.query_shard(Assets, "open", ("open_shard", "open_since"), shard, until)
    return (item["asset_id"]["S"] for item in items)


def consumers_of(asset_id: str) -> Iterator[str]:
    """Yield the ids of the DAGs that consume an asset."""
    items = wire.query(
        Assets,
        ConsistentRead=True,
        KeyConditionExpression="asset_id = :asset AND begins_with(#ref, :consumer)",
        ProjectionExpression="#ref",
        ExpressionAttributeNames={"#ref": "ref"},
        ExpressionAttributeValues={":asset": {"S": asset_id}, ":consumer": {"S": CONSUMER}},
    )
    return (item["ref"]["S"].removeprefix(CONSUMER) for item in items)


def all_consumers_of(asset_ids: Sequence[str]) -> list[list[str]]:
    """Return the consumers of each asset, with one request per asset in parallel."""
    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(lambda asset: list(consumers_of(asset)), asset_ids))


def all_asset_ids() -> list[str]:
    """Return the ids of all assets, aliases and URIs."""
    rows = Assets.scan(Assets.ref == ITSELF, attributes_to_get=["asset_id"])
    return [row.asset_id for row in rows]


def read_asset_queue(
    keys: Iterable[tuple[str, str]], *, malformed: list[Malformed] | None = None
) -> list[AssetQueue]:
    """Return how far DAGs have consumed assets, by (DAG id, asset id)."""
    return list(AssetQueue.batch_get(keys, consistent_read=True, malformed=malformed))


def asset_queue_of(dag_id: str) -> list[AssetQueue]:
    """Return how far a DAG has consumed each of its assets."""
    return list(AssetQueue.query(dag_id, consistent_read=True))


def read_references(pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the (asset, DAG) pairs that exist: the DAG is a consumer of the asset."""
    keys = [(asset, f"{CONSUMER}{dag_id}") for asset, dag_id in pairs]
    rows = Assets.batch_get(keys, consistent_read=True)
    return {(row.asset_id, row.ref.removeprefix(CONSUMER)) for row in rows}


def new_reference(asset: str, dag_id: str, *, seq: int) -> list[Put]:
    """Return the writes that make a DAG a consumer of an asset's events after `seq`."""
    return [
        Put(Assets(asset, f"{CONSUMER}{dag_id}", created_at=clock.now())),
        Put(AssetQueue(dag_id, asset, since_seq=seq, consumed_seq=seq)),
    ]


def delete_reference(asset: str, dag_id: str) -> list[Delete]:
    """Return the writes that remove a DAG from the consumers of an asset."""
    return [Delete(Assets(asset, f"{CONSUMER}{dag_id}")), Delete(AssetQueue(dag_id, asset))]


# Events.


def read_asset_events(keys: Iterable[tuple[str, str]]) -> list[AssetEvents]:
    """Return the events that exist, by (asset id, event id)."""
    return list(AssetEvents.batch_get(keys, consistent_read=True))


def events_between(asset_id: str, *, after: int, until: int) -> list[AssetEvents]:
    """Return the events of an asset with `after` < `seq` <= `until`."""
    return list(AssetEvents.by_seq.query(asset_id, AssetEvents.seq.between(after + 1, until)))


def save_rejections(reasons: Mapping[str, str]) -> None:
    """Store why events were rejected, by event id."""
    now = clock.now()
    expires_at = now.add(days=settings.current().event_retention_days)
    with AssetEvents.batch_write() as batch:
        for event_id, reason in reasons.items():
            batch.save(
                AssetEvents(
                    REJECTED,
                    event_id,
                    timestamp=now,
                    recorded_at=now,
                    rejected=reason,
                    expires_at=expires_at,
                )
            )


def delete_unnumbered_event(asset_id: str, event_id: str, message: str) -> None:
    """Delete an event that has no number yet, if this is its message."""
    delete_if(AssetEvents(asset_id, event_id), _waits_with(message))


def reject_unnumbered_event(asset_id: str, event_id: str, message: str, reason: str) -> None:
    """Have an event with this message not sent again, unless it has a number."""
    columns = AssetEvents.pending_shard, AssetEvents.send_at
    actions = [AssetEvents.rejected.set(reason), *(column.remove() for column in columns)]
    update_if(AssetEvents(asset_id, event_id), actions, _waits_with(message))


def _waits_with(message: str) -> Any:
    return AssetEvents.seq.does_not_exist() & (AssetEvents.message == message)


def note_conflict(asset_id: str, event_id: str, conflict: Mapping[str, Any]) -> None:
    """Note on a recorded event that another one came with its id."""
    row = AssetEvents(asset_id, event_id)
    update_if(row, [AssetEvents.conflict.set(dict(conflict))], AssetEvents.seq.exists())


def pending_events(shard: int, until: DateTime) -> Iterator[tuple[str, str]]:
    """Yield the keys of one shard's unnumbered events that are due to be sent again."""
    items = wire.query_shard(AssetEvents, "pending", ("pending_shard", "send_at"), shard, until)
    return ((item["asset_id"]["S"], item["event_id"]["S"]) for item in items)


def recent_events(asset_ids: Sequence[str], *, limit: int) -> list[AssetEvents]:
    """Return the newest events of assets, with one request per asset in parallel."""

    def read(asset_id: str) -> list[AssetEvents]:
        return list(AssetEvents.by_seq.query(asset_id, scan_index_forward=False, limit=limit))

    with ThreadPoolExecutor(_THREADS) as threads:
        found = [event for some in threads.map(read, asset_ids) for event in some]
    return sorted(found, key=lambda event: (event.recorded_at, event.seq), reverse=True)[:limit]


def read_unsent_events(keys: Iterable[tuple[str, str]]) -> list[AssetEvents]:
    """Return the events that still have no number."""
    return [row for row in read_asset_events(keys) if row.pending_shard is not None]


def send_event_later(row: AssetEvents, at: DateTime) -> None:
    """Schedule an event to be sent again, unless it has a number by then."""
    is_pending = AssetEvents.pending_shard.exists() & AssetEvents.seq.does_not_exist()
    update_if(row, [AssetEvents.send_at.set(at)], is_pending)


# Listings.


def assets_and_consumers() -> tuple[list[Assets], Counter[str]]:
    """Return all assets, aliases and URIs, and the number of consumers of each by id."""
    rows = list(Assets.scan())
    consumers = Counter(row.asset_id for row in rows if row.ref.startswith(CONSUMER))
    return [row for row in rows if row.ref == ITSELF], consumers


def all_asset_names() -> set[str]:
    """Return the names and URIs of all assets and aliases."""
    known = Assets.scan(Assets.ref == ITSELF, attributes_to_get=["name", "uri"])
    return {text for each in known for text in (each.name, each.uri) if text}


def assets_of_kind(kind: str) -> list[Assets]:
    """Return the assets, the aliases or the URIs."""
    return list(Assets.scan(Assets.kind == kind))


def last_updated_assets(*, limit: int) -> list[Assets]:
    """Return the most recently updated assets, newest first."""
    # URIs and aliases only have copies, unless no asset has the URI.
    found = Assets.scan((Assets.ref == ITSELF) & (Assets.seq > 0) & Assets.target.does_not_exist())
    dated = [(row.recorded_at, row) for row in found if row.kind != "alias"]
    updated = [(at, row) for at, row in dated if at is not None]
    return [row for _, row in sorted(updated, key=lambda pair: pair[0], reverse=True)][:limit]
