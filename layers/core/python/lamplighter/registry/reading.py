"""Reads what the sandbox says about DAGs. It ran author code, so nothing it says is believed."""

import gzip
from collections.abc import Iterable
from typing import Any

from lamplighter.bundles.check import CheckedDag
from lamplighter.bundles.importer import ParsedFile, Problem
from lamplighter.errors import UNREADABLE, DefinitionError, SerializationError, in_short
from lamplighter.loading import author_code_as_data
from lamplighter.registry.definition import Definition
from lamplighter.serialization import content_hash, decode_dag, to_json
from lamplighter.serialization.dags import MAX_BYTES
from lamplighter.timetables.codec import is_foreign

# A person can read the document in the table up to here; then it is compressed.
_READABLE_BYTES = 16_000
# A row may have 400 KB in all.
_MAX_STORED_BYTES = 350_000
# It is on the DAG's row, which every claim reads.
_MAX_TIMETABLE_BYTES = 64_000

# What an index takes for a key.
_MAX_NAME_BYTES = 1_024

_NO_DAG = "the sandbox found something that is no DAG"
_SHAPE: dict[str, type | tuple[type, ...]] = {
    "dag_id": str,
    "line": (int, type(None)),
    "hash": str,
    "schedule": str,
    "description": str,
    "document": dict,
}


def keep_sound(files: Iterable[ParsedFile]) -> tuple[list[ParsedFile], list[Problem]]:
    """Return the files with what has the shape of a DAG, and what to say about the rest."""
    kept: list[ParsedFile] = []
    nonsense: list[Problem] = []
    for file in files:
        name = _name_of(file)
        dags = file.dags if isinstance(file.dags, list) else [file.dags]
        sound = [found for found in dags if _is_sound(found)]
        nonsense += [Problem(name, None, _NO_DAG)] * (len(dags) - len(sound))
        kept.append(
            ParsedFile(
                name,
                sound,
                [_problem(name, said) for said in file.warnings],
                [_problem(name, said) for said in file.errors],
            )
        )
    return kept, nonsense


def _name_of(file: ParsedFile) -> str:
    is_name = isinstance(file.file, str) and 0 < len(file.file.encode()) <= _MAX_NAME_BYTES
    return file.file if is_name else "(a file without a name)"


def _problem(file: str, said: Problem) -> Problem:
    """Return a problem of this file, whatever it says it is of."""
    line = said.line if isinstance(said.line, int) else None
    return Problem(file, line, in_short(said.message), tuple(map(str, said.frames)))


def _is_sound(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.keys() == _SHAPE.keys()
        and all(isinstance(found[name], kind) for name, kind in _SHAPE.items())
    )


def read_definition(found: CheckedDag) -> Definition:
    """Return a DAG that is what it says, or raise a `DefinitionError`."""
    document = {**found.document, "dag_id": found.dag_id}
    try:
        with author_code_as_data():
            dag = decode_dag(document)
        text = to_json(document)
        definition = Definition(
            dag=dag,
            hash=content_hash(document),
            file=found.file,
            stored=_stored(found.dag_id, text),
            # An author's timetable is only data here, and its words are known from the sandbox.
            schedule=in_short(found.schedule)
            if is_foreign(dag.timetable)
            else dag.timetable.summary,
        )
        timetable = len(to_json(document["timetable"]).encode())
    except DefinitionError:
        raise
    except UNREADABLE as error:
        raise SerializationError(f"DAG {found.dag_id!r} cannot be read: {error!r}") from error
    if len(f"{found.file}#{found.dag_id}".encode()) > _MAX_NAME_BYTES:
        raise DefinitionError(f"DAG {found.dag_id!r}: its file and id are too long together")
    if timetable > _MAX_TIMETABLE_BYTES:
        raise DefinitionError(
            f"DAG {found.dag_id!r}: schedule: it has {timetable:,} bytes when written down, at most"
            f" {_MAX_TIMETABLE_BYTES:,} are allowed: list fewer events, or compute them"
        )
    return definition


def _stored(dag_id: str, text: str) -> str | bytes:
    data = text.encode()
    if len(data) <= _READABLE_BYTES:
        return text
    packed = gzip.compress(data, mtime=0)
    if len(data) > MAX_BYTES or len(packed) > _MAX_STORED_BYTES:
        raise SerializationError(
            f"DAG {dag_id!r}: its document has {len(data):,} bytes, {len(packed):,} compressed; at"
            f" most {MAX_BYTES:,} and {_MAX_STORED_BYTES:,} can be stored: split the DAG"
        )
    return packed
