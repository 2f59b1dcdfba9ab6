"""The rows of assets that DAGs name: put once, and kept as the newest definition describes them.

A URI has a row too. It leads to the asset that was pushed with it last, and a DAG may wait for it,
whichever asset that is, even if none has come yet: then that asset's events are recorded under the
URI as well. So the order in which bundles are pushed does not matter.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

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
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.transactions import Cancelled, Change, Put, Update, Write, pauses

_DESCRIPTION = ("name", "uri", "group", "extra")


def register_assets(dags: Sequence[DAG], source: Source) -> None:
    """Let every asset that a DAG waits for, reads or produces have its row."""
    leaves = [leaf for dag in dags for leaf in _named(dag)]
    # A definition says more about an asset than a reference does, and comes last.
    leaves.sort(key=lambda leaf: isinstance(leaf, Asset))
    wanted = {row.asset_id: row for leaf in leaves for row in new_rows(leaf)}
    waited_for = {leaf_id(leaf) for leaf in leaves if isinstance(leaf, AssetRef)}
    found = read_assets(wanted)
    _put([Put(row) for key, row in wanted.items() if key not in found], source)
    for key, row in wanted.items():
        now = found.get(key, row)
        if row.kind != "uri":
            _describe(now, row, source)
        elif row.target not in (None, now.target):
            _lead(key, partial(_to, row.target), source)
        if row.kind == "uri" and key in waited_for and not now.is_waited_for:
            _lead(key, _waited_for, source)


def _named(dag: DAG) -> Iterator[AssetLeaf]:
    yield from dag.timetable.asset_condition.leaves()
    for task in dag.tasks.values():
        yield from (*task.inlets, *task.outlets)


def _put(missing: Sequence[Write], source: Source) -> None:
    size = settings.current().transaction_actions - 1
    for at in range(0, len(missing), size):
        _put_each_once(missing[at : at + size], source)


def _put_each_once(writes: Sequence[Write], source: Source) -> None:
    try:
        bundles.write(source, writes)
    except Cancelled:
        if len(writes) > 1:
            for write in writes:
                _put_each_once([write], source)
        # Else it is there: another registration was faster, which is as good.


def _describe(now: Assets, wanted: Assets, source: Source) -> None:
    """Let a row say what a definition says anew."""
    said = {column: getattr(wanted, column) for column in _DESCRIPTION}
    news = {
        column: value
        for column, value in said.items()
        if value is not None and value != getattr(now, column)
    }
    if not news:
        return
    if "uri" in news and now.uri is not None:
        _lead(uri_id(now.uri), partial(_away_from, now.asset_id), source)
    actions = [getattr(Assets, column).set(value) for column, value in news.items()]
    bundles.write(source, [Update(now, actions, Assets.asset_id.exists())])


# Where a URI leads.


def _to(target: str | None, row: Assets) -> None:
    row.target = target


def _away_from(asset: str, row: Assets) -> None:
    row.target = None if row.target == asset else row.target


def _waited_for(row: Assets) -> None:
    row.is_waited_for = True


def _lead(key: str, change: Callable[[Assets], None], source: Source) -> None:
    """Change a URI's row, and let the assets that it leads or led to know, all at once."""
    for _ in pauses():
        row = Assets.get(key, ITSELF, consistent_read=True)
        before = row.target if row.is_waited_for else None
        change(row)
        if not row.is_changed:
            return
        after = row.target if row.is_waited_for else None
        row.refs_rev = row.stored["refs_rev"] + 1
        writes: list[Write] = [Change(row, ("refs_rev",))]
        if before != after:
            writes += [_also(before, Assets.also.delete({key}))] if before else []
            writes += [_also(after, Assets.also.add({key}))] if after else []
        try:
            bundles.write(source, writes)
        except Cancelled:
            continue
        return
    raise TransientError(f"the URI of {key!r} is too busy to lead elsewhere")


def _also(asset: str, action: Any) -> Update:
    # An event that is being recorded goes by the old state, and is refused.
    actions = [action, Assets.refs_rev.set(Assets.refs_rev + 1)]
    return Update(Assets(asset, ITSELF), actions, Assets.refs_rev.exists())
