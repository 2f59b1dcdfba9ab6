"""Runs the function of a Python task, without Spark: `python -m lamplighter_job.python_step PIPE`.

Reads its context as JSON from standard input, and says how it ended as a line on the pipe. Whoever
has started it writes the report, and keeps its secret.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lamplighter_job import report, runner
from lamplighter_job.context import context_from
from lamplighter_job.logs import fields_of, json_logs

if TYPE_CHECKING:
    from lamplighter_job.report import Outcome


def main() -> int:
    """Run one step; return the exit code."""
    pipe = int(sys.argv[1])
    os.set_inheritable(pipe, False)
    request = json.load(sys.stdin)
    try:
        context = context_from(request["context"])
    except Exception as error:  # noqa: BLE001 - whatever the document holds is reported
        outcome = report.failed(error)
    else:
        with json_logs(fields_of(context)):
            bundle = Path(request["bundle"])
            outcome = runner.logged(runner.run_program(context, request["context"], bundle))
    _say(outcome, pipe)
    return outcome.exit_code


def _say(outcome: Outcome, pipe: int) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with os.fdopen(pipe, "wb", closefd=False) as answer:
        answer.write(json.dumps(outcome.document).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
