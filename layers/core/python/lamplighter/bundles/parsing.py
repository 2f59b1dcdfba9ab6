"""Parses the DAG files of a bundle, and asks its timetables, in worker processes with limits.

Owns: those processes, and what all files of a bundle define together. Nothing of an author's is
imported here: each file is imported in a fork (see `worker`), and whatever its code does there is
data in the result, never an error of this process.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import pendulum

import lamplighter
from lamplighter import clock, runtime
from lamplighter.bundles.answers import MAX_BUNDLE_BYTES, MAX_BYTES, AnswerPipe
from lamplighter.bundles.fork import DEFAULT_LIMITS, Limits
from lamplighter.bundles.importer import ImportProblem, ParsedFile
from lamplighter.bundles.layout import dag_files, require_bundle
from lamplighter.bundles.worker import ParseRequest, Request, RunsRequest, UpcomingQuery
from lamplighter.dags.upcoming import NextRunsResult, TimetableQuery, failed_result
from lamplighter.errors import DefinitionError
from lamplighter.zones import iso

MAX_FILES_PER_CALL = 50
"""How many files a caller should ask for at once, to stay within the time of one Lambda call."""

# The rest is for the process that asks, and for the worker under each fork.
_SHARE_OF_AUTHOR_CODE = 0.8
# Enough for a file of ten thousand DAGs.
_MIN_BYTES = 400 * 1024**2
# Author code gets neither credentials nor names of resources.
_WITHHELD = ("AWS_", "_X_AMZN", "LAMBDA_", "LAMPLIGHTER_")
# Beyond the time of author code, for each fork: to start and end it.
_SECONDS_PER_FORK = 30.0
# A worker repeats what forks have answered, with what they have printed.
_MAX_RESPONSE_BYTES = 2 * MAX_BYTES


@dataclass(frozen=True)
class CheckedDag:
    """A DAG that a bundle defines, and where."""

    dag_id: str
    file: str
    line: int | None
    schedule: str
    description: str
    hash: str
    document: dict[str, Any]


@dataclass(frozen=True)
class BundleReport:
    """Everything a bundle defines, and everything that is wrong with it."""

    dags: tuple[CheckedDag, ...]
    warnings: tuple[ImportProblem, ...]
    errors: tuple[ImportProblem, ...]
    outputs: dict[str, str]
    """What each file with an error printed before it."""


# A bundle on the author's machine.


def check_bundle(
    root: Path, *, limits: Limits = DEFAULT_LIMITS, on_file: Callable[[str], None] = lambda _: None
) -> BundleReport:
    """Return what the bundle at `root` defines; `on_file` is told of each file that is done."""
    root = require_bundle(root)
    parsed = []
    for result in _parse(root, dag_files(root), limits, parse_later_again=True):
        parsed.append(ParsedFile.from_json(result))
        on_file(result["file"])
    return combine(parsed)


def find_dag(root: Path, dag_id: str, *, limits: Limits = DEFAULT_LIMITS) -> CheckedDag:
    """Return a DAG of the bundle at `root`."""
    root = require_bundle(root)
    return _dag_in(combine(parse_files(root, dag_files(root), limits=limits)), dag_id)


def find_upcoming_runs(
    root: Path, query: UpcomingQuery, *, limits: Limits = DEFAULT_LIMITS
) -> tuple[CheckedDag, list[dict[str, Any]]]:
    """Return the DAG that the query is about, and its runs to come."""
    root = require_bundle(root)
    results = {
        result["file"]: result for result in _parse(root, dag_files(root), limits, upcoming=query)
    }
    parsed = [ParsedFile.from_json(result) for result in results.values()]
    dag = _dag_in(combine(parsed), query["dag_id"])
    result = results[dag.file]
    if "runs_error" in result:
        raise DefinitionError(f"{dag.file}: {result['runs_error']}")
    return dag, result["runs"]


def _dag_in(report: BundleReport, dag_id: str) -> CheckedDag:
    for dag in report.dags:
        if dag.dag_id == dag_id:
            return dag
    names = ", ".join(dag.dag_id for dag in report.dags[:10]) or "none"
    # The file that should define it may be the one that fails: errors that name it come first.
    errors = sorted(report.errors, key=lambda problem: repr(dag_id) not in problem.message)
    broken = "".join(f"; {problem.file}: {problem.message}" for problem in errors[:3])
    raise DefinitionError(f"there is no DAG {dag_id!r} in this bundle (there are: {names}){broken}")


def combine(parsed: list[ParsedFile]) -> BundleReport:
    """Return what all files define together; of two DAGs with one id the first by path is used."""
    dags: dict[str, CheckedDag] = {}
    warnings: list[ImportProblem] = []
    errors: list[ImportProblem] = []
    for file in sorted(parsed, key=lambda item: item.file):
        errors += file.errors
        warnings += file.warnings
        for found in file.dags if not file.errors else []:
            dag = CheckedDag(file=file.file, **found)
            first = dags.setdefault(dag.dag_id, dag)
            if first is not dag:
                message = (
                    f"DAG {dag.dag_id!r} is already defined in {first.file}: that one is used, this"
                    " one is ignored; give it another id"
                )
                warnings.append(ImportProblem(dag.file, dag.line, message))
    outputs = {file.file: file.output for file in parsed if file.errors and file.output}
    return BundleReport(tuple(dags.values()), tuple(warnings), tuple(errors), outputs)


# What the `sandbox` function does for others.


def limits_within(memory_bytes: int) -> Limits:
    """Return limits under which all that runs at once fits into `memory_bytes`."""
    share = int(memory_bytes * _SHARE_OF_AUTHOR_CODE)
    processes = max(1, min(DEFAULT_LIMITS.processes, share // _MIN_BYTES))
    return Limits(memory_bytes=share // processes, processes=processes)


def parse_files(
    root: Path, files: Sequence[str], *, limits: Limits = DEFAULT_LIMITS
) -> list[ParsedFile]:
    """Return what each of the bundle's files defines, or what is wrong with it."""
    parsed, room = [], MAX_BUNDLE_BYTES
    for result in _parse(root.resolve(), files, limits):
        room -= len(json.dumps(result))
        why = f"this file and those before it define more than {MAX_BUNDLE_BYTES:,} bytes"
        parsed.append(
            ParsedFile.from_json(result) if room > 0 else ParsedFile.failed(result["file"], why)
        )
    return parsed


def query_timetables(
    root: Path, queries: Sequence[TimetableQuery], *, limits: Limits = DEFAULT_LIMITS
) -> list[NextRunsResult]:
    """Return the result of each query, in their order; the time limit is for each of them."""
    # The queries about one file share its import, which may take longer than all of them.
    by_file: dict[str, list[int]] = {}
    for number, query in enumerate(queries):
        by_file.setdefault(query["file"], []).append(number)
    requests = [
        RunsRequest(
            **_request(root.resolve(), file, limits),
            queries=[queries[number] for number in numbers],
        )
        for file, numbers in by_file.items()
    ]
    results: dict[int, NextRunsResult] = {}
    found = ask_workers(requests, processes=limits.processes)
    for numbers, some in zip(by_file.values(), found, strict=True):
        results.update(zip(numbers, some, strict=True))
    return [results[number] for number in range(len(queries))]


# The worker processes.


def _parse(
    root: Path,
    files: Sequence[str],
    limits: Limits,
    *,
    parse_later_again: bool = False,
    upcoming: UpcomingQuery | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield what each file defines, as JSON, as they come."""
    requests = [
        ParseRequest(
            **_request(root, file, limits), parse_later_again=parse_later_again, upcoming=upcoming
        )
        for file in files
    ]
    return ask_workers(requests, processes=limits.processes)


def _request(root: Path, file: str, limits: Limits) -> Request:
    now = None if runtime.current().clock is None else iso(clock.now())
    seconds, memory_bytes = limits.seconds, limits.memory_bytes
    return Request(root=str(root), file=file, seconds=seconds, memory_bytes=memory_bytes, now=now)


def ask_workers(requests: Sequence[Request], *, processes: int) -> Iterator[Any]:
    """Yield the response to each request, in their order."""
    with TemporaryDirectory(prefix="lamplighter-", ignore_cleanup_errors=True) as folder:
        yield from _ask_workers(requests, processes, partial(start_worker, TMPDIR=folder))


def _ask_workers(
    requests: Sequence[Request], processes: int, start: "Callable[[], subprocess.Popen[str]]"
) -> Iterator[Any]:
    width = max(1, min(processes, len(requests)))
    idle: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
    workers = [start() for _ in range(width)]
    for worker in workers:
        idle.put(worker)

    def ask(request: Request) -> Any:
        worker = idle.get()
        try:
            return ask_worker(worker, request)
        except WorkerEndedError:
            worker.kill()
            worker.communicate()
            workers.remove(worker)
            worker = start()
            workers.append(worker)
            return _failed_response(request)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(width) as threads:
            try:
                yield from threads.map(ask, requests)
            except BaseException:  # the caller has stopped: nobody waits for the responses
                for worker in workers:
                    worker.send_signal(signal.SIGINT)
                raise
    finally:
        for worker in workers:
            worker.communicate()


def start_worker(**variables: str) -> subprocess.Popen[str]:
    """Start a process that answers requests until its standard input is closed."""
    return subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "lamplighter.bundles.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )


class WorkerEndedError(Exception):
    """A worker was killed, stopped or garbled by the author code below it."""


def ask_worker(worker: "subprocess.Popen[str]", request: Request) -> Any:
    """Return what a worker responds to a request."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    # The import, and each question, which may need an import of its own.
    forks = 2 + 2 * len(_queries(request))
    deadline = time.monotonic() + forks * (request["seconds"] + _SECONDS_PER_FORK)
    try:
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        pipe = AnswerPipe(
            worker.stdout.fileno(),
            max_bytes=_MAX_RESPONSE_BYTES,
            is_alive=lambda: worker.poll() is None,
        )
        return json.loads(pipe.read_line(deadline=deadline))
    except (EOFError, OSError, ValueError) as error:
        raise WorkerEndedError(request["file"]) from error


def _queries(request: Request) -> list[TimetableQuery]:
    queries: list[TimetableQuery] = dict(request).get("queries", [])  # type: ignore[assignment] # of one kind of request
    return queries


def _failed_response(request: Request) -> Any:
    why = "the process that ran the file was ended from within"
    if queries := _queries(request):
        return [failed_result(query, why) for query in queries]
    return asdict(ParsedFile.failed(request["file"], why))


def environment(**more: str) -> dict[str, str]:
    """Return what a process gets that runs author code: no secrets, and where the library is.

    In Lambda its packages come from a layer, which the runtime puts on the path of its own process
    only.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_WITHHELD)}
    files = [module.__file__ for module in (lamplighter, pendulum) if module.__file__]
    folders = [str(Path(file).parents[1]) for file in files]
    given = [kept["PYTHONPATH"]] if kept.get("PYTHONPATH") else []
    return {**kept, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*folders, *given])), **more}
