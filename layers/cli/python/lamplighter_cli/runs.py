"""`lamplighter runs`: what a run is made of."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from lamplighter.events.ledger import RunEvents, require_run, triggering_asset_events
from lamplighter.store.models import Runs
from lamplighter.zones import iso
from lamplighter_cli import console
from lamplighter_cli.deployment import AsJson, EndpointUrl

app = typer.Typer(help="Runs: look at one.", no_args_is_help=True)

_TEXTS = ("dag_id", "run_id", "run_type", "triggered_by", "state", "dag_version", "partition_key")
_INSTANTS = (
    "logical_date",
    "data_interval_start",
    "data_interval_end",
    "run_after",
    "created_at",
    "queued_at",
    "started_at",
    "ended_at",
)


@app.callback()
def runs() -> None:
    """Take the name of a subcommand, though there is only one."""


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="The run, as DAG/RUN.")],
    *,
    as_json: AsJson = False,
    endpoint_url: EndpointUrl = "",
) -> None:
    """Show a run and the asset events that triggered it."""
    row = require_run(run)
    found = triggering_asset_events(row)
    facts = _facts(row)
    if as_json:
        events = {"triggering_asset_events": dict(found.events), "expired": dict(found.expired)}
        console.print_json({**facts, "conf": row.conf or {}, **events})
        return
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        if value is not None:
            table.add_row(Text(name, "bold"), Text(value))
    console.out().print(table)
    _show_events(found)


def _facts(row: Runs) -> dict[str, str | None]:
    texts = {name: getattr(row, name) for name in _TEXTS}
    instants = {name: getattr(row, name) for name in _INSTANTS}
    return texts | {name: iso(at) if at is not None else None for name, at in instants.items()}


def _show_events(found: RunEvents) -> None:
    if found.events:
        table = Table("asset", "event", "timestamp", "partition", "extra")
        for asset, events in found.events.items():
            for event in events:
                cells = (asset, event["event_id"], event["timestamp"], event["partition_key"])
                extra = str(event["extra"]) if event["extra"] else ""
                table.add_row(*(Text(cell or "") for cell in (*cells, extra)))
        console.out().print(table)
    for asset, count in found.expired.items():
        console.out().print(Text(f"{count} more of {asset}, which are no longer kept"))
