"""Arguments and options that several commands have, and how their values are parsed."""

import datetime
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from lamplighter.errors import RefusedError

DagId = Annotated[str, typer.Argument(metavar="DAG", help="The id of the DAG.")]
RunName = Annotated[str, typer.Argument(metavar="RUN", help="The run, as DAG/RUN.")]
BundleDir = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="The bundle: a directory with dags/, timetables/, jobs/."),
]
DagsDir = Annotated[Path, typer.Option("--dags", help="The bundle: a directory with dags/.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
BundleName = Annotated[
    str, typer.Option("--bundle", help="The name of the bundle. Default: the directory's name.")
]
Conf = Annotated[str, typer.Option("--conf", help="Parameters as JSON: '{\"full\": true}'.")]
Every = Annotated[float, typer.Option(min=0.2, help="Seconds between updates.")]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--var", metavar="NAME=TEXT", help="A variable for templates and jobs; repeatable."
    ),
]
Secrets = Annotated[
    Path | None,
    typer.Option(
        "--secrets",
        metavar="FILE",
        help='A JSON file with the secrets of jobs, by reference: {"ssm:/lake/key": "…"}.',
    ),
]
PollRealSources = Annotated[
    bool,
    typer.Option(
        "--poll-real-sources",
        help="Poll the sources of watchers for real. Default: nothing is there.",
    ),
]


def read_conf(text: str) -> dict[str, Any] | None:
    """Return the value of `--conf`; None if it was not given."""
    if not text:
        return None
    found = read_json("--conf", text)
    if not isinstance(found, dict):
        raise RefusedError(f'--conf {text!r}: write an object, such as {{"full": true}}')
    return found


def read_json(option: str, text: str) -> Any:
    """Return the value of an option that takes JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RefusedError(f"{option} {text!r} is not JSON: {error}") from error


def read_time(option: str, text: str) -> datetime.datetime:
    """Return the date or time that an option means; without an offset it is in the DAG's zone."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise RefusedError(
            f"{option} {text!r} is not a date: write it like 2026-01-31 or 2026-01-31T06:00 in the"
            " time zone of the DAG, or 2026-01-31T06:00:00Z"
        ) from error


def read_variables(texts: Iterable[str] | None) -> dict[str, str]:
    """Return the values of all `--var` options, by name."""
    found = {}
    for text in texts or ():
        name, is_given, value = text.partition("=")
        if not (name and is_given):
            raise RefusedError(f"--var {text!r}: write NAME=TEXT, such as data_root=/data/lake")
        found[name] = value
    return found


def read_secrets(file: Path | None) -> dict[str, str]:
    """Return the content of the file of `--secrets`; errors do not repeat it."""
    if file is None:
        return {}
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise RefusedError(f"--secrets {file}: {error.strerror}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise RefusedError(f"--secrets {file} must be a JSON object of texts by reference")
    return found
