"""`lamplighter assets`: list and show assets, and send events."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lamplighter.events.emit import emit as send
from lamplighter.registry.assets import producers_of
from lamplighter.safe_text import masked
from lamplighter.store.assets import (
    assets_and_consumers,
    consumers_of,
    read_asset_queue,
    read_assets,
)
from lamplighter_cli import console
from lamplighter_cli.console import instant, instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_asset
from lamplighter_cli.options import AsJson, read_json

if TYPE_CHECKING:
    from lamplighter.store.models import Assets

app = typer.Typer(help="List and show assets, and send events.", no_args_is_help=True)


@app.command("list")
@on_deployment
def list_assets(*, as_json: AsJson = False) -> None:
    """List all assets and aliases with their last updates and number of consumers."""
    rows, consumers = assets_and_consumers()
    shown = sorted(filter(_is_listed, rows), key=lambda row: (row.kind or "", _name(row)))
    if as_json:
        console.print_json(
            [_asset_json(row) | {"consumers": consumers[row.asset_id]} for row in shown]
        )
        return
    if not shown:
        console.out().print("no assets yet: push a bundle whose DAGs use some")
        return
    table = console.Rows("asset", "kind", "URI", "events", "last update", "consumers")
    for row in shown:
        cells = (row.kind or "", _uri(row) or "", f"{row.seq or 0:.0f}", instant(row.recorded_at))
        table.add(Text(_name(row), "bold"), *cells, str(consumers[row.asset_id]))
    console.out().print(table)


def _is_listed(row: "Assets") -> bool:
    """Return whether a row is listed: URIs only if a DAG waits for the URI itself."""
    return row.kind != "uri" or bool(row.has_consumers)


def _name(row: "Assets") -> str:
    return row.name or row.uri or row.asset_id


def _uri(row: "Assets") -> str | None:
    return None if row.uri == row.name else row.uri


def _asset_json(row: "Assets") -> dict[str, Any]:
    return {
        "asset": _name(row),
        "kind": row.kind,
        "uri": row.uri,
        "group": row.group,
        "seq": int(row.seq or 0),
        "last_update": instant_json(row.recorded_at),
    }


@app.command()
@on_deployment
def show(
    asset: Annotated[str, typer.Argument(help="The name of an asset or alias, or a URI.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show an asset: its last update, its producers and its consumers."""
    row = find_asset(asset)
    producers = producers_of(row.asset_id)
    consumers = _consumers(row)
    if as_json:
        described = {
            "extra": masked(row.extra or {}),
            "producers": [each._asdict() for each in producers],
        }
        console.print_json({**_asset_json(row), **described, "consumers": consumers})
        return
    out = console.out()
    values = {
        "asset": Text(_name(row), "bold"),
        "kind": row.kind,
        "URI": _uri(row),
        "group": row.group,
        "extra": json.dumps(masked(row.extra)) if row.extra else None,
        "events": f"{row.seq or 0:.0f}",
        "last update": instant(row.recorded_at) or "never",
        "producers": ", ".join(f"{each.dag_id}/{each.task_id}" for each in producers) or "none",
    }
    out.print(console.details(values))
    out.print()
    if not consumers:
        out.print("no consumers")
        return
    table = console.Rows("consumer", "consumed", "pending")
    for each in consumers:
        cells = (each["dag_id"], f"{each['consumed_seq']} of {each['seq']}", str(each["pending"]))
        table.add(*cells)
    out.print(table)


def _consumers(row: "Assets") -> list[dict[str, Any]]:
    """Return the DAGs that consume an asset, or its URI, and how many events each has consumed."""
    assets = {row.asset_id: row} | (read_assets(row.mirrored_uris) if row.mirrored_uris else {})
    keys = [(dag_id, key) for key in assets for dag_id in consumers_of(key)]
    found = read_asset_queue(keys) if keys else []
    return [
        {
            "dag_id": queue.dag_id,
            "consumed_seq": int(queue.consumed_seq),
            "seq": (seq := int(assets[queue.asset_id].seq or 0)),
            "pending": max(0, seq - int(queue.consumed_seq)),
        }
        for queue in sorted(found, key=lambda queue: queue.dag_id)
    ]


@app.command()
@on_deployment
def emit(
    asset: Annotated[str, typer.Argument(help="The name of the asset, or its URI (with ://).")],
    *,
    extra: Annotated[str, typer.Option(help="Metadata as JSON: '{\"rows\": 10}'.")] = "",
    event_id: Annotated[
        str, typer.Option(help="A custom id; events with the same id are recorded once.")
    ] = "",
    timestamp: Annotated[str, typer.Option(help="When it happened. Default: now.")] = "",
    partition_key: Annotated[str, typer.Option(help="The partition key of the event.")] = "",
    alias: Annotated[
        list[str] | None, typer.Option(help="An alias that the event also belongs to; repeatable.")
    ] = None,
    source: Annotated[str, typer.Option(help="The sender, for information.")] = "",
    lane: Annotated[
        str, typer.Option(help="Send it to the FIFO queue; events of one lane keep their order.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Send an event of an asset; DAGs that wait for it get a run."""
    named: dict[str, Any] = {"uri": asset} if "://" in asset else {"asset": asset}
    sent = send(
        **named,
        extra=read_json("--extra", extra) if extra else None,
        event_id=event_id or None,
        timestamp=timestamp or None,
        partition_key=partition_key or None,
        aliases=alias or (),
        source=source or None,
        lane=lane or None,
    )
    if as_json:
        console.print_json({"event_id": sent, **named})
        return
    line = f"sent event {sent} of {asset}; see: lamplighter events trace {sent}"
    console.out().print(Text(line), soft_wrap=True)
