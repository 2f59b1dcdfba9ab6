"""`lamplighter assets`: what is known of assets, and telling that one of them has news."""

import json
from collections import Counter
from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter.events.emit import emit as send
from lamplighter.registry.assets import producers_of
from lamplighter.store.assets import consumers_of
from lamplighter.store.models import AssetQueue, Assets
from lamplighter.store.models.assets import CONSUMER, ITSELF
from lamplighter_cli import console
from lamplighter_cli.console import instant, instant_json
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.finding import find_asset
from lamplighter_cli.options import AsJson, read_json

app = typer.Typer(help="Assets: list them, look at one, push an event.", no_args_is_help=True)


@app.command("list")
@on_deployment
def list_assets(*, as_json: AsJson = False) -> None:
    """Show all assets and aliases with their last updates and how many DAGs wait for them."""
    rows = list(Assets.scan())
    waiting = Counter(row.asset_id for row in rows if row.ref.startswith(CONSUMER))
    shown = sorted(filter(_is_shown, rows), key=lambda row: (row.kind or "", _name(row)))
    if as_json:
        console.print_json(
            [_asset_json(row) | {"consumers": waiting[row.asset_id]} for row in shown]
        )
        return
    if not shown:
        console.out().print("no assets yet: push a bundle whose DAGs name some")
        return
    table = console.Rows("asset", "kind", "URI", "events", "last update", "consumers")
    for row in shown:
        cells = (row.kind or "", _uri(row) or "", f"{row.seq or 0:.0f}", instant(row.recorded_at))
        table.add(Text(_name(row), "bold"), *cells, str(waiting[row.asset_id]))
    console.out().print(table)


def _is_shown(row: Assets) -> bool:
    """Return whether a row is an asset to people: a URI only where a DAG waits for it as such."""
    return row.ref == ITSELF and (row.kind != "uri" or bool(row.has_consumers))


def _name(row: Assets) -> str:
    return row.name or row.uri or row.asset_id


def _uri(row: Assets) -> str | None:
    return None if row.uri == row.name else row.uri


def _asset_json(row: Assets) -> dict[str, Any]:
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
    asset: Annotated[str, typer.Argument(help="The asset's or alias's name, or its URI.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show an asset: its last update, the tasks that produce it, the DAGs that wait for it."""
    row = find_asset(asset)
    producers = producers_of(row.asset_id)
    consumers = _consumers(row)
    if as_json:
        described = {"extra": row.extra or {}, "producers": [each._asdict() for each in producers]}
        console.print_json({**_asset_json(row), **described, "consumers": consumers})
        return
    out = console.out()
    facts = {
        "asset": Text(_name(row), "bold"),
        "kind": row.kind,
        "URI": _uri(row),
        "group": row.group,
        "extra": json.dumps(row.extra) if row.extra else None,
        "events": f"{row.seq or 0:.0f}",
        "last update": instant(row.recorded_at) or "never",
        "producers": ", ".join(f"{each.dag_id}/{each.task_id}" for each in producers) or "none",
    }
    out.print(console.facts(facts))
    out.print()
    if not consumers:
        out.print("nobody waits for it")
        return
    table = console.Rows("consumer", "consumed up to", "pending")
    for each in consumers:
        cells = (each["dag_id"], f"{each['consumed_seq']} of {each['seq']}", str(each["pending"]))
        table.add(*cells)
    out.print(table)


def _consumers(row: Assets) -> list[dict[str, Any]]:
    """Return who waits for an asset, or for its URI, and how far they have consumed it."""
    streams = {row.asset_id: row}
    if row.mirrored_uris:
        keys = [(key, ITSELF) for key in row.mirrored_uris]
        streams |= {each.asset_id: each for each in Assets.batch_get(keys)}
    keys = [(dag_id, key) for key in streams for dag_id in consumers_of(key)]
    found = AssetQueue.batch_get(keys, consistent_read=True) if keys else ()
    return [
        {
            "dag_id": queue.dag_id,
            "consumed_seq": int(queue.consumed_seq),
            "seq": (seq := int(streams[queue.asset_id].seq or 0)),
            "pending": max(0, seq - int(queue.consumed_seq)),
        }
        for queue in sorted(found, key=lambda queue: queue.dag_id)
    ]


@app.command()
@on_deployment
def emit(
    asset: Annotated[str, typer.Argument(help="The asset's name, or its URI (with ://).")],
    *,
    extra: Annotated[str, typer.Option(help="Facts about it as JSON: '{\"rows\": 10}'.")] = "",
    event_id: Annotated[
        str, typer.Option(help="An id of your own: the same one again is the same event.")
    ] = "",
    timestamp: Annotated[str, typer.Option(help="When it happened. Default: now.")] = "",
    partition_key: Annotated[str, typer.Option(help="A key that travels with the event.")] = "",
    alias: Annotated[
        list[str] | None, typer.Option(help="An alias through which it happened; repeatable.")
    ] = None,
    source: Annotated[str, typer.Option(help="Who says so.")] = "",
    lane: Annotated[
        str, typer.Option(help="Send it on the FIFO queue; a lane's events keep their order.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Push an event of an asset to the queue; whoever waits for it gets a run."""
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
    said = f"sent event {sent} of {asset}; see: lamplighter events trace {sent}"
    console.out().print(Text(said), soft_wrap=True)
