"""`lamplighter watchers`: who watches what."""

from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter.store.models import Catalog
from lamplighter.store.watchers import read_parked, read_registered_watchers
from lamplighter.store.watchers import resume as let_fire
from lamplighter.streams.watchers import Watcher, watchers_in
from lamplighter.triggers.feeds import SOURCES
from lamplighter_cli import console
from lamplighter_cli.console import instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson
from lamplighter_cli.try_event import try_event

app = typer.Typer(
    help="Watchers: list them, try them on an event, resume one.", no_args_is_help=True
)


@app.command("list")
@on_deployment
def list_watchers(*, as_json: AsJson = False) -> None:
    """Show every watcher: its asset, what it reads and with whom, the DAGs that it wakes."""
    registered = watchers_in(read_registered_watchers())
    found = sorted(registered, key=lambda watcher: (watcher.asset, watcher.name))
    parked = read_parked()
    if as_json:
        console.print_json(
            [{**_json_of(each), "parked_at": _parked_at(parked.get(each.id))} for each in found]
        )
        return
    if not found:
        console.out().print("no watchers yet: push a bundle whose assets have some")
        return
    table = console.Rows("watcher", "trigger", "reads", "stream", "DAGs", "state")
    for each in found:
        state = Text("parked", "bold red") if each.id in parked else Text("")
        cells = (_class_of(each), _reads(each), each.stream_info.stream or "its own")
        table.add(Text(each.path, "bold"), *cells, ", ".join(each.dag_ids), state)
    console.out().print(table)


def _parked_at(row: Catalog | None) -> str | None:
    return None if row is None else instant_json(row.updated_at)


def _json_of(watcher: Watcher) -> dict[str, Any]:
    feed = watcher.stream_info.feed
    return {
        "watcher": watcher.path,
        "asset": watcher.asset,
        "trigger": watcher.trigger["type"],
        "arguments": watcher.trigger["data"],
        "queue": "sources" if feed.queue == SOURCES else feed.queue,
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
    """Let a watcher fire again that was parked for firing too often."""
    parked = [key for key in read_parked() if key.rpartition("/")[0] == name]
    if not parked:
        names = ", ".join(sorted({key.rpartition("/")[0] for key in read_parked()})) or "none"
        raise RefusedError(f"watcher {name!r} is not parked (these are: {names})")
    let_fire(parked)
    said = f"{name} fires again; what it was not allowed to send: lamplighter dlq list"
    console.out().print(Text(said), soft_wrap=True)


app.command("test")(try_event)
