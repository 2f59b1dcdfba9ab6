"""The watchers of a push: one row each, for the function that runs them.

The row of a DAG lists its watchers before their rows are written and until they are deleted, so
that none is orphaned. New ones are written before old ones are deleted: a source may be read for an
obsolete watcher, but is never left unread for a current one.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from lamplighter import clock, queues, settings
from lamplighter.assets.asset import Asset, encode_watcher
from lamplighter.dags.dag import DAG
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.settings import Settings
from lamplighter.store.assets import leaf_id
from lamplighter.store.models import Catalog, Dags
from lamplighter.store.transactions import Delete, Put, Write
from lamplighter.store.watchers import WatcherKey, read_watchers_by_key, trigger_hash
from lamplighter.triggers.feeds import SOURCES, Feed, StreamInfo

# In a list of connected sources: everything, as in a local deployment.
EVERYTHING = "*"

Watchers = Mapping[WatcherKey, dict[str, Any]]


def watchers_of(dag: DAG) -> Watchers:
    """Return the watchers of the assets in a DAG's condition, by row key."""
    found: dict[WatcherKey, dict[str, Any]] = {}
    for leaf in dag.timetable.asset_condition.leaves():
        if not isinstance(leaf, Asset):
            continue
        for watcher in leaf.watchers:
            queue, document = StreamInfo.of(watcher.trigger).feed.queue, encode_watcher(watcher)
            digest = trigger_hash(document["trigger"])
            key = WatcherKey(queue, dag.dag_id, leaf_id(leaf), digest, watcher.name)
            found[key] = {"asset": leaf.name, **document}
    return found


def announce_watchers(row: Dags, dag: DAG) -> None:
    """List the watchers of a DAG on its row, in addition to those that it has."""
    row.watchers = (row.watchers or set()) | set(map(str, watchers_of(dag))) or None


def register_watchers(row: Dags, dag: DAG, push: Push) -> None:
    """Write the rows of a DAG's watchers, and delete all others."""
    wanted = watchers_of(dag)
    _write([Put(row, may_replace=True) for row in _changed(wanted, push)], push)
    keep = set(map(str, wanted))
    if (row.watchers or set()) != keep:
        drop_watchers(row, keep, push)


def drop_watchers(row: Dags, keep: AbstractSet[str], push: Push) -> None:
    """Delete the watchers of a DAG except `keep`."""
    gone = (row.watchers or set()) - keep
    _write([Delete(WatcherKey.parse(text).row) for text in gone], push)

    def change(row: Dags) -> list[Write]:
        row.watchers = set(keep) or None
        return []

    pushes.change_dag(push, row.dag_id, change)


def _changed(wanted: Watchers, push: Push) -> Iterator[Catalog]:
    rows = read_watchers_by_key(wanted, consistent=True)
    found = {(row.kind, row.id): row for row in rows}
    bundle = (push.bundle, push.version)
    for key, watcher in wanted.items():
        row = key.row
        before = found.get((row.kind, row.id))
        created_at = now = clock.now()
        if before is not None and before.watcher == watcher:
            if (before.bundle, before.bundle_version) == bundle:
                continue
            # What happened before a watcher was created does not fire it.
            created_at = before.created_at
        row.watcher, row.created_at, row.updated_at = watcher, created_at, now
        row.bundle, row.bundle_version = bundle
        yield row


def _write(writes: Sequence[Write], push: Push) -> None:
    room = settings.current().transaction_actions - 1  # one for the check of the push
    for some in queues.chunks(writes, room):
        pushes.write(push, some)


# Connected sources.


def unwired(dag: DAG, deployment: Settings) -> Iterator[str]:
    """Yield a message for each watcher whose source is not connected to the deployment."""
    for key, watcher in watchers_of(dag).items():
        missing = _missing(StreamInfo.from_json(watcher["trigger"]).feed, deployment)
        if missing is not None:
            title = f"watcher {key.name!r} of asset {watcher['asset']!r}"
            yield f"DAG {dag.dag_id!r}: {title}: {missing}"


def _missing(feed: Feed, deployment: Settings) -> str | None:
    queue = () if feed.queue in (None, SOURCES) else (feed.queue,)
    wanted = (
        ("queue", queue, "watch_queues"),
        ("bucket", () if feed.bucket is None else (feed.bucket,), "watch_buckets"),
        ("event source", feed.event_sources, "watch_event_sources"),
    )
    for what, names, setting in wanted:
        known = getattr(deployment, setting)
        for name in names:
            if name not in known and EVERYTHING not in known:
                there = ", ".join(sorted(known)) or "none"
                return (
                    f"{what} {name!r} is not wired to this deployment (there are: {there}); add it"
                    f" to {setting} of the stage and deploy"
                )
    return None
