"""Bundles that are DAG objects in this process and not folders: what a test hands over.

They are pushed, registered and asked as any other; only the sandbox, which would import files,
answers from the objects.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from lamplighter.assets.asset import Asset
from lamplighter.bundles.importer import ParsedFile
from lamplighter.dags.dag import DAG
from lamplighter.dags.upcoming import NextRunsResult, failed_result, query_timetable
from lamplighter.errors import RefusedError, in_short
from lamplighter.identifiers import bundle_key
from lamplighter.registry import pushes
from lamplighter.registry.pushes import Push
from lamplighter.serialization import content_hash, encode_dag
from lamplighter.store.bundles import next_push_number
from lamplighter.streams.watchers import Watcher
from lamplighter.triggers.base import BaseEventTrigger
from lamplighter_local.emulator.method_override import MethodOverride

FILE = "dags/objects.py"

trigger_builds = MethodOverride(Watcher, "build")


class DagObjects:
    """The bundles that were pushed as objects, by the place where their archives would be."""

    def __init__(self) -> None:
        self._pushed: dict[str, Mapping[str, DAG]] = {}

    def push(self, dags: Iterable[DAG], bundle: str, *, skip_owed: bool = False) -> Push:
        """Announce DAGs as a bundle that has these and no others."""
        found: dict[str, DAG] = {}
        for dag in _require_dags(dags):
            if found.setdefault(dag.dag_id, dag) is not dag:
                raise RefusedError(f"duplicate DAG id {dag.dag_id!r}: rename one of the DAGs")
        hashes = "".join(content_hash(encode_dag(dag)) for dag in found.values())
        version = hashlib.sha256(hashes.encode()).hexdigest()
        self._pushed[bundle_key(bundle, version)] = found
        push = Push(bundle, version, next_push_number(bundle), skip_owed=skip_owed)
        pushes.announce(push)
        return push

    def answer(self, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what the sandbox would say about such a bundle; None for any other bundle."""
        dags = self._pushed.get(event["key"])
        if dags is None:
            return None
        match event["verb"]:
            case "list":
                return {"files": [FILE]}
            case "parse":
                parsed = ParsedFile(FILE, dags=[parsed_dag(dag) for dag in dags.values()])
                return {"files": [asdict(parsed)]}
            case _:
                return {"results": [_next_runs(query, dags) for query in event["queries"]]}

    def building_triggers(
        self, build: Callable[[Watcher], BaseEventTrigger]
    ) -> Callable[[Watcher], BaseEventTrigger]:
        """Return what builds triggers of such bundles from their objects, which no file defines."""

        def build_here(watcher: Watcher) -> BaseEventTrigger:
            dags = self._pushed.get(bundle_key(watcher.bundle, watcher.bundle_version))
            if dags is None:
                return build(watcher)
            return next(
                type(declared.trigger)(**watcher.trigger["data"])
                for dag_id in watcher.dag_ids
                for leaf in dags[dag_id].timetable.asset_condition.leaves()
                if isinstance(leaf, Asset) and leaf.name == watcher.asset
                for declared in leaf.watchers
                if declared.name == watcher.name
                and declared.trigger.serialize()[0] == watcher.trigger["type"]
            )

        return build_here


def _require_dags(dags: object) -> Iterable[DAG]:
    if isinstance(dags, DAG) or not isinstance(dags, Iterable):
        raise RefusedError(f"{dags!r} is not a bundle: give a folder, or a list of DAGs")
    for dag in dags:
        if not isinstance(dag, DAG):
            raise RefusedError(f"{dag!r} is not a DAG: give a list of DAGs")
        yield dag


def _next_runs(query: Any, dags: Mapping[str, DAG]) -> NextRunsResult:
    try:
        return query_timetable(query, dags)
    except Exception as error:  # noqa: BLE001 - a timetable of the test's may raise whatever it likes
        return failed_result(query, in_short(error))


def parsed_dag(dag: DAG) -> dict[str, Any]:
    """Return a DAG as the sandbox reports it."""
    document = encode_dag(dag)
    return {
        "dag_id": dag.dag_id,
        "line": 1,
        "hash": content_hash(document),
        "schedule": dag.timetable.summary,
        "description": "",
        "document": document,
    }
