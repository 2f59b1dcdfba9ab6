"""`lamplighter push`: checks a bundle, says what it would change, and uploads it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from pendulum import DateTime
from rich.text import Text

from lamplighter import settings
from lamplighter.bundles.layout import dag_files, require_bundle
from lamplighter.bundles.parsing import BundleReport, check_bundle
from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter.identifiers import require_id
from lamplighter.operations.push import push_bundle
from lamplighter.operations.push_preview import DagChange, preview_push
from lamplighter.registry.definition import read_definition
from lamplighter.registry.watchers import unwired
from lamplighter.timetables.base import DataInterval
from lamplighter_cli import console
from lamplighter_cli.check import show_problems
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson, BundleName

# More than this many runs at once is more often a mistake than a wish.
MAX_UNASKED = 100

_UNCONFIRMED = 3


@on_deployment
def push(
    path: Annotated[
        Path, typer.Argument(help="The bundle: a folder with dags/, timetables/, jobs/.")
    ] = Path(),
    *,
    bundle: BundleName = "",
    force: Annotated[
        bool, typer.Option("--force", help="Upload it although the check found errors.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask about runs that would be owed.")
    ] = False,
    skip_owed: Annotated[
        bool,
        typer.Option(
            "--skip-owed", help="Do not create the runs that new and changed schedules owe now."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a bundle and upload it. Exit 1 on errors in it, 3 if owed runs were not confirmed."""
    root = require_bundle(path)
    settings.current().require("bucket")
    name = require_id(bundle or root.name, what="bundle")
    report = _check(root)
    if report.errors and not force:
        show_problems(report, console.err())
        console.error(f"{root} has errors and was not pushed; --force pushes it all the same")
        raise typer.Exit(1)
    _require_wired(report)
    # What a broken file had defined stays where it is.
    changes = preview_push(
        root, report.dags, bundle=None if report.errors else name, is_skipping=skip_owed
    )
    owed = {change.dag_id: change.owed for change in changes if change.owed}
    skipped = {change.dag_id: change.skipped for change in changes if change.skipped}
    if not as_json:
        _show_changes(changes)
        _show_runs(owed, "owes {} from its start until now")
        _show_runs(skipped, "skips {} that it owes")
    if sum(owed.values()) > MAX_UNASKED and not yes:
        _confirm(sum(owed.values()))
    with console.progress() as progress:
        progress.add_task("Uploading", total=None)
        pushed = push_bundle(root, name, skip_owed=skip_owed)
    if as_json:
        console.print_json(
            {
                "bundle": pushed.bundle,
                "push": pushed.number,
                "version": pushed.version,
                "dags": [dag.dag_id for dag in report.dags],
                "owed": owed,
                "skipped": skipped,
                "changes": [_change_json(change) for change in changes],
                "errors": [problem.message for problem in report.errors],
            }
        )
        return
    console.out().print(
        Text(
            f"pushed {name!r}: push {pushed.number}, {len(report.dags)} DAGs,"
            f" version {pushed.version[:12]}; it is registered within seconds"
        )
    )


def _require_wired(report: BundleReport) -> None:
    """Refuse a bundle with watchers that would never hear anything, before anything is sent."""
    definitions = (read_definition(dag) for dag in report.dags)
    found = [line for one in definitions for line in unwired(one.dag, settings.current())]
    for line in found:
        console.error(line)
    if found:
        raise typer.Exit(1)


def _check(root: Path) -> BundleReport:
    with console.progress() as progress:
        bar = progress.add_task("Checking", total=len(dag_files(root)))
        return check_bundle(root, on_file=lambda _: progress.advance(bar))


def _show_changes(changes: Sequence[DagChange]) -> None:
    for change in changes:
        if not change.is_new and not change.is_none:
            console.out().print(Text(_in_words(change)), soft_wrap=True)


def _in_words(change: DagChange) -> str:
    before, after = (_when(at) for at in (change.next_before, change.next_after))
    if change.is_leaving:
        return f"{change.dag_id} leaves the bundle: it gets no more runs (the next was {before})"
    is_same = change.schedule_before == change.schedule_after
    what = f"{change.schedule_before} becomes {change.schedule_after}"
    parts = [
        f"{change.dag_id}: {'its schedule changes' if is_same else what}",
        f"next run {before}" if before == after else f"next run {after} (was {before})",
    ]
    if change.switches_to is not None:
        first = _when(change.switches_to)
        parts.append(f"what is due comes first, the new schedule begins with a run {first}")
    if change.uncovered is not None:
        parts.append(f"the new schedule leaves {_span(change.uncovered)} uncovered")
    if change.repeated is not None:
        parts.append(f"the new schedule covers {_span(change.repeated)} again")
    if change.dropped_events:
        events = "event is" if change.dropped_events == 1 else "events are"
        parts.append(f"{change.dropped_events:,} pending {events} dropped")
    return "; ".join(parts)


def _span(interval: DataInterval) -> str:
    return " to ".join(map(console.instant, interval))


def _when(at: DateTime | None) -> str:
    return f"after {console.instant(at)}" if at is not None else "by no time"


def _change_json(change: DagChange) -> dict[str, Any]:
    return {
        "dag_id": change.dag_id,
        "schedule_before": change.schedule_before,
        "schedule_after": change.schedule_after,
        "next_run_now": console.instant_json(change.next_before),
        "next_run_then": console.instant_json(change.next_after),
        "owed": change.owed,
        "skipped": change.skipped,
        "dropped_events": change.dropped_events,
        "new_schedule_begins": console.instant_json(change.switches_to),
        "uncovered": _span_json(change.uncovered),
        "repeated": _span_json(change.repeated),
    }


def _span_json(interval: DataInterval | None) -> list[str | None] | None:
    return None if interval is None else [console.instant_json(at) for at in interval]


def _show_runs(counts: dict[str, int], words: str) -> None:
    for dag_id, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        least = "at least " if count >= MAX_OWED_COUNTED else ""
        runs = f"{least}{count:,} {'run' if count == 1 else 'runs'}"
        console.out().print(Text(f"{dag_id} {words.format(runs)}"))


def _confirm(total: int) -> None:
    question = (
        f"{total:,} runs would be owed, and created as slots allow (--skip-owed leaves them out)."
        " Push?"
    )
    if console.is_interactive() and typer.confirm(question, err=True):
        return
    console.error(
        f"{total:,} runs would be owed: pass --yes to have them created, or --skip-owed to go on"
        " without them"
    )
    raise typer.Exit(_UNCONFIRMED)
