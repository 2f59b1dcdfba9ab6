"""The `lamplighter` command: each subcommand is a module, and this one puts them together."""

import sys
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

import lamplighter
from lamplighter.errors import LamplighterError
from lamplighter.store.rows import StoreError
from lamplighter_cli import assets, backfill, console, dags, dlq, events, runs, watchers
from lamplighter_cli.aws_errors import explain
from lamplighter_cli.check import check
from lamplighter_cli.demo import demo
from lamplighter_cli.deployment import Target, choose
from lamplighter_cli.dev import dev
from lamplighter_cli.doctor import doctor
from lamplighter_cli.next import next_runs
from lamplighter_cli.push import push
from lamplighter_cli.simulate import simulate
from lamplighter_cli.try_dag import try_dag

app = typer.Typer(
    help="Run scheduling with no servers: check DAG files, push them, follow events and runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check)
app.command("next")(next_runs)
app.command("push")(push)
app.command("simulate")(simulate)
app.command("dev")(dev)
app.command("demo")(demo)
app.command("test")(try_dag)
app.command("doctor")(doctor)
app.add_typer(dags.app, name="dags")
app.add_typer(assets.app, name="assets")
app.add_typer(events.app, name="events")
app.add_typer(dlq.app, name="dlq")
app.add_typer(runs.app, name="runs")
app.add_typer(watchers.app, name="watchers")
app.add_typer(backfill.app, name="backfill")


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(lamplighter.__version__)
        raise typer.Exit


@app.callback()
def options(
    *,
    stack: Annotated[
        str,
        typer.Option(envvar="LAMPLIGHTER_STACK", help="The deployment: a CloudFormation stack."),
    ] = "",
    region: Annotated[
        str, typer.Option(envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], help="Its AWS region.")
    ] = "",
    profile: Annotated[str, typer.Option(help="Credentials: a profile. Or set AWS_PROFILE.")] = "",
    local: Annotated[
        bool,
        typer.Option(
            "--local", envvar="LAMPLIGHTER_LOCAL", help="The deployment that `dev` runs here."
        ),
    ] = False,
    endpoint_url: Annotated[
        str, typer.Option(help="Talk to this address instead of AWS: an emulator.")
    ] = "",
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Take the options that stand before a subcommand."""
    choose(Target(stack, region, profile, endpoint_url, is_local=local))


def main() -> None:
    """Run the command; an error that the user can mend is one line on stderr and exit code 1."""
    try:
        app()
    except (LamplighterError, BotoCoreError, ClientError, StoreError) as error:
        console.error(explain(error) or str(error))
        sys.exit(1)
