"""Assets that DAGs name, and the references that make a DAG their consumer.

A reference is added before the row of its DAG is written, and removed after it, so that an event
can reach a consumer that does not wait for it any more, but never miss one that does.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset, AssetAlias, AssetRef
from lamplighter.assets.condition import AssetAll, AssetAny, AssetCondition, AssetLeaf
from lamplighter.dags.dag import DAG
from lamplighter.errors import TransientError
from lamplighter.identifiers import asset_id
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.transactions import (
    Cancelled,
    Delete,
    Put,
    Update,
    Write,
    change_dag,
    pauses,
)

_CONSUMER = "dag#"
_DESCRIPTION = ("name", "uri", "group", "extra")

# A condition on asset ids: one id, or {"all": […]}, or {"any": […]}.
Compiled = Any


# Which asset is meant.


def _uri_row_id(uri: str) -> str:
    # A colon is in no asset's id, so these rows cannot be mistaken for assets.
    return f"uri:{hashlib.sha256(uri.encode()).hexdigest()[:32]}"


def _leaf_id(leaf: AssetLeaf, targets: Mapping[str, str]) -> str:
    match leaf:
        case AssetAlias(name=name):
            return f"alias:{asset_id(name)}"
        case AssetRef(name=None, uri=str(uri)):
            return targets.get(_uri_row_id(uri), asset_id(uri))
        case Asset(name=name) | AssetRef(name=str(name)):
            return asset_id(name)
    raise TypeError(leaf)


def compile_condition(condition: AssetCondition, targets: Mapping[str, str]) -> Compiled:
    """Return a condition on the ids of assets, as a DAG's row has it; None if there is none."""
    match condition:
        case AssetAll(objects=objects):
            return {"all": [compile_condition(item, targets) for item in objects]}
        case AssetAny(objects=objects):
            return {"any": [compile_condition(item, targets) for item in objects]}
        case AssetLeaf():
            return _leaf_id(condition, targets)
    return None


# The rows of assets.


def register_assets(dags: Sequence[DAG], source: Source) -> dict[str, str]:
    """Let every asset that a DAG waits for, reads or produces have its row.

    Returns where the URIs lead that are references' only name of an asset.
    """
    leaves = [leaf for dag in dags for leaf in _named(dag)]
    # A definition says more about an asset than a reference by name does, and comes last.
    leaves.sort(key=lambda leaf: isinstance(leaf, Asset))
    _put({row.asset_id: row for leaf in leaves for row in _rows_of(leaf)}, source)
    uris = {leaf.uri for leaf in leaves if isinstance(leaf, AssetRef) and leaf.uri is not None}
    found = Assets.batch_get([(_uri_row_id(uri), ITSELF) for uri in uris], consistent_read=True)
    targets = {row.asset_id: row.target for row in found if row.target is not None}
    # A URI that no asset has yet is an asset of that name until one comes.
    unknown = [
        _asset_row(asset_id(uri), name=uri, uri=uri)
        for uri in uris
        if _uri_row_id(uri) not in targets
    ]
    _put({row.asset_id: row for row in unknown}, source)
    return targets


def _named(dag: DAG) -> Iterator[AssetLeaf]:
    yield from dag.timetable.asset_condition.leaves()
    for task in dag.tasks.values():
        yield from (*task.inlets, *task.outlets)


def _rows_of(leaf: AssetLeaf) -> Iterator[Assets]:
    name = _leaf_id(leaf, {})
    match leaf:
        case Asset():
            extra = leaf.extra or None
            yield _asset_row(name, name=leaf.name, uri=leaf.uri, group=leaf.group, extra=extra)
            yield Assets(
                _uri_row_id(leaf.uri),
                ITSELF,
                kind="uri",
                uri=leaf.uri,
                target=name,
                created_at=clock.now(),
            )
        case AssetAlias():
            yield _asset_row(name, kind="alias", name=leaf.name)
        case AssetRef(name=str()):
            yield _asset_row(name, name=leaf.name)


def _asset_row(key: str, *, kind: str = "asset", **columns: Any) -> Assets:
    return Assets(key, ITSELF, kind=kind, seq=0, refs_rev=0, created_at=clock.now(), **columns)


def _put(wanted: Mapping[str, Assets], source: Source) -> None:
    """Store rows that are missing, and what definitions say anew about those that are not."""
    keys = [(row.asset_id, ITSELF) for row in wanted.values()]
    found = {row.asset_id: row for row in Assets.batch_get(keys, consistent_read=True)}
    missing: list[Write] = [Put(row) for name, row in wanted.items() if name not in found]
    size = settings.current().transaction_actions - 1
    for at in range(0, len(missing), size):
        _put_each_once(missing[at : at + size], source)
    for name, row in found.items():
        said = {column: getattr(wanted[name], column) for column in _DESCRIPTION}
        news = {
            column: value
            for column, value in said.items()
            if value is not None and value != getattr(row, column)
        }
        if news:
            actions = [getattr(Assets, column).set(value) for column, value in news.items()]
            bundles.write(source, [Update(row, actions, Assets.asset_id.exists())])


def _put_each_once(writes: Sequence[Write], source: Source) -> None:
    try:
        bundles.write(source, writes)
    except Cancelled:
        if len(writes) > 1:
            for write in writes:
                _put_each_once([write], source)
        # Else it is there: another registration was faster, which is as good.


# Consumers.


def add_consumers(wanted: Mapping[str, Iterable[str]], source: Source) -> None:
    """Make DAGs, given as {dag id: asset ids}, consumers of assets.

    A new consumer begins with the events that are recorded after this.
    """
    by_asset: dict[str, list[str]] = defaultdict(list)
    for dag_id, assets in wanted.items():
        for asset in set(assets):
            by_asset[asset].append(dag_id)
    keys = [(asset, f"{_CONSUMER}{dag_id}") for asset, ids in by_asset.items() for dag_id in ids]
    there = {(row.asset_id, row.ref) for row in Assets.batch_get(keys, consistent_read=True)}
    together = (settings.current().transaction_actions - 2) // 2
    for asset, dag_ids in by_asset.items():
        missing = [dag_id for dag_id in dag_ids if (asset, f"{_CONSUMER}{dag_id}") not in there]
        for at in range(0, len(missing), together):
            _change_asset(asset, _additions(asset, missing[at : at + together]), source)


def _additions(asset: str, dag_ids: Sequence[str]) -> Callable[[Assets], list[Write]]:
    def writes(row: Assets) -> list[Write]:
        now, seq = clock.now(), row.seq or 0
        refs = [Put(Assets(asset, f"{_CONSUMER}{dag}", created_at=now)) for dag in dag_ids]
        queue = [Put(AssetQueue(dag, asset, last_seq=seq, consumed_seq=seq)) for dag in dag_ids]
        return [*refs, *queue]

    return writes


def drop_consumers(dag_id: str, keep: AbstractSet[str], source: Source) -> None:
    """Let a DAG wait for no other assets than those to keep."""
    for row in list(AssetQueue.query(dag_id, consistent_read=True)):
        if row.asset_id not in keep:
            _change_asset(row.asset_id, _removals(row), source)

    def change(row: Dags) -> list[Write]:
        row.asset_refs = set(keep) or None
        return [bundles.is_newest(source)]

    try:
        change_dag(dag_id, change)
    except Cancelled as cancelled:
        bundles.require_newest(source, cancelled)
        raise


def _removals(row: AssetQueue) -> Callable[[Assets], list[Write]]:
    ref = Assets(row.asset_id, f"{_CONSUMER}{row.dag_id}")
    return lambda _: [Delete(ref), Delete(row)]


def _change_asset(asset: str, writes: Callable[[Assets], Sequence[Write]], source: Source) -> None:
    """Change references, if no event is recorded meanwhile that would go by the old ones."""
    for _ in pauses():
        row = Assets.get(asset, ITSELF, consistent_read=True)
        seen_seq, seen_rev = row.seq or 0, row.refs_rev or 0
        unchanged = (Assets.seq == seen_seq) & (Assets.refs_rev == seen_rev)
        own = Update(row, [Assets.refs_rev.set(seen_rev + 1)], unchanged)
        try:
            bundles.write(source, [*writes(row), own])
        except Cancelled:
            continue
        return
    raise TransientError(f"asset {asset!r} is too busy to change who waits for it")
