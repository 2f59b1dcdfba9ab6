"""The `lamplighter` command: assembles the subcommands, one module each."""

import sys
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

import lamplighter
from lamplighter.errors import LamplighterError
from lamplighter.store.rows import StoreError
from lamplighter_cli import (
    assets,
    backfill,
    console,
    dags,
    dlq,
    events,
    pools,
    runs,
    variables,
    watchers,
)
from lamplighter_cli.check import check
from lamplighter_cli.demo import demo
from lamplighter_cli.deployment import Target, choose
from lamplighter_cli.dev import dev
from lamplighter_cli.doctor import doctor
from lamplighter_cli.errors import explain
from lamplighter_cli.extras import MissingExtraError
from lamplighter_cli.next import next_runs
from lamplighter_cli.push import push
from lamplighter_cli.simulate import simulate
from lamplighter_cli.test import run_test

app = typer.Typer(
    help="Serverless run scheduling: check and push DAGs, follow runs and asset events.",
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
app.command("test")(run_test)
app.command("doctor")(doctor)
app.add_typer(dags.app, name="dags")
app.add_typer(assets.app, name="assets")
app.add_typer(events.app, name="events")
app.add_typer(dlq.app, name="dlq")
app.add_typer(runs.app, name="runs")
app.add_typer(pools.app, name="pools")
app.add_typer(variables.app, name="variables")
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
        typer.Option(
            envvar="LAMPLIGHTER_STACK", help="The CloudFormation stack of the deployment."
        ),
    ] = "",
    region: Annotated[
        str, typer.Option(envvar=["AWS_REGION", "AWS_DEFAULT_REGION"], help="The AWS region.")
    ] = "",
    profile: Annotated[str, typer.Option(help="The AWS profile. Default: AWS_PROFILE.")] = "",
    local: Annotated[
        bool,
        typer.Option(
            "--local", envvar="LAMPLIGHTER_LOCAL", help="Use the deployment of `lamplighter dev`."
        ),
    ] = False,
    endpoint_url: Annotated[str, typer.Option(help="The URL of an AWS emulator.")] = "",
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take the global options."""
    choose(Target(stack, region, profile, endpoint_url, is_local=local))


def main() -> None:
    """Run the command; expected errors are one line on stderr and exit code 1, or 2."""
    try:
        app()
    except MissingExtraError as error:
        console.error(str(error))
        sys.exit(2)
    except (LamplighterError, BotoCoreError, ClientError, StoreError) as error:
        console.error(explain(error) or str(error))
        sys.exit(1)
