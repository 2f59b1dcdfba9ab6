"""What a person names, found in the tables; where it is not, what was probably meant."""

import difflib
import json
from collections.abc import Iterable

from lamplighter.errors import UNREADABLE, RefusedError
from lamplighter.identifiers import alias_id, asset_id, uri_id
from lamplighter.store.assets import read_assets
from lamplighter.store.backfills import newest_of, read_backfill
from lamplighter.store.dags import read_dag
from lamplighter.store.models import Assets, Backfills, Dags, Runs
from lamplighter.store.models.assets import ITSELF
from lamplighter.store.runs import STATES, require_run, runs_of
from lamplighter.zones import Zone, parse_zone

_MAX_NAMED = 3


def find_dag(dag_id: str) -> Dags:
    """Return the row of a DAG, or say which ids are near."""
    row = read_dag(dag_id)
    if row is None:
        ids = (each.dag_id for each in Dags.scan(attributes_to_get=["dag_id"]))
        raise RefusedError(f"there is no DAG {dag_id!r}{_nearest(dag_id, ids)}")
    return row


def find_run(name: str) -> Runs:
    """Return the run that is called `DAG/RUN`, or say whether DAG or run is wrong."""
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


def find_asset(name: str) -> Assets:
    """Return the row of an asset or alias, by name or URI, or say which names are near."""
    keys = [uri_id(name)] if "://" in name else [asset_id(name), alias_id(name)]
    rows = read_assets(keys)
    row = next((rows[key] for key in keys if key in rows), None)
    if row is not None and row.target is not None:
        row = read_assets([row.target]).get(row.target)
    if row is None:
        known = Assets.scan(Assets.ref == ITSELF, attributes_to_get=["name", "uri"])
        names = {text for each in known for text in (each.name, each.uri) if text}
        raise RefusedError(f"there is no asset {name!r}{_nearest(name, names)}")
    return row


def find_backfill(name: str) -> Backfills:
    """Return a backfill by its id, or the newest one of a DAG by the id of that."""
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
    """Return states of runs, or say which there are."""
    wanted = list(names)
    for name in wanted:
        if name not in STATES:
            raise RefusedError(f"runs are never {name!r}: they are {', '.join(STATES)}")
    return wanted


def _nearest(name: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return ": there are none yet; push a bundle first"
    near = difflib.get_close_matches(name, known, n=_MAX_NAMED, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def zone_of(row: Dags) -> Zone | None:
    """Return the zone of a DAG's schedule, if that has one."""
    try:
        data = json.loads(row.timetable)["data"]
        while "timezone" not in data and "timetable" in data:
            data = data["timetable"]["data"]
        return parse_zone(data["timezone"])
    except UNREADABLE:
        return None


def zone_of_run(row: Runs) -> Zone | None:
    """Return the zone of a run's DAG, if that is still there and has one."""
    dag = read_dag(row.dag_id)
    return zone_of(dag) if dag else None
