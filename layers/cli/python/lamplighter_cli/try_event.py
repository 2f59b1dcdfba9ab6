"""`lamplighter watchers test`: what the watchers of a bundle would make of a saved event."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter import clock
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import check_bundle
from lamplighter.dags.dag import DAG
from lamplighter.errors import RefusedError
from lamplighter.registry.definition import read_definition
from lamplighter.registry.watchers import watchers_of
from lamplighter.store.models import Catalog
from lamplighter.streams.dry_run import DryRun, dry_run
from lamplighter.streams.watchers import Watcher, watchers_in
from lamplighter.triggers.feeds import SOURCES
from lamplighter_cli import console
from lamplighter_cli.options import AsJson

# Of the account that emulators have: where a queue is does not matter to watchers.
_ARN = "arn:aws:sqs:us-east-1:000000000000:"


def try_event(
    path: Annotated[Path, typer.Argument(help="The bundle: a folder with dags/.")],
    event: Annotated[
        Path, typer.Argument(help="A file with what was sent: a message, or Lambda's event of SQS.")
    ],
    *,
    queue: Annotated[
        str, typer.Option(help='The queue it came on. "sources": S3 and EventBridge.')
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show which watchers of a bundle would fire for a saved event. Nothing is sent."""
    root = require_bundle(path)
    found = _declared(root)
    records = _records(event, queue)
    name = str(records[0]["eventSourceARN"]).rpartition(":")[2] or _only_queue(found, records)
    readers = [each for each in found if each.stream_info.feed.queue == _known_as(name)]
    if not readers:
        queues = sorted({_shown(each.stream_info.feed.queue) for each in found} - {""})
        raise RefusedError(
            f"no watcher of {path} reads queue {name!r} (they read: {', '.join(queues) or 'none'})"
        )
    for record in records:
        record["eventSourceARN"] = f"{_ARN}{name}"
    tried = dry_run(readers, records, root=root)
    if as_json:
        console.print_json([_tried_json(each) for each in tried])
        return
    table = console.Rows("watcher", "would", "payload")
    for each in tried:
        table.add(Text(each.watcher.path, "bold"), *_outcome(each))
    console.out().print(table)


def _declared(root: Path) -> list[Watcher]:
    report = check_bundle(root)
    for problem in report.errors:
        console.error(f"{problem.file}: {problem.message}")
    dags = [read_definition(dag).dag for dag in report.dags]
    rows = [row for dag in dags for row in _rows_of(dag)]
    return watchers_in(rows)


def _rows_of(dag: DAG) -> Iterable[Catalog]:
    for key, watcher in watchers_of(dag).items():
        yield Catalog(key.row.kind, key.row.id, watcher=watcher, created_at=clock.now())


def _records(path: Path, queue: str) -> list[dict[str, Any]]:
    """Return a file as Lambda would bring it."""
    try:
        body = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{path} cannot be read: {error}") from error
    content = _json_or_none(body)
    records = content.get("Records") if isinstance(content, Mapping) else None
    if isinstance(records, list) and records and "eventSourceARN" in records[0]:
        return [
            {"messageId": str(at), "receiptHandle": "", **each} for at, each in enumerate(records)
        ]
    arn = f"{_ARN}{queue}" if queue else ""
    return [{"messageId": "tried", "receiptHandle": "", "body": body, "eventSourceARN": arn}]


def _json_or_none(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _only_queue(watchers: Sequence[Watcher], records: Sequence[Mapping[str, Any]]) -> str:
    """Return the queue on which the bundle's watchers would hear it, if there is no doubt."""
    queues = sorted({_shown(each.stream_info.feed.queue) for each in watchers} - {""})
    content = _json_or_none(str(records[0]["body"]))
    if isinstance(content, Mapping) and ("Records" in content or "detail-type" in content):
        return "sources"
    if len(queues) == 1:
        return queues[0]
    names = ", ".join(queues) or "none"
    raise RefusedError(f"which queue did it come on? Say --queue NAME (they read: {names})")


def _known_as(queue: str) -> str:
    return SOURCES if queue == "sources" else queue


def _shown(queue: str | None) -> str:
    return "sources" if queue == SOURCES else queue or ""


def _outcome(tried: DryRun) -> tuple[Text, str]:
    payloads = "; ".join(json.dumps(each) for each in tried.payloads)
    if tried.error is not None:
        return Text(f"fail: {tried.error}", "bold red"), payloads
    if tried.rejected:
        return Text(
            f"reject: {tried.rejected[0].partition(': ')[2] or 'no reason'}", "yellow"
        ), payloads
    if tried.payloads:
        times = f" {len(tried.payloads)} times" if len(tried.payloads) > 1 else ""
        return Text(f"fire{times}", "green"), payloads
    return Text("skip"), ""


def _tried_json(tried: DryRun) -> dict[str, Any]:
    return {
        "watcher": tried.watcher.path,
        "asset": tried.watcher.asset,
        "payloads": tried.payloads,
        "rejected": tried.rejected,
        "error": None if tried.error is None else str(tried.error),
    }
