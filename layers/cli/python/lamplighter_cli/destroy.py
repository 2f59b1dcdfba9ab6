"""`lamplighter destroy`: deletes a deployment, after its name was typed.

Owns: what is said before, and that nothing runs and the bucket is empty when CloudFormation deletes
them.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter_cli import console
from lamplighter_cli.assembly import our_stack
from lamplighter_cli.cdk import (
    Flags,
    Stage,
    app_here,
    cdk_command,
    run_command,
    synthesize,
)
from lamplighter_cli.console import exit_on_ctrl_c
from lamplighter_cli.deploy_checks import require_bootstrapped, require_here
from lamplighter_cli.deployment import on_account
from lamplighter_cli.stack_contents import StackContents, contents_of, empty
from lamplighter_cli.stop_work import stop_application, stop_scheduling

_UNCONFIRMED = 3


@on_account
def destroy(
    *,
    stage: Stage = "dev",
    flags: Flags = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for the name of the stack.")
    ] = False,
) -> None:
    """Delete a stage with the AWS CDK, and say what stays. Exit code 3 if it was not confirmed."""
    app, command = app_here(stage, flags), cdk_command()
    here = require_bootstrapped(app)
    with exit_on_ctrl_c(), TemporaryDirectory(prefix="lamplighter-cdk-") as folder:
        synthesize(app, Path(folder), here)
        stack = our_stack(Path(folder))
        require_here(stack, here)
        found = _require_deletable(stack.name)
        _tell(found)
        if not yes:
            _confirm(found.name)
        stop_scheduling(found.rules, found.mappings)
        for application in found.applications:
            stop_application(application, _say)
        if found.bucket is not None:
            count = empty(found.bucket)
            _say(f"deleted {count:,} object{'' if count == 1 else 's'} in {found.bucket}")
        arguments = ["destroy", "--app", folder, "--force", stack.id]
        code = run_command([*command, *arguments])
    raise typer.Exit(code)


def _require_deletable(name: str) -> StackContents:
    found = contents_of(name)
    if found is None:
        raise RefusedError(f"there is no stack {name!r}: see --stage, --region and --profile")
    if found.is_protected:
        raise RefusedError(
            f"stack {name!r} is protected: run `aws cloudformation update-termination-protection"
            f" --no-enable-termination-protection --stack-name {name}` first"
        )
    return found


def _tell(found: StackContents) -> None:
    _list(f"deleted with stack {found.name}, and everything in them:", found.going)
    _list("what stays, and is billed until you delete it:", found.staying)


def _list(title: str, parts: Iterable[str]) -> None:
    lines = [f"  {part}" for part in sorted(parts)]
    for line in [title, *lines] if lines else []:
        _say(line)


def _say(line: str) -> None:
    console.err().print(Text(line), soft_wrap=True)


def _confirm(name: str) -> None:
    if console.is_interactive():
        typed = typer.prompt(f"Type {name} to delete it", default="", show_default=False, err=True)
        if typed == name:
            return
        console.error(f"that is not {name}: nothing was deleted")
    else:
        console.error(f"this is not a terminal: pass --yes to delete {name}")
    raise typer.Exit(_UNCONFIRMED)
