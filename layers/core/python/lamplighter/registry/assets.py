"""The rows of assets that DAGs name: put once, and kept as the newest definition describes them.

A URI has a row too. It leads to the asset that was pushed with it last, and a DAG may wait for it,
whichever asset that is, even if none has come yet: then that asset's events are recorded under the
URI as well. So the order in which bundles are pushed does not matter.

Owns: what these rows say about each other. A URI leads only to an asset that has it, and an asset's
events are recorded under its URI exactly while that is waited for and leads to it. This is so at
every moment, whoever crashes or comes at the same time, since the rows concerned change together.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from lamplighter import settings
from lamplighter.assets.asset import Asset, AssetRef
from lamplighter.assets.condition import AssetLeaf
from lamplighter.dags.dag import DAG
from lamplighter.errors import TransientError
from lamplighter.identifiers import uri_id
from lamplighter.registry import bundles
from lamplighter.registry.definition import Source
from lamplighter.store.assets import leaf_id, new_rows, read_assets
from lamplighter.store.models import Assets
from lamplighter.store.transactions import (
    Change,
    Check,
    Put,
    TransactionCanceled,
    Write,
    pack,
    retry_attempts,
)

Rows = Mapping[str, Assets]

_DESCRIPTION = ("name", "uri", "group", "extra")


def register_assets(dags: Sequence[DAG], source: Source) -> None:
    """Let every asset that a DAG waits for, reads or produces have its row."""
    leaves = [leaf for dag in dags for leaf in _named(dag)]
    # What says more about an asset comes last.
    leaves.sort(key=lambda leaf: (isinstance(leaf, Asset), not _is_name_only(leaf)))
    named = {leaf_id(leaf): leaf for leaf in leaves}
    found = read_assets(row.asset_id for leaf in named.values() for row in new_rows(leaf))
    named = {key: _unless_known_better(leaf, found.get(key)) for key, leaf in named.items()}
    wanted = {row.asset_id: row for leaf in named.values() for row in new_rows(leaf)}
    # The last of several assets with the same URI.
    leads = {key: row.target for key, row in wanted.items() if row.target is not None}
    if wanted.keys() - found.keys():
        _put({key: row for key, row in wanted.items() if key not in found}, source)
        found = read_assets(wanted)
    for key, leaf in named.items():
        row = wanted[key]
        if isinstance(leaf, Asset):
            uri = uri_id(leaf.uri)
            is_leading = leads[uri] == key
            if _is_other(found[key], row) or (is_leading and found[uri].target != key):
                _change(partial(_describe, row, is_leading=is_leading), [key, uri], source)
        elif isinstance(leaf, AssetRef) and row.kind == "uri" and not found[key].has_consumers:
            _change(partial(_wait_for, key), [key], source)


def _named(dag: DAG) -> Iterator[AssetLeaf]:
    yield from dag.timetable.asset_condition.leaves()
    for task in dag.tasks.values():
        yield from (*task.inlets, *task.outlets)


def _is_name_only(leaf: AssetLeaf) -> bool:
    """Return whether it is an asset that was given no URI, for which its name then stands."""
    return isinstance(leaf, Asset) and leaf.uri == leaf.name and "://" not in leaf.uri


def _unless_known_better(leaf: AssetLeaf, row: Assets | None) -> AssetLeaf:
    """Return a leaf, or a mere reference if its asset has a URI which it does not know."""
    if row is None or row.uri is None or not isinstance(leaf, Asset) or not _is_name_only(leaf):
        return leaf
    return leaf if row.uri == leaf.uri else Asset.ref(name=leaf.name)


# Rows that were not there.


def _put(missing: Rows, source: Source) -> None:
    room = settings.current().transaction_actions - 1  # one is for the check of the push
    for group in pack(_units(missing), (len, room)):
        rows = [row for unit in group for row in unit]
        try:
            bundles.write(source, [Put(row) for row in rows])
        except TransactionCanceled:
            for row in rows:
                _put_alone(row, source)


def _units(missing: Rows) -> Iterator[list[Assets]]:
    """Yield rows that must come together: a URI may lead to an asset only if that is there."""
    for key, row in missing.items():
        if row.kind == "uri" and row.target not in missing:
            row.target = None
            yield [row]
        elif row.kind != "uri":
            uri = missing.get(uri_id(row.uri)) if row.uri is not None else None
            yield [row, uri] if uri is not None and uri.target == key else [row]


def _put_alone(row: Assets, source: Source) -> None:
    row.target = None
    with suppress(TransactionCanceled):  # another registration was faster, which is as good
        bundles.write(source, [Put(row)])


# Rows that say something else.


def _is_other(now: Assets, wanted: Assets) -> bool:
    return any(getattr(now, column) != getattr(wanted, column) for column in _DESCRIPTION)


def _describe(wanted: Assets, rows: Rows, *, is_leading: bool) -> None:
    """Let an asset's row say what its definition says, and its URI lead to it."""
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


def _change(change: Callable[[Rows], None], keys: Sequence[str], source: Source) -> None:
    """Change rows and those that they are tied to, if all of them are as they were read."""
    for _ in retry_attempts():
        rows = read_assets(keys)
        rows |= read_assets(_neighbours(rows) - rows.keys())
        change(rows)
        _tell_assets(rows)
        if not any(row.is_changed for row in rows.values()):
            return
        try:
            bundles.write(source, [_write(row) for row in rows.values()])
        except TransactionCanceled:
            continue
        return
    raise TransientError(f"assets {sorted(keys)} are being changed by too many at once")


def _neighbours(rows: Rows) -> set[str]:
    uris = {uri_id(row.uri) for row in rows.values() if row.uri is not None}
    return uris | {row.target for row in rows.values() if row.target is not None}


def _tell_assets(rows: Rows) -> None:
    """Let each asset know under which of the URIs its events are waited for."""
    uris = {key: row for key, row in rows.items() if row.kind == "uri"}
    for row in rows.values():
        if row.kind == "asset":
            own = {key for key, uri in uris.items() if uri.target == row.asset_id}
            waited_for = {key for key in own if uris[key].has_consumers}
            row.mirrored_uris = (set(row.mirrored_uris or ()) - uris.keys()) | waited_for or None


def _write(row: Assets) -> Write:
    if not row.is_changed:
        return Check(row, Assets.refs_rev == row.refs_rev)
    # An event that is being recorded goes by the old state, and is refused.
    row.refs_rev = row.stored["refs_rev"] + 1
    return Change(row, ("refs_rev",))
