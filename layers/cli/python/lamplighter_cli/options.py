"""Options that several commands take, and what their texts mean."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lamplighter.errors import RefusedError

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
BundleName = Annotated[
    str, typer.Option("--bundle", help="Its name. Default: the name of the folder.")
]
Conf = Annotated[str, typer.Option("--conf", help="Parameters as JSON: '{\"full\": true}'.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var", metavar="NAME=TEXT", help="A variable for templates and jobs; repeatable."
    ),
]


def read_conf(text: str) -> dict[str, Any] | None:
    """Return what `--conf` says; None if it was left out."""
    if not text:
        return None
    found = read_json("--conf", text)
    if not isinstance(found, dict):
        raise RefusedError(f'--conf {text!r}: write an object, such as {{"full": true}}')
    return found


def read_json(option: str, text: str) -> Any:
    """Return the value that an option has as JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RefusedError(f"{option} {text!r} is not JSON: {error}") from error


def read_variables(texts: Iterable[str] | None) -> dict[str, str]:
    """Return what each `--var` says, by name."""
    found = {}
    for text in texts or ():
        name, is_given, value = text.partition("=")
        if not (name and is_given):
            raise RefusedError(f"--var {text!r}: write NAME=TEXT, such as data_root=/data/lake")
        found[name] = value
    return found


@contextmanager
def needing_local() -> Iterator[None]:
    """Say in one line what to install where an import fails: not every installation has moto."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise RefusedError(
            f"{missing.name} is not installed: pip install 'lamplighter[local]'"
        ) from missing
