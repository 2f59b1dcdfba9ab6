"""Runs the program of one step: `run_step.py <URI of context.json>`.

Owns: from the context to the report, and the exit code. Whatever the program does short of ending
the process, a report says how it went. Refuses: knowing where jobs run.
"""

from __future__ import annotations

import importlib
import json
import logging
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lamplighter_job import report
from lamplighter_job.context import Context, context_from, running
from lamplighter_job.errors import ProgramError, SkipStep
from lamplighter_job.files import Files, beside
from lamplighter_job.logs import fields_of, json_logs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from lamplighter_job.report import Outcome

# Where `spark.archives` unpacks the bundle, in the working directory of driver and executors.
BUNDLE = "lamplighter_bundle"
REPORT = "report.json"
_FOLDERS = ("jobs", "lib")

_log = logging.getLogger("lamplighter_job")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the step whose context lies at the only argument; return the exit code."""
    # Here, so that whoever only wants a `Context` needs no PySpark.
    from pyspark.sql import SparkSession  # noqa: PLC0415 - the reason is above

    arguments = sys.argv[1:] if argv is None else argv
    if len(arguments) != 1:
        sys.stderr.write("run_step.py needs one argument, the URI of a context.json\n")
        return 1
    spark = SparkSession.builder.getOrCreate()
    return run_step(spark, arguments[0], bundle=Path(BUNDLE)).exit_code


def run_step(spark: SparkSession, context_uri: str, *, bundle: Path) -> Outcome:
    """Run the program that a context names and write its report beside the context."""
    files = Files(spark)
    secret = None
    try:
        document = json.loads(files.read(context_uri))
        secret = document.pop("report_secret", None)
        context = context_from(document)
    except Exception as error:  # noqa: BLE001 - whatever Hadoop says or the text holds is reported
        with json_logs({}):
            return _told(files, context_uri, report.failed(error), secret)
    with json_logs(fields_of(context)):
        outcome = run_program(context, document, bundle, spark)
        return _told(files, context_uri, outcome, secret)


def run_program(
    context: Context, document: Mapping[str, Any], bundle: Path, *given: SparkSession
) -> Outcome:
    """Run the program of a step and return how it ended; a function gets what is given first."""
    _log.info("the step begins, submission %d", context.submission)
    with running(context):
        return _outcome(context, document, bundle, given)


def _outcome(
    context: Context, document: Mapping[str, Any], bundle: Path, given: Sequence[SparkSession]
) -> Outcome:
    try:
        _import_from(bundle)
        _run_program(given, context, document, bundle)
        return report.succeeded(context)
    except SkipStep as skip:
        return report.skipped(str(skip.reason))
    except BaseException as error:  # noqa: BLE001 - an author's program may raise anything at all
        return report.failed(error)


def logged(outcome: Outcome) -> Outcome:
    """Log how a step ended; return it without the secrets that its program has read."""
    outcome = outcome.without_secrets()
    if outcome.state == report.FAILED:
        _log.error("the step has failed: %s", outcome.document["reason"])
    else:
        _log.info("the step ends as %s", f"{outcome.state} {outcome.summary}".strip())
    return outcome


def _told(files: Files, context_uri: str, outcome: Outcome, secret: str | None) -> Outcome:
    """Log how the step ended and write its report; a step whose report is lost has failed.

    A report is believed only with the secret of the submission, which the context holds: if that
    cannot be read, the log must say why.
    """
    outcome = logged(outcome)
    if secret is None:
        sys.stderr.write(f"{outcome.document['reason']}\n")
        return outcome
    try:
        files.write(beside(context_uri, REPORT), outcome.to_bytes(secret))
    except Exception as error:  # noqa: BLE001 - Hadoop's errors have no common root
        lost = report.failed(error)
        _log.error("the report cannot be written: %s", lost.document["reason"])
        return lost
    return outcome


# The program.


def _run_program(
    given: Sequence[SparkSession], context: Context, document: Mapping[str, Any], bundle: Path
) -> None:
    try:
        if document.get("job"):
            _function(document["job"])(*given, context)
        elif document.get("entry_point"):
            _run_script(bundle.resolve() / document["entry_point"], context.arguments)
        else:
            raise ProgramError("the context names neither a job nor an entry_point")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


def _function(job: str) -> Callable[..., object]:
    module_name, _, name = job.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and lacks another one
        raise ProgramError(
            f"job {job!r}: there is no module {error.name!r} in the bundle"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise ProgramError(f"job {job!r}: {module.__file__} does not define a function {name!r}")
    found: Callable[..., object] = function
    return found


def _run_script(script: Path, arguments: Sequence[str]) -> None:
    if not script.is_file():
        raise ProgramError(f"entry_point: there is no file {str(script)!r}")
    before, sys.argv = sys.argv, [str(script), *arguments]
    try:
        runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = before


# The import path.


def _import_from(bundle: Path) -> None:
    """Make the bundle importable here; executors are told where it is by whoever starts the job."""
    if not bundle.is_dir():
        raise ProgramError(
            f"there is no folder {str(bundle)!r} in {Path.cwd()}: start the job with"
            f" spark.archives=<URI of the bundle>#{BUNDLE}"
        )
    root = bundle.resolve()
    # The root first, so that the bundle's own `jobs` package is found; its folders last, so that a
    # file named like a standard module cannot take its place.
    sys.path.insert(0, str(root))
    sys.path.extend(str(root / folder) for folder in _FOLDERS if (root / folder).is_dir())
