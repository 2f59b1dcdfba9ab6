"""`lamplighter assets`: tells the deployment that an asset has news."""

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter.events.emit import emit as send
from lamplighter_cli import console
from lamplighter_cli.deployment import AsJson, EndpointUrl

app = typer.Typer(help="Asset events: push one.", no_args_is_help=True)


@app.callback()
def assets() -> None:
    """Take the name of a subcommand, though there is only one."""


@app.command()
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
    endpoint_url: EndpointUrl = "",
) -> None:
    """Push an event of an asset to the queue; whoever waits for it gets a run."""
    named: dict[str, Any] = {"uri": asset} if "://" in asset else {"asset": asset}
    sent = send(
        **named,
        extra=_read_json(extra) if extra else None,
        event_id=event_id or None,
        timestamp=timestamp or None,
        partition_key=partition_key or None,
        aliases=alias or (),
        source=source or None,
        lane=lane or None,
    )
    if as_json:
        console.print_json({"event_id": sent, **named})
    else:
        console.out().print(
            Text(f"sent event {sent} of {asset}; see: lamplighter events trace {sent}")
        )


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RefusedError(f"--extra {text!r} is not JSON: {error}") from error
