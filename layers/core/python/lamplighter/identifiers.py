"""Names of runs, DAGs, tasks and archives: how they are built and which are allowed.

Owns: the run id of every kind of run. Ids are derived from content and never random, so that a
repeated attempt to create the same run finds the same name.
"""

import hashlib
import json
import re
from typing import Any

from pendulum import DateTime

from lamplighter.errors import DefinitionError
from lamplighter.zones import iso

MAX_ID_LENGTH = 200
MAX_ASSET_ID_LENGTH = 100
RUN_TYPES = frozenset({"scheduled", "manual", "asset_triggered", "backfill"})
_ALIAS = "alias:"
# How the id of an event begins that tells of a step's outlet.
OUTLET = "outlet-"
# How the key of a run begins whose id a person chose; it sorts after every date.
FREE_TEXT = "~"
_ID = re.compile(r"[A-Za-z0-9._~-]+")


def is_id(value: str) -> bool:
    """Return whether a text may name a DAG or a task."""
    return len(value) <= MAX_ID_LENGTH and _ID.fullmatch(value) is not None


def require_id(value: object, *, what: str) -> str:
    """Return `value` if it may name a DAG or a task, else raise an error that names it."""
    if not isinstance(value, str) or not value:
        raise DefinitionError(f"{what}: an id must be a non-empty string, not {value!r}")
    if len(value) > MAX_ID_LENGTH:
        raise DefinitionError(
            f"{what} {value[:40]!r}…: the id has {len(value)} characters, at most {MAX_ID_LENGTH}"
            " are allowed"
        )
    if not _ID.fullmatch(value):
        bad = "".join(sorted(set(re.sub(_ID, "", value))))
        raise DefinitionError(
            f"{what} {value!r}: the id may hold letters, digits and . _ ~ - only, not {bad!r}"
        )
    return value


def run_id(
    run_type: str,
    *,
    run_after: DateTime,
    logical_date: DateTime | None,
    partition_key: str | None = None,
    content: dict[str, Any] | None = None,
) -> str:
    """Return the id of a run.

    A dated run is named by its logical date, a partitioned one by its instant and key, and an
    undated one by its instant and eight hexadecimal digits that stand for `content`.
    """
    if logical_date is not None:
        return f"{run_type}__{iso(logical_date)}"
    instant = iso(run_after)
    if partition_key is not None:
        return f"{run_type}__{instant}~{partition_key}"
    text = json.dumps([run_type, instant, content or {}], sort_keys=True, default=str)
    return f"{run_type}__{instant}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def asset_id(name: str) -> str:
    """Return the id of an asset: its name where that can be a key, else a readable stand-in."""
    if len(name) <= MAX_ASSET_ID_LENGTH and _ID.fullmatch(name):
        return name
    slug = re.sub(r"[^A-Za-z0-9._~-]+", "-", name).strip("-")[:MAX_ASSET_ID_LENGTH]
    return f"{slug}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def alias_id(name: str) -> str:
    """Return the id of an alias; the colon keeps it apart from assets, whose ids have none."""
    return f"{_ALIAS}{asset_id(name)}"


def is_alias(key: str) -> bool:
    """Return whether an id is that of an alias."""
    return key.startswith(_ALIAS)


def uri_id(uri: str) -> str:
    """Return the id of a URI in its normal form, under which it leads to the asset that has it."""
    # Hadoop's names for S3 mean the same places.
    place = re.sub(r"^s3[an]://", "s3://", uri)
    return f"uri:{hashlib.sha256(place.encode()).hexdigest()[:32]}"


def run_key(run_id: str) -> str:
    """Return the key under which a run is stored: what follows the type in its id.

    Runs of one logical date share it whatever their type, so that the key forbids a second one. An
    id that a person chose freely is marked, and never meets a date.
    """
    kind, mark, rest = run_id.partition("__")
    return rest if mark and kind in RUN_TYPES and rest else f"{FREE_TEXT}{run_id}"


def bundle_key(bundle: str, version: str) -> str:
    """Return where in the bucket the archive of a bundle's version is."""
    return f"bundles/{bundle}/{version}.zip"
