"""Cycles of assets: DAGs whose runs would trigger each other, or themselves, without end.

Owns: finding them before they are registered. Within a push the definitions are known; DAGs of
other bundles are followed from the assets that the push updates, consumer by consumer, so the reads
grow with what is downstream of the push and not with the deployment. DAGs with `allow_cycle` are
left out: whoever gives it to one DAG of a cycle has said that the cycle ends. Two pushes at the
same moment do not see each other; `asset_runs_per_hour` stops what they close together.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lamplighter.assets.asset import Asset, decode_condition
from lamplighter.assets.condition import AssetLeaf
from lamplighter.dags.dag import DAG
from lamplighter.dags.links import find_cycle
from lamplighter.errors import UNREADABLE
from lamplighter.identifiers import uri_id
from lamplighter.loading import author_code_as_data
from lamplighter.scheduler.pending import waited_for
from lamplighter.store.assets import all_consumers_of, leaf_id, read_assets
from lamplighter.store.dags import newest_documents, read_dags
from lamplighter.store.models import Dags

log = logging.getLogger(__name__)

# Of other bundles, per push; what is further downstream is not followed.
_MAX_OTHERS = 1_000
# Before the ids of DAGs. No asset id has a space.
_DAG = "DAG "


@dataclass
class AssetGraph:
    """Which DAGs consume and update which assets: each node with those that it triggers."""

    edges: dict[str, dict[str, None]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def add(self, dag: DAG) -> None:
        """Add a DAG of the push."""
        if not dag.allow_cycle:
            outlets = (outlet for task in dag.tasks.values() for outlet in task.outlets)
            consumed = set(map(self._asset, dag.timetable.asset_condition.leaves()))
            self._connect(dag.dag_id, consumed, map(self._asset, outlets))

    def _asset(self, leaf: AssetLeaf) -> str:
        key = leaf_id(leaf)
        self.labels.setdefault(key, leaf.describe())
        if isinstance(leaf, Asset):  # its events may be recorded under its URI as well
            uri = uri_id(leaf.uri)
            self.labels.setdefault(uri, leaf.uri)
            self._edge(key, uri)
        return key

    def _connect(self, dag_id: str, consumed: Iterable[str], updated: Iterable[str]) -> None:
        for asset in consumed:
            self._edge(asset, _DAG + dag_id)
        for asset in updated:
            self._edge(_DAG + dag_id, asset)

    def _edge(self, before: str, after: str) -> None:
        self.edges.setdefault(before, {})[after] = None

    # DAGs of other bundles.

    def add_downstream(self, bundle: str, known: Sequence[str]) -> None:
        """Add the DAGs of other bundles that events of the push's DAGs would trigger.

        `known` are the DAGs of the push, allowed to be in a cycle or not.
        """
        consumers = {after for edges in self.edges.values() for after in edges}
        starts = {dag_id for dag_id in known if _DAG + dag_id in consumers}
        todo = {asset for dag_id in starts for asset in self._after(_DAG + dag_id)}
        seen, dags = set(todo), set(known)
        while todo:
            found = self._consumers(todo) - dags
            if len(dags) - len(known) + len(found) > _MAX_OTHERS:
                log.warning("asset cycles are not looked for any further", extra={"bundle": bundle})
                return
            dags |= found
            rows = [row for row in read_dags(found, malformed=[]) if _is_other(row, bundle)]
            added = self._add_stored(rows)
            todo = {asset for dag_id in added for asset in self._after(_DAG + dag_id)} - seen
            seen |= todo

    def _after(self, node: str) -> set[str]:
        """Return the assets that an update of a DAG or an asset updates."""
        found: set[str] = set()
        todo = [node]
        while todo:
            new = {each for each in self.edges.get(todo.pop(), ()) if not each.startswith(_DAG)}
            todo += new - found
            found |= new
        return found

    def _consumers(self, assets: Iterable[str]) -> set[str]:
        rows = read_assets(assets, malformed=set())
        # A definition may name an asset without the URI that it has elsewhere.
        uris = {row.asset_id: row.uri for row in rows.values() if row.kind == "asset" and row.uri}
        for key, uri in uris.items():
            self.labels.setdefault(uri_id(uri), uri)
            self._edge(key, uri_id(uri))
        rows |= read_assets({uri_id(uri) for uri in uris.values()} - rows.keys(), malformed=set())
        # Assets that never had a consumer are not asked for.
        asked = {key for key, row in rows.items() if row.refs_rev}
        return {dag_id for found in all_consumers_of(sorted(asked)) for dag_id in found}

    def _add_stored(self, rows: Sequence[Dags]) -> Iterator[str]:
        documents = newest_documents(rows, skips_unreadable=True)
        for row in rows:
            document = documents.get(row.dag_id)
            if document is not None and not document["allow_cycle"]:
                try:
                    with author_code_as_data():
                        outlets = [
                            self._asset(outlet)
                            for task in document["tasks"]
                            for outlet in map(decode_condition, task["outlets"])
                            if isinstance(outlet, AssetLeaf)
                        ]
                except UNREADABLE:  # another bundle's damage is not this push's
                    continue
                self._connect(row.dag_id, waited_for(row), outlets)
                yield row.dag_id

    # Cycles.

    def cycles(self, dag_ids: Iterable[str]) -> dict[str, str]:
        """Return the shortest cycle through each of the DAGs that is in one, in words."""
        if not find_cycle(self.edges):
            return {}
        found = {dag_id: self._way_back(_DAG + dag_id) for dag_id in dag_ids}
        return {dag_id: _sentence(dag_id, self._named(way)) for dag_id, way in found.items() if way}

    def _way_back(self, start: str) -> list[str]:
        """Return the nodes from `start` back to itself, or an empty list."""
        came_from: dict[str, str] = {}
        todo = deque([start])
        while todo:
            node = todo.popleft()
            for after in self.edges.get(node, ()):
                if after == start:
                    return [*_path(came_from, start, node), start]
                if after not in came_from:
                    came_from[after] = node
                    todo.append(after)
        return []

    def _named(self, way: Iterable[str]) -> str:
        return " -> ".join(self.labels.get(node, node).removeprefix(_DAG) for node in way)


def _is_other(row: Dags, bundle: str) -> bool:
    # A DAG of this bundle that is not in the push leaves with it, or was refused.
    return not row.is_stale and row.bundle != bundle


def _path(came_from: Mapping[str, str], start: str, node: str) -> list[str]:
    path = [node]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _sentence(dag_id: str, cycle: str) -> str:
    return (
        f"DAG {dag_id!r}: schedule: its runs would trigger each other without end: {cycle}. Break"
        " the cycle, or pass allow_cycle=True to one of its DAGs if it ends by itself"
    )


def find_cycles(dags: Sequence[DAG], *, bundle: str | None = None) -> dict[str, str]:
    """Return what is wrong with DAGs that are in a cycle of assets, by id.

    With the name of their bundle, DAGs of other bundles in the deployment are looked at as well.
    """
    graph = AssetGraph()
    for dag in dags:
        graph.add(dag)
    ids = [dag.dag_id for dag in dags]
    if bundle is not None:
        graph.add_downstream(bundle, ids)
    return graph.cycles(ids)
