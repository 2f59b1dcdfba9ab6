"""What `push`, `promote` and `rollback` have in common: check, preview, confirmation.

Owns: that runs which are already due are confirmed before anything is uploaded.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pendulum import DateTime
from rich.text import Text

from lamplighter import settings
from lamplighter.bundles.layout import dag_files
from lamplighter.bundles.parsing import BundleReport, check_bundle
from lamplighter.registry.definition import read_definition, without_refused
from lamplighter.registry.pushes import Push
from lamplighter.registry.watchers import unwired
from lamplighter.timetables.base import DataInterval
from lamplighter_cli import console
from lamplighter_cli.check import show_problems
from lamplighter_operations.push import DagChange, preview_push

# More runs than this at once are more often a mistake than intended.
MAX_UNCONFIRMED_RUNS = 100

_UNCONFIRMED = 3

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
SkipOwed = Annotated[
    bool,
    typer.Option(
        "--skip-owed", help="Do not create runs of new and changed schedules that are already due."
    ),
]
Why = Annotated[str, typer.Option("--why", help="The reason, which is kept with the push.")]


@dataclass(frozen=True)
class Preview:
    """What a push would change, and how many runs it would create or skip, by DAG."""

    changes: Sequence[DagChange]
    owed: dict[str, int]
    skipped: dict[str, int]
    # DAGs of which not all were counted.
    more: AbstractSet[str]

    @property
    def total(self) -> int:
        """The runs that it would create."""
        return sum(self.owed.values())

    @property
    def needs_confirmation(self) -> bool:
        """Whether these are more than are created unasked."""
        return self.total > MAX_UNCONFIRMED_RUNS or bool(self.more & self.owed.keys())


def check_for_push(root: Path) -> BundleReport:
    """Import all DAG files of a bundle."""
    with console.progress() as progress:
        bar = progress.add_task("Checking", total=len(dag_files(root)))
        return without_refused(check_bundle(root, on_file=lambda _: progress.advance(bar)))


def require_pushable(report: BundleReport, *, force: bool, refusal: str) -> None:
    """Exit with code 1 if a bundle has errors, unless forced, or watchers without a source."""
    if report.errors and not force:
        show_problems(report, console.err())
        console.error(refusal)
        raise typer.Exit(1)
    _require_wired(report)


def preview_of(root: Path, report: BundleReport, name: str, *, skip_owed: bool) -> Preview:
    """Return what a push would change."""
    # The DAGs of a broken file stay as they were.
    changes = preview_push(
        root, report.dags, bundle=None if report.errors else name, is_skipping=skip_owed
    )
    owed = {change.dag_id: change.owed for change in changes if change.owed}
    skipped = {change.dag_id: change.skipped for change in changes if change.skipped}
    more = {change.dag_id for change in changes if change.owes_more}
    return Preview(changes, owed, skipped, more)


def confirmed_preview(
    root: Path, report: BundleReport, name: str, *, skip_owed: bool, yes: bool, as_json: bool
) -> Preview:
    """Show what a push would change; exit with code 3 if its runs need a confirmation."""
    preview = preview_of(root, report, name, skip_owed=skip_owed)
    if not as_json:
        for line in preview_lines(preview):
            console.out().print(Text(line), soft_wrap=True)
    if preview.needs_confirmation and not yes:
        _confirm(preview.total)
    return preview


def preview_lines(preview: Preview) -> Iterator[str]:
    """Yield what changes for DAGs that exist, and the runs that are already due."""
    for change in preview.changes:
        if not change.is_new and not change.is_none:
            yield _in_words(change)
    yield from _run_lines(preview.owed, preview.more, "has {} that are already due")
    yield from _run_lines(preview.skipped, preview.more, "skips {} that are already due")


def preview_json(name: str, report: BundleReport, preview: Preview) -> dict[str, Any]:
    """Return what `--json` prints of a push that may come."""
    return {
        "bundle": name,
        "dags": [dag.dag_id for dag in report.dags],
        "owed": preview.owed,
        "skipped": preview.skipped,
        "changes": [_change_json(change) for change in preview.changes],
        "errors": [problem.message for problem in report.errors],
    }


def pushed_json(pushed: Push, report: BundleReport, preview: Preview) -> dict[str, Any]:
    """Return what `--json` prints of a push."""
    previewed = preview_json(pushed.bundle, report, preview)
    return {**previewed, "push": pushed.number, "version": pushed.version}


def pushed_line(verb: str, pushed: Push, report: BundleReport) -> Text:
    """Return what is said of a push that was announced."""
    return Text(
        f"{verb} {pushed.bundle!r}: push {pushed.number}, {len(report.dags)} DAGs,"
        f" version {pushed.version[:12]}; it will be registered within seconds"
    )


def _require_wired(report: BundleReport) -> None:
    """Refuse a bundle whose watchers would receive nothing, before it is uploaded."""
    definitions = (read_definition(dag) for dag in report.dags)
    found = [line for one in definitions for line in unwired(one.dag, settings.current())]
    for line in found:
        console.error(line)
    if found:
        raise typer.Exit(1)


def _in_words(change: DagChange) -> str:
    before, after = (_when(at) for at in (change.next_before, change.next_after))
    if change.is_leaving:
        return f"{change.dag_id} is removed from the bundle: no more runs (next was {before})"
    is_same = change.schedule_before == change.schedule_after
    kept = "is in the bundle again" if change.returns else "schedule changes"
    what = f"schedule {change.schedule_before} → {change.schedule_after}"
    parts = [
        f"{change.dag_id}: {kept if is_same else what}",
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


def first_run(change: DagChange) -> str:
    """Return when a new DAG runs for the first time."""
    return f"{change.schedule_after}, first run {_when(change.next_after)}"


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


def _run_lines(counts: dict[str, int], more: AbstractSet[str], words: str) -> Iterator[str]:
    for dag_id, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        at_least = "at least " if dag_id in more else ""
        runs = f"{at_least}{count:,} {'run' if count == 1 else 'runs'}"
        yield f"{dag_id} {words.format(runs)}"


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
