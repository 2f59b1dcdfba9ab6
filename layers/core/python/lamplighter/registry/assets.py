"""The assets that DAGs name: their rows, and the references of their consumers.

A URI has a row too. Its target is the asset that was last pushed with it. A DAG may wait for a URI
whichever asset has it, even if none does yet: events of that asset are then recorded under the URI
as well. So the order in which bundles are pushed does not matter.

Owns: the consistency of these rows. A URI's target has that URI, and an asset's events are recorded
under its URI exactly while a DAG waits for the URI. Rows that depend on each other change in one
transaction, so this holds even after crashes and races.

A reference is added before the row of its DAG is written and removed after it: an event may reach a
former consumer, but never misses a current one.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from lamplighter import queues, settings
from lamplighter.assets.asset import Asset, AssetRef, decode_condition
from lamplighter.assets.condition import AssetLeaf
from lamplighter.dags.dag import DAG
from lamplighter.errors import TransientError
from lamplighter.identifiers import uri_id
from lamplighter.loading import author_code_as_data
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.store.assets import (
    asset_queue_of,
    delete_reference,
    leaf_id,
    new_reference,
    new_rows,
    read_asset,
    read_asset_queue,
    read_assets,
    read_references,
)
from lamplighter.store.dags import dags_in_use, newest_documents
from lamplighter.store.models import Assets, Dags
from lamplighter.store.transactions import (
    Change,
    Check,
    Put,
    TransactionCanceled,
    Update,
    Write,
    pack,
    retry_attempts,
)

Rows = Mapping[str, Assets]

_DESCRIPTION = ("name", "uri", "group", "extra")


def register_assets(dags: Sequence[DAG], push: Push) -> None:
    """Store a row for every asset that the DAGs name."""
    leaves = [leaf for dag in dags for leaf in _named(dag)]
    # Leaves with more information about an asset come last.
    leaves.sort(key=lambda leaf: (isinstance(leaf, Asset), not _is_name_only(leaf)))
    named = {leaf_id(leaf): leaf for leaf in leaves}
    found = read_assets(row.asset_id for leaf in named.values() for row in new_rows(leaf))
    named = {key: _or_reference(leaf, found.get(key)) for key, leaf in named.items()}
    wanted = {row.asset_id: row for leaf in named.values() for row in new_rows(leaf)}
    # The last of several assets with the same URI.
    leads = {key: row.target for key, row in wanted.items() if row.target is not None}
    if wanted.keys() - found.keys():
        _put({key: row for key, row in wanted.items() if key not in found}, push)
        found = read_assets(wanted)
    for key, leaf in named.items():
        row = wanted[key]
        if isinstance(leaf, Asset):
            uri = uri_id(leaf.uri)
            is_leading = leads[uri] == key
            if _is_other(found[key], row) or (is_leading and found[uri].target != key):
                _change(partial(_describe, row, is_leading=is_leading), [key, uri], push)
        elif isinstance(leaf, AssetRef) and row.kind == "uri" and not found[key].has_consumers:
            _change(partial(_wait_for, key), [key], push)


def _named(dag: DAG) -> Iterator[AssetLeaf]:
    yield from dag.timetable.asset_condition.leaves()
    for task in dag.tasks.values():
        yield from (*task.inlets, *task.outlets)


def _is_name_only(leaf: AssetLeaf) -> bool:
    """Return whether it is an asset whose URI is derived from its name."""
    return isinstance(leaf, Asset) and leaf.uri == leaf.name and "://" not in leaf.uri


def _or_reference(leaf: AssetLeaf, row: Assets | None) -> AssetLeaf:
    """Return a leaf, or a reference if the asset has a URI that the leaf lacks."""
    if row is None or row.uri is None or not isinstance(leaf, Asset) or not _is_name_only(leaf):
        return leaf
    return leaf if row.uri == leaf.uri else Asset.ref(name=leaf.name)


# New rows.


def _put(missing: Rows, push: Push) -> None:
    room = settings.current().transaction_actions - 1  # one for the check of the push
    for group in pack(_units(missing), (len, room)):
        rows = [row for unit in group for row in unit]
        try:
            pushes.write(push, [Put(row) for row in rows])
        except TransactionCanceled:
            for row in rows:
                row.target = None
                with suppress(TransactionCanceled):  # another registration was faster, just as well
                    pushes.write(push, [Put(row)])


def _units(missing: Rows) -> Iterator[list[Assets]]:
    """Yield rows that must be created together: the target of a URI must exist."""
    for key, row in missing.items():
        if row.kind == "uri" and row.target not in missing:
            row.target = None
            yield [row]
        elif row.kind != "uri":
            uri = missing.get(uri_id(row.uri)) if row.uri is not None else None
            yield [row, uri] if uri is not None and uri.target == key else [row]


# Changed rows.


def _is_other(now: Assets, wanted: Assets) -> bool:
    return any(getattr(now, column) != getattr(wanted, column) for column in _DESCRIPTION)


def _describe(wanted: Assets, rows: Rows, *, is_leading: bool) -> None:
    """Assign a definition to an asset's row, and make it the target of its URI."""
    row = rows[wanted.asset_id]
    if row.uri is not None and row.uri != wanted.uri:
        old = rows.get(uri_id(row.uri))
        if old is not None and old.target == row.asset_id:
            old.target = None
    for column in _DESCRIPTION:
        setattr(row, column, getattr(wanted, column))
    if is_leading:
        rows[uri_id(wanted.uri)].target = row.asset_id


def _wait_for(key: str, rows: Rows) -> None:
    rows[key].has_consumers = True


def _change(change: Callable[[Rows], None], keys: Sequence[str], push: Push) -> None:
    """Change rows and those that they depend on, if all are unchanged."""
    for _ in retry_attempts():
        rows = read_assets(keys)
        rows |= read_assets(_neighbours(rows) - rows.keys())
        change(rows)
        _mirror_uris(rows)
        if not any(row.is_changed for row in rows.values()):
            return
        with suppress(TransactionCanceled):
            pushes.write(push, [_write(row) for row in rows.values()])
            return
    raise TransientError(f"assets {sorted(keys)} are contended; try again")


def _neighbours(rows: Rows) -> set[str]:
    uris = {uri_id(row.uri) for row in rows.values() if row.uri is not None}
    return uris | {row.target for row in rows.values() if row.target is not None}


def _mirror_uris(rows: Rows) -> None:
    """Note on each asset the URIs that have consumers."""
    uris = {key: row for key, row in rows.items() if row.kind == "uri"}
    for row in rows.values():
        if row.kind == "asset":
            own = {key for key, uri in uris.items() if uri.target == row.asset_id}
            waited_for = {key for key in own if uris[key].has_consumers}
            row.mirrored_uris = (set(row.mirrored_uris or ()) - uris.keys()) | waited_for or None


def _write(row: Assets) -> Write:
    if not row.is_changed:
        return Check(row, Assets.refs_rev == row.refs_rev)
    # An event that is being recorded on the old state is refused.
    row.refs_rev = row.stored["refs_rev"] + 1
    return Change(row, ("refs_rev",))


# Consumers.


def add_consumers(wanted: Mapping[str, Iterable[str]], push: Push) -> None:
    """Make DAGs, given as {dag id: asset ids}, consumers of events recorded from now on."""
    by_asset: dict[str, list[str]] = defaultdict(list)
    for dag_id, asset_ids in wanted.items():
        for asset in set(asset_ids):
            by_asset[asset].append(dag_id)
    there = read_references((asset, dag) for asset, dags in by_asset.items() for dag in dags)
    dags_per_write = (settings.current().transaction_actions - 2) // 2
    for asset, dag_ids in by_asset.items():
        missing = [dag_id for dag_id in dag_ids if (asset, dag_id) not in there]
        for some in queues.chunks(missing, dags_per_write):
            _change_references(asset, push, add=some)


def begin_now(dag_id: str, asset_ids: AbstractSet[str]) -> list[Write]:
    """Return the writes that make a DAG consume events from this transaction on.

    For conditions on streams that share events: an event recorded between the reference and the row
    may have been consumed under another name.
    """
    newest = read_assets(asset_ids)
    writes: list[Write] = [Check(asset, Assets.seq == asset.seq) for asset in newest.values()]
    for row in read_asset_queue((dag_id, asset) for asset in asset_ids):
        row.since_seq = row.consumed_seq = newest[row.asset_id].seq
        writes += [Change(row, ("consumed_seq",))] if row.is_changed else []
    return writes


def drop_consumers(dag_id: str, keep: AbstractSet[str], push: Push) -> None:
    """Remove a DAG from the consumers of all assets except `keep`."""
    for row in asset_queue_of(dag_id):
        if row.asset_id not in keep:
            _change_references(row.asset_id, push, remove=[dag_id])

    def change(row: Dags) -> list[Write]:
        row.referenced_assets = set(keep) or None
        return []

    pushes.change_dag(push, dag_id, change)


def _change_references(
    asset: str, push: Push, *, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> None:
    """Change the consumers, if no event is recorded meanwhile that would go by the old ones."""
    for _ in retry_attempts():
        row = read_asset(asset)
        seen_seq, seen_rev = int(row.seq or 0), int(row.refs_rev or 0)
        writes: list[Write] = []
        for dag_id in add:
            writes += new_reference(asset, dag_id, seq=seen_seq)
        for dag_id in remove:
            writes += delete_reference(asset, dag_id)
        unchanged = (Assets.seq == seen_seq) & (Assets.refs_rev == seen_rev)
        writes.append(Update(row, [Assets.refs_rev.set(seen_rev + 1)], unchanged))
        with suppress(TransactionCanceled):
            pushes.write(push, writes)
            return
    raise TransientError(f"asset {asset!r} is contended; try again")


# Producers: tasks with the asset as an outlet, in the newest definitions.


class Producer(NamedTuple):
    """A task with an asset as an outlet."""

    dag_id: str
    task_id: str


def producers_of(asset_id: str) -> list[Producer]:
    """Return the producers of an asset or alias; reads every DAG."""
    with author_code_as_data():
        documents = newest_documents(dags_in_use())
        found = {
            Producer(dag_id, task["task_id"])
            for dag_id, document in documents.items()
            for task in document["tasks"]
            for outlet in map(decode_condition, task["outlets"])
            if isinstance(outlet, AssetLeaf) and leaf_id(outlet) == asset_id
        }
    return sorted(found)
