"""The `lamplighter` command: each subcommand is a module, and this one puts them together."""

import sys
from typing import Annotated

import typer

import lamplighter
from lamplighter.errors import LamplighterError
from lamplighter_cli import console
from lamplighter_cli.check import check
from lamplighter_cli.next import next_runs

app = typer.Typer(
    help="Run scheduling with no servers: check DAG files and see when they run.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check)
app.command("next")(next_runs)


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
