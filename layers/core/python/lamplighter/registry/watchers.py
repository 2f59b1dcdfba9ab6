"""The watchers of a push: a row each, for the function that runs them.

The row of a DAG says which ones it may have, before they come and until they are gone, so that none
is left behind. New ones come before old ones go: a source is heard by someone who is not needed any
more, but never unheard by someone who is.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter import clock, settings
from lamplighter.assets.asset import Asset
from lamplighter.assets.codec import encode_watcher
from lamplighter.dags.dag import DAG
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.settings import Settings
from lamplighter.store.assets import leaf_id
from lamplighter.store.dags import change_dag
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import Delete, Put, TransactionCanceled, Write, pack
from lamplighter.store.watchers import Place, mark_of
from lamplighter.triggers.feeds import SOURCES, Feed, Watched

# In a list of what is wired: a deployment on one machine wires whatever is asked for.
EVERYTHING = "*"

Watchers = Mapping[Place, dict[str, Any]]


def watchers_of(dag: DAG) -> Watchers:
    """Return what a DAG declares on the assets that it waits for, as rows keep it."""
    found: dict[Place, dict[str, Any]] = {}
    for leaf in dag.timetable.asset_condition.leaves():
        if not isinstance(leaf, Asset):
            continue
        for watcher in leaf.watchers:
            queue, written = Watched.by(watcher.trigger).feed.queue, encode_watcher(watcher)
            mark = mark_of(written["trigger"])
            place = Place(queue, dag.dag_id, leaf_id(leaf), mark, watcher.name)
            found[place] = {"asset": leaf.name, **written}
    return found


def announce_watchers(row: Dags, wanted: Watchers) -> None:
    """Let the row of a DAG say that it may have these watchers too."""
    row.watchers = (row.watchers or set()) | {str(place) for place in wanted} or None


def register_watchers(row: Dags, wanted: Watchers, push: Push) -> None:
    """Let the watchers of a DAG have their rows, and no others, as this push declares them."""
    _write([Put(row, may_replace=True) for row in _changed(wanted, push)], push)
    keep = {str(place) for place in wanted}
    if (row.watchers or set()) != keep:
        drop_watchers(row, keep, push)


def drop_watchers(row: Dags, keep: AbstractSet[str], push: Push) -> None:
    """Remove the watchers of a DAG, but those to keep."""
    gone = [Place.of(text) for text in (row.watchers or set()) - keep]
    _write([Delete(place.row) for place in gone], push)

    def change(row: Dags) -> list[Write]:
        row.watchers = set(keep) or None
        return [pushes.newest_check(push)]

    try:
        change_dag(row.dag_id, change)
    except TransactionCanceled as cancelled:
        pushes.require_newest(push, cancelled)
        raise


def _changed(wanted: Watchers, push: Push) -> Iterator[Catalog]:
    """Yield the rows that are not there as they should be."""
    keys = {(place.row.kind, place.row.id): watcher for place, watcher in wanted.items()}
    there = {(row.kind, row.id): row for row in Catalog.batch_get(keys, consistent_read=True)}
    for key, watcher in keys.items():
        before = there.get(key)
        bundle = (push.bundle, push.version)
        is_same = before is not None and before.watcher == watcher
        if before is not None and is_same and (before.bundle, before.bundle_version) == bundle:
            continue
        # What happened before a watcher was there is no news to it.
        since = before.since if before is not None and is_same else clock.now()
        yield Catalog(
            *key,
            watcher=watcher,
            bundle=push.bundle,
            bundle_version=push.version,
            since=since,
            updated_at=clock.now(),
        )


def _write(writes: Sequence[Write], push: Push) -> None:
    room = settings.current().transaction_actions - 1  # one is for the check of the push
    for some in pack(writes, (lambda _: 1, room)):
        pushes.write(push, some)


# What must be wired.


def unwired(dag: DAG, deployment: Settings) -> Iterator[str]:
    """Yield a sentence for each watcher of a DAG that would never hear anything."""
    for place, watcher in watchers_of(dag).items():
        missing = _missing(Watched.from_json(watcher["trigger"]).feed, deployment)
        if missing is not None:
            title = f"watcher {place.name!r} of asset {watcher['asset']!r}"
            yield f"DAG {dag.dag_id!r}: {title}: {missing}"


def _missing(feed: Feed, deployment: Settings) -> str | None:
    queue = () if feed.queue in (None, SOURCES) else (feed.queue,)
    wanted = (
        ("queue", queue, "watch_queues"),
        ("bucket", () if feed.bucket is None else (feed.bucket,), "watch_buckets"),
        ("event source", feed.event_sources, "watch_event_sources"),
    )
    for what, names, setting in wanted:
        known = deployment.read_names(setting)
        for name in names:
            if name not in known and EVERYTHING not in known:
                there = ", ".join(sorted(known)) or "none"
                return (
                    f"{what} {name!r} is not wired to this deployment (there are: {there}); add it"
                    f" to {setting} of the stage and deploy"
                )
    return None
