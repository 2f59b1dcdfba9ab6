"""`lamplighter push`: checks a bundle, shows what changes, and uploads it."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Annotated, Any

import typer
from pendulum import DateTime
from rich.text import Text

from lamplighter import settings
from lamplighter.bundles.layout import dag_files, require_bundle
from lamplighter.bundles.parsing import BundleReport, check_bundle
from lamplighter.identifiers import require_id
from lamplighter.registry.definition import read_definition, without_refused
from lamplighter.registry.watchers import unwired
from lamplighter.timetables.base import DataInterval
from lamplighter_cli import console
from lamplighter_cli.check import show_problems
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson, BundleDir, BundleName
from lamplighter_operations.push import DagChange, preview_push, push_bundle

# More runs than this at once are more often a mistake than intended.
MAX_UNCONFIRMED_RUNS = 100

_UNCONFIRMED = 3


@on_deployment
def push(
    path: BundleDir = Path(),
    *,
    bundle: BundleName = "",
    force: Annotated[
        bool, typer.Option("--force", help="Push even if the check finds errors.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    skip_owed: Annotated[
        bool,
        typer.Option(
            "--skip-owed",
            help="Do not create runs of new and changed schedules that are already due.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a bundle and upload it. Exit code 1 on errors, 3 if runs were not confirmed."""
    root = require_bundle(path)
    settings.current().require("bucket")
    name = require_id(bundle or root.name, what="bundle")
    report = _check(root)
    if report.errors and not force:
        show_problems(report, console.err())
        console.error(f"{root} has errors and was not pushed; --force pushes it anyway")
        raise typer.Exit(1)
    _require_wired(report)
    # The DAGs of a broken file stay as they were.
    changes = preview_push(
        root, report.dags, bundle=None if report.errors else name, is_skipping=skip_owed
    )
    owed = {change.dag_id: change.owed for change in changes if change.owed}
    skipped = {change.dag_id: change.skipped for change in changes if change.skipped}
    more = {change.dag_id for change in changes if change.owes_more}
    if not as_json:
        _show_changes(changes)
        _show_runs(owed, more, "has {} that are already due")
        _show_runs(skipped, more, "skips {} that are already due")
    if (sum(owed.values()) > MAX_UNCONFIRMED_RUNS or more & owed.keys()) and not yes:
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
            f" version {pushed.version[:12]}; it will be registered within seconds"
        )
    )


def _require_wired(report: BundleReport) -> None:
    """Refuse a bundle whose watchers would receive nothing, before it is uploaded."""
    definitions = (read_definition(dag) for dag in report.dags)
    found = [line for one in definitions for line in unwired(one.dag, settings.current())]
    for line in found:
        console.error(line)
    if found:
        raise typer.Exit(1)


def _check(root: Path) -> BundleReport:
    with console.progress() as progress:
        bar = progress.add_task("Checking", total=len(dag_files(root)))
        return without_refused(check_bundle(root, on_file=lambda _: progress.advance(bar)))


def _show_changes(changes: Sequence[DagChange]) -> None:
    for change in changes:
        if not change.is_new and not change.is_none:
            console.out().print(Text(_in_words(change)), soft_wrap=True)


def _in_words(change: DagChange) -> str:
    before, after = (_when(at) for at in (change.next_before, change.next_after))
    if change.is_leaving:
        return f"{change.dag_id} is removed from the bundle: no more runs (next was {before})"
    is_same = change.schedule_before == change.schedule_after
    what = f"schedule {change.schedule_before} → {change.schedule_after}"
    parts = [
        f"{change.dag_id}: {'schedule changes' if is_same else what}",
        f"next run {before}" if before == after else f"next run {after} (was {before})",
    ]
    if change.switches_to is not None:
        first = _when(change.switches_to)
        parts.append(f"due runs come first, then the new schedule starts with a run {first}")
    if change.uncovered is not None:
        parts.append(f"{_span(change.uncovered)} is not covered")
    if change.repeated is not None:
        parts.append(f"{_span(change.repeated)} is covered again")
    if change.dropped_events:
        events = "event is" if change.dropped_events == 1 else "events are"
        parts.append(f"{change.dropped_events:,} pending {events} dropped")
    return "; ".join(parts)


def _span(interval: DataInterval) -> str:
    return " to ".join(map(console.instant, interval))


def _when(at: DateTime | None) -> str:
    return f"after {console.instant(at)}" if at is not None else "unscheduled"


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


def _show_runs(counts: dict[str, int], more: AbstractSet[str], words: str) -> None:
    for dag_id, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        at_least = "at least " if dag_id in more else ""
        runs = f"{at_least}{count:,} {'run' if count == 1 else 'runs'}"
        console.out().print(Text(f"{dag_id} {words.format(runs)}"))


def _confirm(total: int) -> None:
    question = (
        f"{total:,} runs are already due and will be created as slots become free (--skip-owed"
        " skips them). Push?"
    )
    if console.is_interactive() and typer.confirm(question, err=True):
        return
    console.error(
        f"{total:,} runs are already due: pass --yes to create them, or --skip-owed to skip them"
    )
    raise typer.Exit(_UNCONFIRMED)
