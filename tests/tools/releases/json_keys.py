"""The keys of what commands print with `--json`, as paths with types.

    runs show: [].steps[].state → string

Owns: which commands are asked, in the deployment of the story. Values are not looked at.
"""

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from lamplighter_cli.app import main
from lamplighter_local import LocalDeployment

_READS = (
    "dags list",
    "dags errors",
    "dags show hourly",
    "assets list",
    "assets show orders",
    "runs list",
    "runs list hourly",
    "runs show hourly/manual__2026-01-04T11:00:00+00:00",
    "events list orders",
    "events trace orders-1",
    "dlq list",
    "pools list",
    "variables list",
    "watchers list",
    "backfill list",
    "backfill show daily-1",
    "doctor",
)


def json_keys(lamp: LocalDeployment) -> dict[str, list[str]]:
    """Return the paths of each command's answer; a command that is refused is an error."""
    with lamp.in_own_runtime():
        return {command: sorted(set(_paths(_answer(command), ""))) for command in _READS}


def _answer(command: str) -> Any:
    said, wrong = io.StringIO(), io.StringIO()
    arguments = ["lamplighter", *command.split(), "--json"]
    with (
        patch.object(sys, "argv", arguments),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(wrong),
        contextlib.suppress(SystemExit),
    ):
        main()
    try:
        return json.loads(said.getvalue())
    except ValueError as error:
        text = wrong.getvalue() or said.getvalue()
        raise AssertionError(f"{' '.join(arguments)}: {text}") from error


def _paths(value: Any, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(each, f"{at}.{key}")
        if at:
            yield f"{at} → object"
    elif isinstance(value, list):
        yield f"{at} → list"
        for each in value:
            yield from _paths(each, f"{at}[]")
    else:
        yield f"{at} → {_type(value)}"


def _type(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(value), "null")
