"""`lamplighter push --dry-run`: what a push would change, as text, JSON or Markdown."""

from collections.abc import Iterator

from rich.text import Text

from lamplighter.bundles.parsing import BundleReport
from lamplighter.safe_text import visible
from lamplighter_cli import console
from lamplighter_cli.push_preview import Preview, first_run, preview_json, preview_lines


def show_dry_run(
    name: str, report: BundleReport, preview: Preview, *, as_json: bool, as_markdown: bool
) -> None:
    """Print what a push would change."""
    if as_json:
        more = {"needs_confirmation": preview.needs_confirmation}
        console.print_json({**preview_json(name, report, preview), **more})
        return
    title = f"A push of {name!r} has {_count(len(report.dags), 'DAG')}"
    lines = list(_lines(report, preview)) or ["nothing changes for their schedules"]
    if as_markdown:
        for line in _markdown(title, lines):
            console.print_line(line)
        return
    for line in [title, *lines]:
        console.out().print(Text(line), soft_wrap=True)


def _lines(report: BundleReport, preview: Preview) -> Iterator[str]:
    for problem in report.errors:
        yield f"error: {problem.file}: {problem.message}"
    for change in preview.changes:
        if change.is_new:
            yield f"{change.dag_id} is new: {first_run(change)}"
    yield from preview_lines(preview)
    if preview.needs_confirmation:
        yield f"{preview.total:,} runs are already due: the push needs --yes or --skip-owed"


def _markdown(title: str, lines: list[str]) -> Iterator[str]:
    yield f"**{title}**"
    yield ""
    # In a block of code nothing is read as Markdown, and nothing in it ends the block.
    yield "```text"
    yield from (" ".join(visible(line).split()).replace("`", "'") for line in lines)
    yield "```"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
