"""Invokes the sandbox, the function that runs author code; its results are never trusted."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lamplighter import aws, queues, settings
from lamplighter.bundles.answers import MAX_BUNDLE_BYTES
from lamplighter.bundles.importer import ImportProblem, ParsedFile
from lamplighter.bundles.parsing import MAX_FILES_PER_CALL
from lamplighter.dags.upcoming import TimetableQuery
from lamplighter.errors import DefinitionError, TransientError, in_short
from lamplighter.identifiers import bundle_key, is_id

# The maximum duration of a Lambda invocation.
_READ_SECONDS = 900.0
# Each may take 30 seconds, one after the other.
_QUERIES_PER_CALL = 20
# DynamoDB's limit for an index key.
MAX_KEY_BYTES = 1_024

_NO_DAG = "the sandbox returned something that is not a DAG"
_SHAPE: dict[str, type | tuple[type, ...]] = {
    "dag_id": str,
    "line": (int, type(None)),
    "hash": str,
    "schedule": str,
    "description": str,
    "document": dict,
}


class Sandbox:
    """The sandbox for one version of one bundle."""

    def __init__(self, bundle: str, version: str) -> None:
        self._bucket = settings.current().require("bucket")
        self._key = bundle_key(bundle, version)
        self._results = f"results/{bundle}/{version}"
        # Of what it has answered.
        self._bytes = 0

    def parse(self) -> Iterator[ParsedFile]:
        """Yield the DAGs of each file; an invalid result is an error of its file."""
        files = self._invoke({"verb": "list"})["files"]
        self._bytes = 0
        for asked in queues.chunks(files, MAX_FILES_PER_CALL):
            found = self._invoke({"verb": "parse", "files": asked})["files"]
            if self._bytes > MAX_BUNDLE_BYTES:
                raise _too_much()
            # By position: author code may have changed the name in a result.
            for file, data in zip(asked, found, strict=True):
                yield _read_file(file, data)

    def upcoming_runs(self, queries: Sequence[TimetableQuery]) -> dict[str, Any]:
        """Return the results of custom timetables by DAG id."""
        found: dict[str, Any] = {}
        for asked in queues.chunks(queries, _QUERIES_PER_CALL):
            results = self._invoke({"verb": "runs", "queries": asked})["results"]
            found.update(zip((query["dag_id"] for query in asked), results, strict=True))
        return found

    def _invoke(self, request: dict[str, Any]) -> dict[str, Any]:
        result_key = f"{self._results}/{uuid.uuid4().hex}.json"
        place = {"bucket": self._bucket, "key": self._key, "result_key": result_key}
        response = aws.client("lambda", read_seconds=_READ_SECONDS).invoke(
            FunctionName=settings.current().require("sandbox_function"),
            Payload=json.dumps(request | place).encode(),
        )
        data = response["Payload"].read()
        payload: dict[str, Any] = json.loads(data)
        if response.get("FunctionError"):
            # The function failed: out of time or memory, or access denied. An author cannot fix
            # that; the message is retried and finally goes to the dead-letter queue.
            raise TransientError(f"the sandbox failed: {payload.get('errorMessage', payload)}")
        if "result_key" in payload:
            body = aws.client("s3").get_object(Bucket=self._bucket, Key=result_key)
            data = body["Body"].read(2 * MAX_BUNDLE_BYTES)
            if len(data) == 2 * MAX_BUNDLE_BYTES:
                raise _too_much()
            payload = json.loads(data)
        self._bytes += len(data)
        if "error" in payload:
            raise DefinitionError(payload["error"])
        return payload


def _too_much() -> DefinitionError:
    return DefinitionError(
        f"the bundle's DAG files define more than {MAX_BUNDLE_BYTES:,} bytes: push fewer DAGs, or"
        " smaller ones, or divide the bundle"
    )


def _read_file(file: str, data: Any) -> ParsedFile:
    try:
        return ParsedFile.from_json({**data, "file": file})
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return ParsedFile.failed(file, f"the sandbox returned an invalid result: {error!r}")


def drop_malformed(files: Iterable[ParsedFile]) -> tuple[list[ParsedFile], list[ImportProblem]]:
    """Return the files with well-formed DAGs, and a problem for everything else."""
    kept: list[ParsedFile] = []
    malformed: list[ImportProblem] = []
    for file in files:
        name = _name_of(file)
        dags = file.dags if isinstance(file.dags, list) else [file.dags]
        valid = [found for found in dags if _is_dag(found)]
        malformed += [ImportProblem(name, None, _NO_DAG)] * (len(dags) - len(valid))
        kept.append(
            ParsedFile(
                name,
                valid,
                [_own_problem(name, problem) for problem in file.warnings],
                [_own_problem(name, problem) for problem in file.errors],
            )
        )
    return kept, malformed


def _name_of(file: ParsedFile) -> str:
    is_name = isinstance(file.file, str) and 0 < len(file.file.encode()) <= MAX_KEY_BYTES
    return file.file if is_name else "(a file without a name)"


def _own_problem(file: str, problem: ImportProblem) -> ImportProblem:
    line = problem.line if isinstance(problem.line, int) else None
    return ImportProblem(file, line, in_short(problem.message), tuple(map(str, problem.frames)))


def _is_dag(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and found.keys() == _SHAPE.keys()
        and all(isinstance(found[name], kind) for name, kind in _SHAPE.items())
        and is_id(found["dag_id"])  # it becomes a key, whatever else is wrong with the DAG
    )
