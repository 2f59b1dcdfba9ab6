"""`lamplighter watchers`: list watchers, test them on a saved event, resume a parked one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lamplighter import clock
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import check_bundle
from lamplighter.dags.dag import DAG
from lamplighter.errors import RefusedError
from lamplighter.registry.definition import read_definition
from lamplighter.registry.watchers import watchers_of
from lamplighter.store.watchers import read_parked, read_registered_watchers
from lamplighter.store.watchers import resume as resume_watchers
from lamplighter.streams.dry_run import DryRun, dry_run
from lamplighter.streams.watchers import Watcher, watchers_in
from lamplighter.triggers.feeds import SOURCES
from lamplighter_cli import console
from lamplighter_cli.console import instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson

if TYPE_CHECKING:
    from lamplighter.store.models import Catalog, WatcherStates

app = typer.Typer(help="List, test and resume watchers.", no_args_is_help=True)

# What `--queue` calls the queue on which S3 and EventBridge send their events.
_SOURCES = "sources"
# Any account will do: watchers do not look at it.
_ARN = "arn:aws:sqs:us-east-1:000000000000:"


@app.command("list")
@on_deployment
def list_watchers(*, as_json: AsJson = False) -> None:
    """List all watchers: what they read, the stream that they share, the DAGs that they trigger."""
    found = sorted(
        watchers_in(read_registered_watchers()), key=lambda watcher: (watcher.asset, watcher.name)
    )
    parked = read_parked()
    if as_json:
        console.print_json(
            [{**_json_of(each), "parked_at": _parked_at(parked.get(each.id))} for each in found]
        )
        return
    if not found:
        console.out().print("no watchers yet: push a bundle whose assets have watchers")
        return
    table = console.Rows("watcher", "trigger", "reads", "stream", "DAGs", "state")
    for each in found:
        state = Text("parked", "bold red") if each.id in parked else Text("")
        cells = (_class_of(each), _reads(each), each.stream_info.stream or "not shared")
        table.add(Text(each.path, "bold"), *cells, ", ".join(each.dag_ids), state)
    console.out().print(table)


def _parked_at(row: "WatcherStates | None") -> str | None:
    return None if row is None else instant_json(row.updated_at)


def _json_of(watcher: Watcher) -> dict[str, Any]:
    feed = watcher.stream_info.feed
    return {
        "watcher": watcher.path,
        "asset": watcher.asset,
        "trigger": watcher.trigger["type"],
        "arguments": watcher.trigger["data"],
        "queue": _SOURCES if feed.queue == SOURCES else feed.queue,
        "bucket": feed.bucket,
        "event_sources": list(feed.event_sources),
        "stream": watcher.stream_info.stream,
        "dags": list(watcher.dag_ids),
    }


def _class_of(watcher: Watcher) -> str:
    return str(watcher.trigger["type"]).rpartition(".")[2]


def _reads(watcher: Watcher) -> str:
    feed = watcher.stream_info.feed
    if feed.queue == SOURCES:
        return f"bucket {feed.bucket}" if feed.bucket else ", ".join(feed.event_sources)
    if feed.queue is not None:
        return f"queue {feed.queue}"
    return f"bucket {feed.bucket}, polled" if feed.bucket else "polled"


@app.command()
@on_deployment
def resume(
    name: Annotated[str, typer.Argument(help="The watcher, as ASSET/NAME.")],
) -> None:
    """Resume a watcher that was parked because it fired too often."""
    parked = [key for key in read_parked() if key.rpartition("/")[0] == name]
    if not parked:
        names = ", ".join(sorted({key.rpartition("/")[0] for key in read_parked()})) or "none"
        raise RefusedError(f"watcher {name!r} is not parked (parked: {names})")
    resume_watchers(parked)
    line = f"{name} is resumed; events that were held back: lamplighter dlq list"
    console.out().print(Text(line), soft_wrap=True)


# Testing.


@app.command("test")
def run_watcher_test(
    path: Annotated[Path, typer.Argument(help="The bundle: a directory with dags/.")],
    event: Annotated[
        Path, typer.Argument(help="A file with the message body, or with Lambda's event from SQS.")
    ],
    *,
    queue: Annotated[
        str, typer.Option(help='The queue of the message; "sources" for S3 and EventBridge.')
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show which watchers of a bundle would fire for a saved event. Runs offline."""
    root = require_bundle(path)
    found = _declared(root)
    records = _records(event, queue)
    name = str(records[0]["eventSourceARN"]).rpartition(":")[2] or _only_queue(found, records)
    readers = [each for each in found if each.stream_info.feed.queue == _queue_named(name)]
    if not readers:
        queues = sorted({_name_of(each.stream_info.feed.queue) for each in found} - {""})
        raise RefusedError(
            f"no watcher of {path} reads queue {name!r} (read: {', '.join(queues) or 'none'})"
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
    dags = (read_definition(dag).dag for dag in report.dags)
    return watchers_in(row for dag in dags for row in _rows_of(dag))


def _rows_of(dag: DAG) -> "Iterator[Catalog]":
    """Yield the rows that a push would store."""
    for key, watcher in watchers_of(dag).items():
        row = key.row
        row.watcher, row.created_at = watcher, clock.now()
        yield row


def _records(path: Path, queue: str) -> list[dict[str, Any]]:
    """Return the content of a file as records of an SQS event."""
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
    """Return the queue of a message if only one of the bundle's watchers' queues is possible."""
    queues = sorted({_name_of(each.stream_info.feed.queue) for each in watchers} - {""})
    content = _json_or_none(str(records[0]["body"]))
    if isinstance(content, Mapping) and ("Records" in content or "detail-type" in content):
        return _SOURCES
    if len(queues) == 1:
        return queues[0]
    names = ", ".join(queues) or "none"
    raise RefusedError(f"the queue is not clear: pass --queue NAME (watchers read: {names})")


def _queue_named(queue: str) -> str:
    return SOURCES if queue == _SOURCES else queue


def _name_of(queue: str | None) -> str:
    return _SOURCES if queue == SOURCES else queue or ""


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
