"""The `sandbox` function: runs author code, with rights to read bundles and put its results.

Verbs: `list` names the DAG files of a bundle, `parse` reads some of them, `runs` asks timetables.
"""

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamplighter import aws
from lamplighter.bundles import processes
from lamplighter.bundles.archive import MAX_ARCHIVE_BYTES, open_stored
from lamplighter.bundles.layout import dag_files
from lamplighter.bundles.parsing import limits_within, parse_files, query_timetables
from lamplighter.errors import DefinitionError
from lamplighter.logs import logger_of

# Lambda returns 6 MB at most; the rest is room for escapes in the text.
MAX_RESULT_BYTES = 5_000_000

logger = logger_of("sandbox")

if processes.is_in_lambda():
    processes.shield()
    aws.withdraw_credentials()
    # Of a process that Lambda, or this function, has ended.
    processes.empty_disk()


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return the result of the event's verb; one too large for Lambda is put under `result_key`."""
    try:
        return _answer(event, context)
    except OSError:
        logger.exception("the disk, or the processes, of this environment cannot be used any more")
        processes.end_environment()
        raise
    finally:
        processes.leave_nothing()


def _answer(event: dict[str, Any], context: Any) -> dict[str, Any]:
    s3 = aws.client("s3")
    try:
        body = s3.get_object(Bucket=event["bucket"], Key=event["key"])["Body"]
    except s3.exceptions.NoSuchKey:
        return {"error": f"there is no archive {event['key']}: push the bundle again"}
    memory_bytes = int(context.memory_limit_in_mb) * 1024**2
    with TemporaryDirectory() as folder:
        try:
            # One byte more than allowed is enough to be refused.
            data = body.read(MAX_ARCHIVE_BYTES + 1)
            root = open_stored(data, event["key"], Path(folder) / "bundle")
        except DefinitionError as error:
            return {"error": str(error)}
        result = _result(root, event, memory_bytes)
    text = json.dumps(result).encode()
    if len(text) <= MAX_RESULT_BYTES:
        return result
    s3.put_object(Bucket=event["bucket"], Key=event["result_key"], Body=text)
    return {"result_key": event["result_key"]}


def _result(root: Path, event: dict[str, Any], memory_bytes: int) -> dict[str, Any]:
    limits = limits_within(memory_bytes)
    match event["verb"]:
        case "list":
            return {"files": dag_files(root)}
        case "parse":
            parsed = parse_files(root, event["files"], limits=limits)
            return {"files": [asdict(file) for file in parsed]}
        case "runs":
            return {"results": query_timetables(root, event["queries"], limits=limits)}
    raise ValueError(f"unknown verb {event['verb']!r}")
