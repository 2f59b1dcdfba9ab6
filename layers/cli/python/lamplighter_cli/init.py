"""`lamplighter init`: writes a new project that can be checked, tested and deployed at once.

Owns: what a project consists of. Its files are those of `templates/`, which are plain but for a
name, a version and a title; the example is the one that the package takes along. Refuses: a folder
that has files in it.
"""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from string import Template
from typing import Annotated

import typer
from rich.text import Text

import lamplighter
from lamplighter.bundles.layout import IMPORT_FOLDERS
from lamplighter.errors import RefusedError
from lamplighter_cli import console
from lamplighter_cli.cdk import CDK_VERSION
from lamplighter_local.shipped import shipped

_TEMPLATES = Path(__file__).parent / "templates"
# Of a bundle and of a Python project, both at once.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
# Names of files that tools would obey among the templates.
_DOT = "dot-"
_STARTER = "starter"


class Example(StrEnum):
    """An example of the package that a project can begin with."""

    SHOP = "shop"


_TITLES = {
    _STARTER: "Two DAGs: a count after each workday, and what follows from it on Spark",
    Example.SHOP: "The pipeline of a web shop: orders, rates, revenue and a weekly report",
}
_TRY_IT = {
    _STARTER: "lamplighter --local runs trigger sales      # in a second terminal",
    Example.SHOP: "python -m jobs.shop.generate --root lake  # then dev --var data_root=$PWD/lake",
}


_PUSH = {
    _STARTER: "lamplighter push",
    # It has a run for each hour since its start.
    Example.SHOP: "lamplighter variables set data_root s3://my-lake/shop"
    "    # a bucket that app.py names as data_buckets\nlamplighter push --skip-owed",
}


def init(
    name: Annotated[str, typer.Argument(help="The new folder; its name is that of the bundle.")],
    *,
    example: Annotated[
        Example | None,
        typer.Option("--from-example", help="Begin with an example instead of two small DAGs."),
    ] = None,
) -> None:
    """Write a new project: DAGs, jobs, a timetable, tests, a CDK app and a workflow."""
    root = Path(name)
    own_name = root.resolve().name
    _require_name(own_name)
    _require_empty(root)
    contents = dict(_contents(example))
    values = _values(own_name, example or _STARTER)
    for path, content in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(_filled(content, values))
    console.out().print(Text(f"{len(contents)} files in {root}; next:"), soft_wrap=True)
    for line in (
        f"cd {root}",
        "python -m venv .venv && . .venv/bin/activate && pip install -e .",
        "lamplighter check && pytest",
        "lamplighter dev",
    ):
        console.print_line(f"  {line}")


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"{name!r} cannot be the name of a project: use up to 100 letters, digits and . _ -,"
            " with a letter or digit at both ends"
        )
    if name.lower() == lamplighter.__name__:
        raise RefusedError(f"{name!r} is the package that the project needs: choose another name")


def _require_empty(root: Path) -> None:
    if root.is_dir():
        if any(root.iterdir()):
            raise RefusedError(f"{root} is not empty: name a new folder, or empty this one")
    elif root.exists():
        raise RefusedError(f"{root} is a file: name a new folder")


def _values(name: str, example: str) -> Mapping[str, str]:
    major, minor, *_ = lamplighter.__version__.split(".")
    return {
        "name": name,
        "version": f"{major}.{minor}.0",
        "title": _TITLES[example],
        "try_it": _TRY_IT[example],
        "push": _PUSH[example],
        "cdk": CDK_VERSION,
    }


def _filled(content: bytes, values: Mapping[str, str]) -> bytes:
    # Whatever else begins with a dollar sign belongs to a shell, or to a workflow.
    return Template(content.decode()).safe_substitute(values).encode()


def _contents(example: Example | None) -> Iterator[tuple[Path, bytes]]:
    """Yield the files of a project, by path in it."""
    yield from _files(_TEMPLATES / "frame")
    yield from _files(_TEMPLATES / (example or _STARTER))
    if example is not None:
        for folder in map(Path, IMPORT_FOLDERS):
            found = _files(shipped("examples") / folder)
            yield from ((folder / path, content) for path, content in found)


def _files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            parts = path.relative_to(folder).parts
            yield Path(*(re.sub(f"^{_DOT}", ".", part) for part in parts)), path.read_bytes()
