"""Finds what the user names in the tables; if it is not there, suggests what was meant."""

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lamplighter.errors import RefusedError
from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.serialization import zone_of_dag
from lamplighter.store.assets import all_asset_names, read_assets
from lamplighter.store.backfills import newest_of, read_backfill
from lamplighter.store.dags import all_dag_ids, newest_document, read_dag
from lamplighter.store.runs import STATES, require_run, runs_of
from lamplighter.zones import UTC, Zone
from lamplighter_operations.views import view_dag

if TYPE_CHECKING:
    from lamplighter.store.models import Assets, Backfills, Dags, Runs

_MAX_SUGGESTIONS = 3


def find_dag(dag_id: str) -> "Dags":
    """Return the row of a DAG, or suggest similar ids."""
    row = read_dag(dag_id)
    if row is None:
        raise RefusedError(f"there is no DAG {dag_id!r}{_suggestions(dag_id, all_dag_ids())}")
    return row


def find_run(name: str) -> "Runs":
    """Return the run named `DAG/RUN`, or say whether the DAG or the run does not exist."""
    dag_id, _, run_id = name.partition("/")
    try:
        return require_run(name)
    except RefusedError as refused:
        if not dag_id or not run_id:
            raise
        find_dag(dag_id)
        newest = runs_of(dag_id, limit=1)
        hint = f"; its newest is {newest[0].run_id}" if newest else ""
        raise RefusedError(f"{refused}{hint}") from refused


def find_asset(name: str) -> "Assets":
    """Return the row of an asset or alias by its name or URI, or suggest similar names."""
    keys = [uri_id(name)] if "://" in name else [asset_id(name), alias_id(name)]
    rows = read_assets(keys)
    row = next((rows[key] for key in keys if key in rows), None)
    if row is not None and row.target is not None:
        row = read_assets([row.target]).get(row.target)
    if row is None:
        raise RefusedError(f"there is no asset {name!r}{_suggestions(name, all_asset_names())}")
    return row


def find_backfill(name: str) -> "Backfills":
    """Return a backfill by its id, or the newest backfill of a DAG by the DAG's id."""
    row = None if "#" in name else read_backfill(name)
    dag = None if row is not None else read_dag(name)
    if dag is not None:
        row = newest_of(dag)
        if row is None:
            raise RefusedError(f"DAG {name!r} has no backfill yet")
    if row is None:
        dag = find_dag(name.rpartition("-")[0] or name)
        hint = f"; its newest is {dag.backfill}" if dag.backfill else ""
        raise RefusedError(f"DAG {dag.dag_id!r} has no backfill {name!r}{hint}")
    return row


def require_states(names: Iterable[str]) -> list[str]:
    """Return states of runs, or say which states exist."""
    wanted = list(names)
    for name in wanted:
        if name not in STATES:
            raise RefusedError(f"{name!r} is not a state of runs: use {', '.join(STATES)}")
    return wanted


def _suggestions(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return ": there are none yet; push a bundle first"
    near = difflib.get_close_matches(name, known, n=_MAX_SUGGESTIONS, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def zone_of_dates(row: "Dags") -> Zone:
    """Return the time zone in which dates of a DAG are read and shown."""
    document = newest_document(row)
    return zone_of_dag(document) if document else UTC


def zone_of_runs(dag_id: str) -> Zone | None:
    """Return the time zone of a DAG's schedule, if the DAG still exists and has one."""
    row = read_dag(dag_id)
    return view_dag(row).zone if row else None
