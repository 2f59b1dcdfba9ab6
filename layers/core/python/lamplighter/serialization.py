"""DAGs as JSON documents: exact both ways, canonical, versioned, and with a hash of the content.

No pickle, no eval, no class outside a closed list. A change of the format adds one to `SCHEMA` and
a step to `_UPGRADES` that turns a document of the version before into the next; documents from the
future are refused, and left as they are, because an upgrade of the deployment may be under way.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from lamplighter.assets.asset import decode_condition, encode_condition
from lamplighter.assets.condition import AssetCondition
from lamplighter.dags.arguments import strings
from lamplighter.dags.dag import DAG, PLAIN_ARGUMENTS
from lamplighter.dags.kinds import KINDS
from lamplighter.dags.params import join
from lamplighter.dags.task import Task
from lamplighter.errors import (
    UNREADABLE,
    DefinitionError,
    NewerFormError,
    SerializationError,
)
from lamplighter.identifiers import require_id
from lamplighter.timetables.base import decode_timetable, encode_timetable
from lamplighter.zones import Zone, encode_zone, iso, parse_instant, parse_zone

SCHEMA = 4
MAX_BYTES = 1_000_000

_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: lambda document: {**document, "schema": 2, "allowed_run_types": None},
    2: lambda document: {
        **document,
        "schema": 3,
        "allow_cycle": False,
        "tasks": [{"restrict_data": False, **task} for task in document["tasks"]],
    },
    3: lambda document: {
        **document,
        "schema": 4,
        "param_schemas": {},
        "tasks": [
            {"kind": "spark", "inputs": [], "groups": [], **task} for task in document["tasks"]
        ],
    },
}

_INSTANTS = frozenset({"start_date", "end_date"})
_ASSETS = frozenset({"inlets", "outlets"})
_DAG_KEYS = frozenset(
    {"schema", "dag_id", "timezone", "timetable", "param_schemas", "tasks", *PLAIN_ARGUMENTS}
)
_TASK_KEYS = frozenset({"task_id", "kind", "groups", "downstream"})


def encode_dag(dag: DAG) -> dict[str, Any]:
    """Return the document of `dag`, after checking that the whole definition holds together."""
    dag.validate()
    dag.check_limits()
    document = {
        "schema": SCHEMA,
        "dag_id": dag.dag_id,
        "timezone": encode_zone(dag.timezone),
        "timetable": encode_timetable(dag.timetable),
        **{name: _encode(getattr(dag, name)) for name in PLAIN_ARGUMENTS},
        "param_schemas": dag.param_schemas,
        # By id: tasks made from a set come in another order in every process.
        "tasks": [_encode_task(task) for _, task in sorted(dag.tasks.items())],
    }
    try:
        size = len(to_json(document).encode())
    except (TypeError, ValueError) as error:
        raise SerializationError(f"DAG {dag.dag_id!r}: not JSON: {error}") from error
    if size > MAX_BYTES:
        raise SerializationError(
            f"DAG {dag.dag_id!r}: its document has {size:,} bytes, at most {MAX_BYTES:,} are"
            " allowed: split the DAG or move data out of its arguments"
        )
    return document


def decode_dag(document: dict[str, Any]) -> DAG:
    """Return the DAG of a document, checked as if an author had written it.

    An author's own timetable or trigger is loaded only inside `author_code_allowed`.
    """
    document = upgrade(document)
    try:
        return _decode_dag(document)
    except DefinitionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SerializationError(
            f"document of DAG {document.get('dag_id')!r} is damaged: {error!r}"
        ) from error


def zone_of_schedule(timetable: dict[str, Any]) -> Zone | None:
    """Return the time zone that the document of a timetable names, if it names one."""
    try:
        data = timetable["data"]
        while "timezone" not in data and "timetable" in data:
            data = data["timetable"]["data"]
        return parse_zone(data["timezone"])
    except UNREADABLE:  # an author's timetable may call anything its time zone
        return None


def zone_of_dag(document: dict[str, Any]) -> Zone:
    """Return the time zone in which people name dates of a DAG: its schedule's, or its own."""
    return zone_of_schedule(document["timetable"]) or parse_zone(document["timezone"])


def to_json(document: dict[str, Any]) -> str:
    """Return the one spelling of a document: equal documents give equal text."""
    return json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def content_hash(document: dict[str, Any]) -> str:
    """Return a hash that changes exactly when the definition does."""
    return hashlib.sha256(to_json(document).encode()).hexdigest()


def _encode_task(task: Task) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "kind": task.kind,
        "groups": list(task.group_ids),
        **{name: _encode(value) for name, value in task.options().items()},
        "downstream": sorted(task.downstream_task_ids),
    }


def _encode(value: object) -> object:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, AssetCondition):
        return encode_condition(value)
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    return value


def _decode_dag(document: dict[str, Any]) -> DAG:
    _require_keys(document, _DAG_KEYS, f"DAG {document.get('dag_id')!r}")
    arguments = {name: _decode(name, document[name]) for name in PLAIN_ARGUMENTS}
    if arguments["start_date"] is not None:
        zone = parse_zone(document["timezone"])
        arguments["start_date"] = arguments["start_date"].in_timezone(zone)
    arguments["params"] = join(document["params"], document["param_schemas"])
    dag = DAG(document["dag_id"], schedule=decode_timetable(document["timetable"]), **arguments)
    for data in document["tasks"]:
        kind, what = KINDS[data["kind"]], f"DAG {dag.dag_id!r}: task {data.get('task_id')!r}"
        _require_keys(data, _TASK_KEYS | kind.OPTIONS.keys(), what)
        options: Any = {name: _decode(name, data[name]) for name in kind.OPTIONS}
        task = kind(data["task_id"], dag=dag, **options)
        groups = strings(data["groups"])
        task.group_ids = tuple(require_id(each, what=f"{what}: group") for each in groups)
    for data in document["tasks"]:
        for downstream in data["downstream"]:
            dag.tasks[data["task_id"]] >> dag.tasks[downstream]
    dag.validate()
    return dag


def _decode(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _INSTANTS:
        return parse_instant(value)
    if name in _ASSETS:
        return [decode_condition(item) for item in value]
    return value


def _require_keys(data: dict[str, Any], keys: frozenset[str], what: str) -> None:
    if set(data) != keys:
        missing, unknown = sorted(keys - set(data)), sorted(set(data) - keys)
        raise SerializationError(f"{what}: missing {missing}, unknown {unknown}")


def is_newer(version: object, known: int) -> bool:
    """Return whether a version number is one that only newer releases know."""
    return isinstance(version, int) and not isinstance(version, bool) and version > known


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return `document` in the present version, or refuse it."""
    version = document.get("schema") if isinstance(document, dict) else None
    if is_newer(version, SCHEMA):
        raise NewerFormError(f"the document of DAG {document.get('dag_id')!r}", version, SCHEMA)
    while version != SCHEMA:
        if not isinstance(version, int) or version not in _UPGRADES:
            raise SerializationError(
                f"document of schema version {version!r}: this library reads 1 to {SCHEMA};"
                " push the bundle again"
            )
        document = _UPGRADES[version](document)
        version = document.get("schema")
    return document
