"""References: which DAG waits for which assets.

A reference is added before the row of its DAG is written, and removed after it, so that an event
can reach a consumer that does not wait for it any more, but never miss one that does.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter import clock, settings
from lamplighter.assets.condition import AssetCondition, encode_on_ids
from lamplighter.errors import TransientError
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.store.assets import leaf_id, read_assets
from lamplighter.store.dags import change_dag
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.models.assets import CONSUMER, ITSELF
from lamplighter.store.transactions import (
    Change,
    Check,
    Delete,
    Put,
    TransactionCanceled,
    Update,
    Write,
    retry_attempts,
)

# A condition on asset ids: one id, or {"all": […]}, or {"any": […]}.
Compiled = Any


def compile_condition(condition: AssetCondition) -> Compiled:
    """Return a condition on the ids of assets, as a DAG's row has it; None if there is none."""
    return encode_on_ids(condition, leaf_id)


def add_consumers(wanted: Mapping[str, Iterable[str]], source: Source) -> None:
    """Make DAGs, given as {dag id: asset ids}, consumers of assets.

    A new consumer begins with the events that are recorded after this.
    """
    by_asset: dict[str, list[str]] = defaultdict(list)
    for dag_id, assets in wanted.items():
        for asset in set(assets):
            by_asset[asset].append(dag_id)
    keys = [(asset, f"{CONSUMER}{dag_id}") for asset, ids in by_asset.items() for dag_id in ids]
    there = {(row.asset_id, row.ref) for row in Assets.batch_get(keys, consistent_read=True)}
    together = (settings.current().transaction_actions - 2) // 2
    for asset, dag_ids in by_asset.items():
        missing = [dag_id for dag_id in dag_ids if (asset, f"{CONSUMER}{dag_id}") not in there]
        for at in range(0, len(missing), together):
            _change_asset(asset, _additions(asset, missing[at : at + together]), source)


def _additions(asset: str, dag_ids: Sequence[str]) -> Callable[[Assets], list[Write]]:
    def writes(row: Assets) -> list[Write]:
        now, seq = clock.now(), row.seq or 0
        refs = [Put(Assets(asset, f"{CONSUMER}{dag}", created_at=now)) for dag in dag_ids]
        queue = [Put(AssetQueue(dag, asset, since_seq=seq, consumed_seq=seq)) for dag in dag_ids]
        return [*refs, *queue]

    return writes


def begin_now(dag_id: str, assets: AbstractSet[str]) -> list[Write]:
    """Return the writes that let a DAG wait for assets from the transaction on that they are in.

    For conditions on streams that share events: one that came between the reference and the row may
    have been consumed under another name.
    """
    newest = read_assets(assets)
    rows = AssetQueue.batch_get([(dag_id, asset) for asset in assets], consistent_read=True)
    writes: list[Write] = [Check(asset, Assets.seq == asset.seq) for asset in newest.values()]
    for row in rows:
        row.since_seq = row.consumed_seq = newest[row.asset_id].seq
        writes += [Change(row, ("consumed_seq",))] if row.is_changed else []
    return writes


def drop_consumers(dag_id: str, keep: AbstractSet[str], source: Source) -> None:
    """Let a DAG wait for no other assets than those to keep."""
    for row in list(AssetQueue.query(dag_id, consistent_read=True)):
        if row.asset_id not in keep:
            _change_asset(row.asset_id, _removals(row), source)

    def change(row: Dags) -> list[Write]:
        row.referenced_assets = set(keep) or None
        return [bundles.is_newest(source)]

    try:
        change_dag(dag_id, change)
    except TransactionCanceled as cancelled:
        bundles.require_newest(source, cancelled)
        raise


def _removals(row: AssetQueue) -> Callable[[Assets], list[Write]]:
    ref = Assets(row.asset_id, f"{CONSUMER}{row.dag_id}")
    return lambda _: [Delete(ref), Delete(row)]


def _change_asset(asset: str, writes: Callable[[Assets], Sequence[Write]], source: Source) -> None:
    """Change references, if no event is recorded meanwhile that would go by the old ones."""
    for _ in retry_attempts():
        row = Assets.get(asset, ITSELF, consistent_read=True)
        seen_seq, seen_rev = row.seq or 0, row.refs_rev or 0
        unchanged = (Assets.seq == seen_seq) & (Assets.refs_rev == seen_rev)
        own = Update(row, [Assets.refs_rev.set(seen_rev + 1)], unchanged)
        try:
            bundles.write(source, [*writes(row), own])
        except TransactionCanceled:
            continue
        return
    raise TransientError(f"asset {asset!r} is too busy to change who waits for it")
