"""`lamplighter push`: checks a bundle, shows what changes, and uploads it."""

from pathlib import Path
from typing import Annotated

import typer

from lamplighter import settings
from lamplighter.bundles.layout import require_bundle
from lamplighter.identifiers import require_id
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson, BundleDir, BundleName
from lamplighter_cli.push_dry_run import show_dry_run
from lamplighter_cli.push_preview import (
    SkipOwed,
    Why,
    Yes,
    check_for_push,
    confirmed_preview,
    preview_of,
    pushed_json,
    pushed_line,
    require_pushable,
)
from lamplighter_operations.push import push_bundle
from lamplighter_operations.push_notes import Note, caller_arn, require_why


@on_deployment
def push(
    path: BundleDir = Path(),
    *,
    bundle: BundleName = "",
    force: Annotated[
        bool, typer.Option("--force", help="Push even if the check finds errors.")
    ] = False,
    yes: Yes = False,
    skip_owed: SkipOwed = False,
    why: Why = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what a push would change.")
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="With --dry-run: for a comment on a pull request.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a bundle and upload it. Exit code 1 on errors, 3 if runs were not confirmed."""
    if as_markdown and (as_json or not dry_run):
        raise typer.BadParameter("--markdown goes with --dry-run, and not with --json")
    root = require_bundle(path)
    settings.current().require("bucket")
    name, reason = require_id(bundle or root.name, what="bundle"), require_why(why)
    report = check_for_push(root)
    refusal = f"{root} has errors and was not pushed; --force pushes it anyway"
    require_pushable(report, force=force, refusal=refusal)
    if dry_run:
        preview = preview_of(root, report, name, skip_owed=skip_owed)
        show_dry_run(name, report, preview, as_json=as_json, as_markdown=as_markdown)
        return
    preview = confirmed_preview(root, report, name, skip_owed=skip_owed, yes=yes, as_json=as_json)
    note = Note(caller_arn(), reason, dags=report.dags)
    with console.progress() as progress:
        progress.add_task("Uploading", total=None)
        pushed = push_bundle(root, name, skip_owed=skip_owed, note=note)
    if as_json:
        console.print_json(pushed_json(pushed, report, preview))
    else:
        console.out().print(pushed_line("pushed", pushed, report))
