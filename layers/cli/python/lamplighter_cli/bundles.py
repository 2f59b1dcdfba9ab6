"""`lamplighter bundles`: which there are, who pushed them, and what their pushes changed."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson
from lamplighter_operations.bundle_objects import Changes
from lamplighter_operations.push_history import (
    BundleHistory,
    PushRecord,
    all_histories,
    changes_of,
    count_files_with_errors,
    dags_by_bundle,
    read_history,
)

app = typer.Typer(help="Show bundles and their last pushes.", no_args_is_help=True)

_SHORT = 12


@app.command("list")
@on_deployment
def list_bundles(*, as_json: AsJson = False) -> None:
    """List all bundles with the push that is in force."""
    dags = dags_by_bundle()
    found = [
        (history, len(dags.get(history.bundle, ())), count_files_with_errors(history.bundle))
        for history in all_histories()
    ]
    if as_json:
        console.print_json([_summary_json(*each) for each in found])
        return
    if not found:
        console.out().print("no bundles yet: lamplighter push DIR")
        return
    table = console.Rows("bundle", "push", "pushed", "by", "how", "archive", "DAGs", "errors")
    for history, count, errors in found:
        now = history.current
        cells = ("none",) if now is None else (str(now.push),)
        table.add(Text(history.bundle, "bold"), *cells, *_who(now), str(count), _errors(errors))
    console.out().print(table)


def _who(push: PushRecord | None) -> tuple[str, str, str, str]:
    if push is None:
        return "", "", "", ""
    return (
        console.instant(push.pushed_at),
        push.pushed_by or "",
        push.origin.describe(),
        (push.version or "")[:_SHORT],
    )


def _errors(count: int | None) -> Text:
    return Text("" if count is None else str(count), "bold red" if count else "")


def _summary_json(history: BundleHistory, dags: int, errors: int) -> dict[str, Any]:
    now = history.current
    return {
        "bundle": history.bundle,
        "current": None if now is None else _push_json(now),
        "newest_push": history.newest,
        "dags": dags,
        "files_with_errors": errors,
    }


def _push_json(push: PushRecord) -> dict[str, Any]:
    return console.view_json(push, without=["bundle", "origin"]) | {"origin": push.origin.as_json()}


@app.command()
@on_deployment
def show(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="The name of the bundle.")],
    *,
    push: Annotated[
        int | None, typer.Option("--push", min=1, help="Which push. Default: the one in force.")
    ] = None,
    last: Annotated[int, typer.Option("-n", "--last", min=1, help="How many pushes to list.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show a bundle, its last pushes, and what a push changed compared with the one before."""
    history = read_history(bundle)
    chosen = history.current if push is None else history.find(push)
    before = None if chosen is None else history.before(chosen.push)
    changes = None if chosen is None else changes_of(history, chosen)
    dags, errors = dags_by_bundle().get(bundle, []), count_files_with_errors(bundle)
    if as_json:
        told = _summary_json(history, len(dags), errors)
        told |= {
            "dags": dags,
            "push": None if chosen is None else _push_json(chosen),
            "compared_with": None if before is None else before.push,
            "changes": None if changes is None else asdict(changes),
            "pushes": [_push_json(each) for each in history.pushes[:last]],
        }
        console.print_json(told)
        return
    console.out().print(console.details(_details(history, chosen, dags, errors)))
    _show_pushes(history, last)
    if chosen is not None:
        _show_changes(chosen, before, changes)


def _details(
    history: BundleHistory, chosen: PushRecord | None, dags: list[str], errors: int
) -> dict[str, Any]:
    values: dict[str, Any] = {"bundle": Text(history.bundle, "bold")}
    if chosen is None:
        return values | {"push": "none is registered"}
    at, by, how, _ = _who(chosen)
    values |= {
        "push": f"{chosen.push}, {_state(chosen)}",
        "pushed": at,
        "by": by,
        "how": how,
        "why": chosen.why,
        "archive": chosen.version,
    }
    if chosen.is_current:
        values |= {"DAGs": ", ".join(dags), "files with errors": _errors(errors)}
    return values


def _state(push: PushRecord) -> str:
    return "in force" if push.is_current else push.state


def _show_pushes(history: BundleHistory, last: int) -> None:
    table = console.Rows("push", "pushed", "by", "how", "archive", "state", "errors", "why")
    for push in history.pushes[:last]:
        table.add(
            Text(str(push.push), "bold"),
            *_who(push),
            _state(push),
            _errors(push.errors),
            push.why or "",
        )
    console.out().print()
    console.out().print(table)


def _show_changes(push: PushRecord, before: PushRecord | None, changes: Changes | None) -> None:
    console.out().print()
    if before is None:
        console.out().print(f"there is no record of a push that was registered before {push.push}")
        return
    heading = f"push {push.push}, compared with push {before.push}"
    if changes is None:
        console.out().print(f"{heading}: not known, because one was pushed without a check")
        return
    lines = list(_lines(changes))
    console.out().print(f"{heading}:" if lines else f"{heading}: the same files and schedules")
    for line in lines:
        console.out().print(Text(f"  {line}"), soft_wrap=True)


def _lines(changes: Changes) -> Iterator[str]:
    yield from _dag_lines("new DAG", changes.dags_added)
    yield from _dag_lines("removed DAG", changes.dags_removed)
    for dag_id, (before, after) in changes.schedules_changed.items():
        yield f"changed DAG {dag_id}: schedule {before} → {after}"
    yield from (f"new file {name}" for name in changes.files_added)
    yield from (f"removed file {name}" for name in changes.files_removed)
    yield from (f"changed file {name}" for name in changes.files_changed)


def _dag_lines(what: str, schedules: Mapping[str, str]) -> Iterator[str]:
    for dag_id, schedule in schedules.items():
        yield f"{what} {dag_id}: schedule {schedule}"
