"""The `lamplighter` command: each subcommand is a module, and this one puts them together."""

import sys
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from pynamodb.exceptions import PynamoDBException

import lamplighter
from lamplighter.errors import LamplighterError
from lamplighter_cli import assets, console, events, runs
from lamplighter_cli.check import check
from lamplighter_cli.next import next_runs
from lamplighter_cli.push import push

app = typer.Typer(
    help="Run scheduling with no servers: check DAG files, push them, follow events and runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check)
app.command("next")(next_runs)
app.command("push")(push)
app.add_typer(assets.app, name="assets")
app.add_typer(events.app, name="events")
app.add_typer(runs.app, name="runs")


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(lamplighter.__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Take the options that stand before a subcommand."""


def main() -> None:
    """Run the command; an error that the user can mend is one line on stderr and exit code 1."""
    try:
        app()
    except LamplighterError as error:
        console.error(str(error))
        sys.exit(1)
    except (BotoCoreError, ClientError, PynamoDBException) as error:
        console.error(f"AWS: {_one_line(error)}")
        sys.exit(1)


def _one_line(error: Exception) -> str:
    # PynamoDB puts its own words round the service's; the cause is what a user can act on.
    cause = error.cause if isinstance(error, PynamoDBException) and error.cause else error
    return " ".join(str(cause).split())
