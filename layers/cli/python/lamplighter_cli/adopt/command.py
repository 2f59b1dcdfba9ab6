"""`lamplighter adopt`: reports which Airflow DAGs move, and writes their translation."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lamplighter import clock
from lamplighter.errors import RefusedError
from lamplighter.zones import as_utc
from lamplighter_cli import console
from lamplighter_cli.adopt.findings import FileReport, Finding, Level
from lamplighter_cli.adopt.report import as_json as report_as_json
from lamplighter_cli.adopt.report import show
from lamplighter_cli.adopt.source import UnreadableError
from lamplighter_cli.adopt.translation import Translation, find_module, translate
from lamplighter_cli.options import AsJson, read_time

BUNDLE = "lamplighter_bundle"
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages", BUNDLE})
_IGNORED = ".airflowignore"
_RELEASES = ("2", "3")


def adopt(
    path: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="Airflow DAG files: a folder, or one file.")
    ],
    *,
    write: Annotated[
        bool, typer.Option("--write", help=f"Write the translation into {BUNDLE}/ beside them.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Write it into this folder instead.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")] = False,
    airflow: Annotated[
        str,
        typer.Option(
            metavar="2|3", help="The release of Airflow. Default: what each file's imports say."
        ),
    ] = "",
    at: Annotated[
        str, typer.Option(help="The date or time from which runs are compared. Default: now.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Report which Airflow DAGs move, and translate them. Nothing in them is run.

    Exit code 0 if all of them move, 3 if some need edits or do not move.
    """
    if airflow and airflow not in _RELEASES:
        raise RefusedError(f"--airflow {airflow!r}: write 2 or 3")
    if not path.exists():
        raise RefusedError(f"{path} does not exist")
    moment = read_time("--at", at) if at else clock.now().replace(microsecond=0)
    root = path if path.is_dir() else path.parent
    made: list[Translation] = []
    for file in _files(path):
        label = file.relative_to(root).as_posix()
        found = translate(
            file, label, root, airflow=int(airflow) if airflow else None, at=as_utc(moment)
        )
        if found is not None:
            made.append(found)
    if not made:
        raise RefusedError(f"{path} has no file that imports airflow")
    if write or to is not None:
        bundle = to or root / BUNDLE
        _write(made, root, bundle, force=force)
        _tell_airflow(root, bundle)
    reports = [each.report for each in made]
    if as_json:
        console.print_json(report_as_json(reports))
    else:
        show(reports, console.out())
    if any(_needs_a_person(report) for report in reports):
        raise typer.Exit(3)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _SKIPPED
            and not name.startswith(".")
            and not (Path(folder) / name / "pyvenv.cfg").exists()
        )
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def _needs_a_person(report: FileReport) -> bool:
    return not report.is_translated or any(
        finding.level >= Level.EDIT for finding in report.all_findings
    )


# Writing.


def _write(made: list[Translation], root: Path, bundle: Path, *, force: bool) -> None:
    files: dict[str, str] = {}
    owners: dict[str, FileReport] = {}
    for translation in made:
        for name, text in translation.files.items():
            if files.setdefault(name, text) == text:
                owners.setdefault(name, translation.report)
            else:
                message = f"{name} is also made of another file: give one of them another name"
                translation.report.findings.append(Finding(Level.EDIT, 1, message))
        for name, text in _helpers(translation, root).items():
            if files.setdefault(name, text) == text:
                owners.setdefault(name, translation.report)
    taken = [] if force else [name for name in sorted(files) if (bundle / name).exists()]
    if taken:
        more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
        raise RefusedError(f"{bundle / taken[0]}{more} exists: --force overwrites it")
    for name in sorted(files):
        target = bundle / name
        if not target.resolve().is_relative_to(bundle.resolve()):
            raise RefusedError(f"{target} is outside {bundle}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(files[name], encoding="utf-8")
        owners[name].written.append(str(target))


def _tell_airflow(root: Path, bundle: Path) -> None:
    """Say how Airflow skips the translation, if it lies in the folder that Airflow reads."""
    inside, outside = bundle.resolve(), root.resolve()
    if inside == outside or not inside.is_relative_to(outside):
        return
    # Airflow 2 takes it for a regular expression, Airflow 3 for a glob; both match the folder.
    line, ignored = inside.relative_to(outside).as_posix(), root / _IGNORED
    if ignored.is_file() and line in ignored.read_text("utf-8", errors="replace").split():
        return
    text = f"if Airflow reads {root}, let it skip the translation: add {line} to {ignored}"
    console.err().print(Text(text), soft_wrap=True)


def _helpers(translation: Translation, root: Path) -> dict[str, str]:
    """Return the modules beside the files that they import, which go into `lib/`."""
    found: dict[str, str] = {}
    rest = [(module, root / translation.report.file) for module in translation.local_modules]
    while rest:
        module, importer = rest.pop()
        path = find_module(module, importer, root)
        name = f"lib/{module.replace('.', '/')}{'/__init__.py' if _is_package(path) else '.py'}"
        if path is None or name in found:
            continue
        try:
            helper = translate(path, name, root, airflow=None, at=as_utc(clock.now()))
        except UnreadableError:
            continue
        if helper is None:
            found[name] = path.read_text("utf-8", errors="replace")
    return found


def _is_package(path: Path | None) -> bool:
    return path is not None and path.name == "__init__.py"
