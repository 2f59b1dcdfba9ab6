"""`lamplighter events`: list asset events and trace one to its runs."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from lamplighter.events.lineage import ConsumerStatus, EventTrace
from lamplighter.events.lineage import trace_event as find
from lamplighter.events.record import event_id_of
from lamplighter.safe_text import masked
from lamplighter.store.assets import last_updated_assets, recent_events
from lamplighter.zones import iso
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.lookup import find_asset
from lamplighter_cli.options import AsJson

if TYPE_CHECKING:
    from lamplighter.store.models import AssetEvents

app = typer.Typer(help="List and trace asset events.", no_args_is_help=True)

_EXTRA_SHOWN = 60


@app.command("list")
@on_deployment
def list_events(
    asset: Annotated[
        str, typer.Argument(metavar="ASSET", help="Only events of this asset or alias.")
    ] = "",
    *,
    limit: Annotated[int, typer.Option("-n", min=1, help="Maximum number of events.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the newest recorded events."""
    rows = [find_asset(asset)] if asset else last_updated_assets(limit=limit)
    names = {row.asset_id: row.name or row.uri or row.asset_id for row in rows}
    events = recent_events([*names], limit=limit)
    if as_json:
        console.print_json([_event_json(row, names[row.asset_id]) for row in events])
        return
    if not events:
        console.out().print(Text(f"no events of {asset}" if asset else "no events yet"))
        return
    table = console.Rows("asset", "number", "event", "recorded", "source", "partition", "extra")
    for row in events:
        cells = (
            names[row.asset_id],
            f"{row.seq:.0f}",
            event_id_of(row),
            console.instant(row.recorded_at),
            _source(row),
            row.partition_key or "",
            console.shorten(json.dumps(masked(row.extra)), _EXTRA_SHOWN) if row.extra else "",
        )
        table.add(*cells)
    console.out().print(table)
    for row in events:
        if row.conflict:
            console.out().print(Text(f"event {event_id_of(row)}: {_conflict(row)}"), soft_wrap=True)


def _conflict(row: "AssetEvents") -> str:
    noted = row.conflict or {}
    return (
        f"its id came again with other content, at {noted.get('at')} from {noted.get('sender')};"
        f" it is from {row.sender}"
    )


def _source(row: "AssetEvents") -> str:
    """Return the source of an event; a step as DAG/RUN/TASK."""
    source = masked(row.source)
    if isinstance(source, dict) and {"dag_id", "run_id", "task_id"} <= source.keys():
        return "/".join(str(source[name]) for name in ("dag_id", "run_id", "task_id"))
    if isinstance(source, str):
        return source
    return json.dumps(source) if source else ""


def _event_json(row: "AssetEvents", asset: str) -> dict[str, Any]:
    return {
        "event_id": event_id_of(row),
        "asset": asset,
        "seq": None if row.seq is None else int(row.seq),
        "timestamp": iso(row.timestamp),
        "recorded_at": iso(row.recorded_at),
        "extra": masked(row.extra or {}),
        "source": masked(row.source),
        "partition_key": row.partition_key,
        "sender": row.sender,
        "conflict": row.conflict,
    }


@app.command()
@on_deployment
def trace(
    event: Annotated[str, typer.Argument(help="The id of the event.")],
    *,
    asset: Annotated[
        str, typer.Option(help="Its asset, if several have an event with this id.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show what each consumer of an event has done with it."""
    found = find(event, asset=asset or None)
    if as_json:
        console.print_json([_trace_json(one) for one in found])
        return
    for one in found:
        console.out().print(_headline(one), soft_wrap=True)
        if one.consumers:
            console.out().print(_consumers(one.consumers))
        elif one.rejected is None:
            console.out().print("no consumers")


def _headline(one: EventTrace) -> Text:
    row = one.event
    if one.rejected is not None:
        when = console.instant(row.recorded_at)
        return Text(f"event {row.event_id} was rejected at {when}: {one.rejected}")
    if row.seq is None:
        return Text(f"event {row.event_id} of {one.asset} is waiting to be recorded")
    number = f"number {row.seq:.0f}, recorded at {console.instant(row.recorded_at)}"
    number += f"; {_conflict(row)}" if row.conflict else ""
    return Text(f"event {row.event_id} of {one.asset}: {number}")


def _consumers(consumers: list[ConsumerStatus]) -> console.Rows:
    table = console.Rows("consumer", "event is", "run", "reason")
    for status in consumers:
        run = f"{status.dag_id}/{status.run_id}" if status.run_id else ""
        table.add(status.dag_id, status.state, run, status.reason)
    return table


def _trace_json(one: EventTrace) -> dict[str, Any]:
    return {
        **_event_json(one.event, one.asset),
        "rejected": one.rejected,
        "consumers": [vars(status) for status in one.consumers],
    }
