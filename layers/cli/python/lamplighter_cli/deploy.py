"""`lamplighter deploy` and `diff`: the CDK's command line, on the app of this folder or on ours."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.assembly import our_stack
from lamplighter_cli.cdk import (
    App,
    Flags,
    Place,
    Stage,
    app_here,
    cdk_command,
    run_cdk,
    synthesize,
)
from lamplighter_cli.console import exit_on_ctrl_c
from lamplighter_cli.deploy_checks import require_bootstrapped
from lamplighter_cli.deployment import OUR_OUTPUT, on_account


@on_account
def deploy(
    *,
    stage: Stage = "dev",
    flags: Flags = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before permissions are broadened.")
    ] = False,
) -> None:
    """Deploy a stage with the AWS CDK; exits as the CDK does."""
    app, command = app_here(stage, flags), cdk_command()
    here = require_bootstrapped(app)
    with exit_on_ctrl_c(), TemporaryDirectory(prefix="lamplighter-outputs-") as folder:
        outputs = Path(folder, "outputs.json")
        approval = "never" if yes else "broadening"
        arguments = ["deploy", "--outputs-file", str(outputs), "--require-approval", approval]
        arguments += _stack_of(app, here)
        if code := run_cdk(app, command, arguments):
            raise typer.Exit(code)
        _show_next(outputs)


def _stack_of(app: App, here: Place) -> list[str]:
    """Return the stack to deploy; the CDK adds those that it depends on, and no others."""
    if app.is_own:
        return []
    with TemporaryDirectory(prefix="lamplighter-cdk-") as folder:
        synthesize(app, Path(folder), here)
        return [our_stack(Path(folder)).id]


def _show_next(outputs: Path) -> None:
    stacks = json.loads(outputs.read_bytes()) if outputs.is_file() else {}
    for name in (name for name, found in stacks.items() if OUR_OUTPUT in found):
        text = f"deployed; next: lamplighter --stack {name} push"
        console.err().print(Text(text), soft_wrap=True)


@on_account
def diff(*, stage: Stage = "dev", flags: Flags = None) -> None:
    """Show what a deployment would change; exits as the CDK does."""
    app, command = app_here(stage, flags), cdk_command()
    require_bootstrapped(app)
    with exit_on_ctrl_c():
        raise typer.Exit(run_cdk(app, command, ["diff"]))
