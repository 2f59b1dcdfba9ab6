"""`lamplighter promote` and `rollback`: push an archive again that was pushed before.

Both check the archive, show what changes, and ask as `push` does.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import botocore.session
import typer

from lamplighter import settings
from lamplighter.bundles.parsing import BundleReport
from lamplighter.errors import RefusedError
from lamplighter.identifiers import require_id
from lamplighter.registry.pushes import Push
from lamplighter_cli import console
from lamplighter_cli.deployment import Target, chosen, in_force, on_deployment
from lamplighter_cli.options import AsJson
from lamplighter_cli.push_preview import (
    Preview,
    SkipOwed,
    Why,
    Yes,
    check_for_push,
    confirmed_preview,
    pushed_json,
    pushed_line,
    require_pushable,
)
from lamplighter_operations.promotion import (
    Fetched,
    current_push_of,
    fetch_for_promotion,
    fetch_for_rollback,
    require_other_deployment,
    unpacked,
)
from lamplighter_operations.push import push_archive
from lamplighter_operations.push_notes import Note, caller_arn, deployment_name, require_why

_Bundle = Annotated[str, typer.Argument(metavar="BUNDLE", help="The name of the bundle.")]
_Force = Annotated[bool, typer.Option("--force", help="Push it even if it has import errors.")]


@dataclass(frozen=True)
class _How:
    """The options that both commands have."""

    why: str | None
    force: bool
    yes: bool
    skip_owed: bool
    as_json: bool


def promote(
    bundle: _Bundle,
    *,
    source: Annotated[
        str, typer.Option("--from", metavar="STACK", help="The stack, or stage, to take it from.")
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="STACK", help="The stack, or stage, to push it to.")
    ],
    push: Annotated[
        int | None,
        typer.Option("--push", min=1, help="Which push to take. Default: the one in force."),
    ] = None,
    from_profile: Annotated[str, typer.Option(help="The AWS profile of --from.")] = "",
    to_profile: Annotated[str, typer.Option(help="The AWS profile of --to.")] = "",
    from_region: Annotated[str, typer.Option(help="The AWS region of --from.")] = "",
    to_region: Annotated[str, typer.Option(help="The AWS region of --to.")] = "",
    force: _Force = False,
    yes: Yes = False,
    skip_owed: SkipOwed = False,
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Push to one deployment exactly what is registered in another one.

    `dev` means the stack `dev` or, if there is none, `lamplighter-dev`. Exit codes as for `push`.
    """
    if chosen().is_local:
        raise RefusedError("promote needs two stacks: leave out --local")
    name = require_id(bundle, what="bundle")
    how = _How(require_why(why), force=force, yes=yes, skip_owed=skip_owed, as_json=as_json)
    with in_force(_side(source, from_profile, from_region)):
        found = fetch_for_promotion(name, push)
        _require_sound(found, force=force)
    with in_force(_side(target, to_profile, to_region)):
        require_other_deployment(found)
        _push_again("promoted", found, how)


def _side(stack: str, profile: str, region: str) -> Target:
    """Return one of two deployments; what is not said of it is that of the global options."""
    both = chosen()
    return replace(
        both,
        stack=stack,
        profile=profile or both.profile,
        region=region or (_region_of(profile) if profile else "") or both.region,
        may_be_stage=True,
    )


def _region_of(profile: str) -> str:
    profiles = botocore.session.Session().full_config.get("profiles", {})
    return str(profiles.get(profile, {}).get("region", ""))


def _require_sound(found: Fetched, *, force: bool) -> None:
    if found.newer is not None:
        console.err().print(
            f"push {found.newer} is not registered in {deployment_name()}: taking push"
            f" {found.origin.push}, which is in force"
        )
    if found.errors and not force:
        console.error(
            f"push {found.origin.push} of bundle {found.bundle!r} has import errors in"
            f" {deployment_name()} (`lamplighter dags errors`); --force pushes it anyway"
        )
        raise typer.Exit(1)


@on_deployment
def rollback(
    bundle: _Bundle,
    *,
    target: Annotated[
        int | None,
        typer.Option(
            "--to", metavar="PUSH", min=1, help="Which push. Default: the one before the current."
        ),
    ] = None,
    force: _Force = False,
    yes: Yes = False,
    skip_owed: SkipOwed = False,
    why: Why = "",
    as_json: AsJson = False,
) -> None:
    """Push the archive of an earlier push again, under a new number.

    Only code and definitions go back. Schedules go on from where they are: no run is created
    again or removed, and events that were consumed stay consumed. Exit codes as for `push`.
    """
    name = require_id(bundle, what="bundle")
    how = _How(require_why(why), force=force, yes=yes, skip_owed=skip_owed, as_json=as_json)
    found = fetch_for_rollback(name, target)
    _require_sound(found, force=force)
    _push_again("rolled back", found, how)


def _push_again(verb: str, found: Fetched, how: _How) -> None:
    settings.current().require("bucket")
    current = current_push_of(found)
    if current is not None:
        _tell_current(found, current, as_json=how.as_json)
        return
    with unpacked(found) as (root, archive):
        report = check_for_push(root)
        refusal = f"bundle {found.bundle!r} has errors and was not pushed; --force pushes it anyway"
        require_pushable(report, force=how.force, refusal=refusal)
        preview = confirmed_preview(
            root, report, found.bundle, skip_owed=how.skip_owed, yes=how.yes, as_json=how.as_json
        )
        note = Note(caller_arn(), how.why, found.origin, report.dags)
        with console.progress() as progress:
            progress.add_task("Uploading", total=None)
            pushed = push_archive(archive, found.bundle, skip_owed=how.skip_owed, note=note)
    _tell_pushed(verb, found, pushed, report, preview, as_json=how.as_json)


def _tell_current(found: Fetched, current: int, *, as_json: bool) -> None:
    if as_json:
        console.print_json(_json(found, current, is_current=True))
        return
    console.out().print(
        f"bundle {found.bundle!r} in {deployment_name()} has this archive already (push {current},"
        f" version {found.version[:12]}): nothing to do"
    )


def _json(found: Fetched, number: int, *, is_current: bool) -> dict[str, Any]:
    return {
        "bundle": found.bundle,
        "push": number,
        "version": found.version,
        "origin": found.origin.as_json(),
        "already_current": is_current,
    }


def _tell_pushed(
    verb: str,
    found: Fetched,
    pushed: Push,
    report: BundleReport,
    preview: Preview,
    *,
    as_json: bool,
) -> None:
    if as_json:
        told = _json(found, pushed.number, is_current=False)
        console.print_json(told | pushed_json(pushed, report, preview))
        return
    console.out().print(pushed_line(verb, pushed, report))
