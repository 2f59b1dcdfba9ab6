"""A process that parses DAG files and asks their timetables on request, in forks of its own.

Reads one JSON request per line and responds with one JSON line. The library is imported once, here;
what an author wrote is imported only in forks. Nothing that a fork has started outlives its
request: this process adopts what is orphaned, and ends it.
"""

import datetime
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from lamplighter import clock
from lamplighter.bundles import processes
from lamplighter.bundles.fork import ForkResult, Limits, run_in_fork
from lamplighter.bundles.importer import ParsedFile, import_file, load_dags, problem_of
from lamplighter.dags.upcoming import (
    NextRunsResult,
    TimetableQuery,
    describe_run,
    failed_result,
    query_timetable,
    upcoming_runs,
)
from lamplighter.serialization import SCHEMA, encode_dag, zone_of_dag
from lamplighter.zones import as_utc, instant_in, iso, parse_instant

if TYPE_CHECKING:
    import time_machine

# Standard input: the next request comes only after a response, so until then it can only end.
_CALLER = 0


class UpcomingQuery(TypedDict):
    """Which runs of one DAG come at or after `at`: an instant, or a time in the DAG's zone?"""

    dag_id: str
    count: int
    at: str


class Request(TypedDict):
    """One file to work on, within limits."""

    root: str
    file: str
    seconds: float
    memory_bytes: int
    now: str | None  # what the caller's clock shows, if it is not the machine's


class ParseRequest(Request):
    """A file to parse."""

    parse_later_again: bool
    upcoming: UpcomingQuery | None


class RunsRequest(Request):
    """A file whose DAGs are asked for the runs that follow."""

    queries: list[TimetableQuery]


def main() -> None:
    """Serve requests until the caller closes the pipe, even in the middle of one."""
    processes.shield()
    # Once, here: nearly every file needs them, and each of the forks would import them for itself.
    for module in ("lamplighter.dags.templates", "cron_descriptor"):
        import_module(module)
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What anything prints here must not mix with the responses.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)
    # Ctrl-C reaches every process that a command has started; the command reports it.
    with suppress(EOFError, KeyboardInterrupt):
        for line in sys.stdin:
            request = json.loads(line)
            response = _query_timetables(request) if "queries" in request else _parse(request)
            json.dump(response, responses)
            responses.write("\n")
            responses.flush()


def _run(work: Callable[[], Iterator[Any]], count: int, request: "Request") -> ForkResult:
    limits = Limits(request["seconds"], request["memory_bytes"])
    try:
        return run_in_fork(work, count=count, limits=limits, caller=_CALLER)
    finally:
        processes.end_descendants()


# Parsing.


def _parse(request: ParseRequest) -> dict[str, Any]:
    parsed = _parse_once(request)
    if request["parse_later_again"] and not parsed["errors"]:
        now = clock.now() if request["now"] is None else parse_instant(request["now"])
        again = _parse_once({**request, "now": iso(as_utc(now + _LATER))})
        later = {dag["dag_id"]: dag["hash"] for dag in again["dags"]}
        for dag in parsed["dags"]:
            # A file that fails under the moved clock proves nothing.
            if not again["errors"] and later.get(dag["dag_id"]) != dag["hash"]:
                message = (
                    f"DAG {dag['dag_id']!r} is different when it is parsed at another moment: write"
                    " dates out instead of computing them from the present"
                )
                place = {"file": request["file"], "line": dag["line"], "frames": []}
                parsed["warnings"].append({**place, "message": message})
    return parsed


def _parse_once(request: ParseRequest) -> dict[str, Any]:
    set_clock = _clock_of(request)

    def work() -> Iterator[dict[str, Any]]:
        set_clock()
        yield _import(request)

    result = _run(work, 1, request)
    if result.values and _is_parsed_file(result.values[0]):
        parsed: dict[str, Any] = result.values[0]
    else:
        parsed = asdict(ParsedFile.failed(request["file"], _why_not_imported(request, result)))
    return parsed | {"output": result.output}


def _is_parsed_file(value: Any) -> bool:
    """Return False if author code has written something of its own in place of the result."""
    try:
        parsed = ParsedFile.from_json(value)
        ids = [(dag["dag_id"], dag["hash"], dag["line"]) for dag in parsed.dags]
        # A newer one would be waited for, as if an upgrade were under way.
        versions = {dag["document"]["schema"] for dag in parsed.dags}
    except (AttributeError, LookupError, TypeError):
        return False
    lists = (value["dags"], value["warnings"], value["errors"])
    return (
        versions <= {SCHEMA}
        and all(isinstance(each, list) for each in lists)
        and all(isinstance(dag_id, str) and isinstance(digest, str) for dag_id, digest, _ in ids)
    )


def _why_not_imported(request: Request, result: ForkResult) -> str:
    slow = f"the file took longer than {request['seconds']:g} s to import"
    return result.why_it_ended(slow=slow, process="the process that imported the file")


def _import(request: ParseRequest) -> dict[str, Any]:
    root, file, query = Path(request["root"]), request["file"], request["upcoming"]
    parsed, dags = import_file(root, file)
    result = asdict(parsed)
    for dag in dags:
        if query is None or dag.dag_id != query["dag_id"]:
            continue
        moment = datetime.datetime.fromisoformat(query["at"])
        try:
            at = instant_in(zone_of_dag(encode_dag(dag)), moment)
            _travel(at).start()
            runs = upcoming_runs(dag, query["count"], at=at)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's timetable
            result["runs_error"] = problem_of(root, file, error).message
        else:
            result["runs"] = [describe_run(dag, info) for info in runs]
    return result


# The clock. In a simulation, and asked about another moment, author code that reads it must get
# that time. And a start date of "today" gives the same definition twice in one second, and another
# one tomorrow: the second of two parses therefore happens a day later.

# Enough to change the day, the hour and the minute.
_LATER = datetime.timedelta(days=1, hours=1, minutes=1)


def _clock_of(request: Request) -> Callable[[], object]:
    """Return what lets a fork have the time of the caller, if that is not the machine's."""
    if request["now"] is None:
        return lambda: None
    return _travel(parse_instant(request["now"])).start


def _travel(to: datetime.datetime) -> "time_machine.travel":
    # Imported here, once for all forks, and not in Lambda, where it is not installed: everybody
    # there has the machine's time.
    with _without("pytest"):  # it has a plugin for it, whose import takes longer than all others
        import time_machine  # noqa: PLC0415 - see above

    return time_machine.travel(to, tick=False)


@contextmanager
def _without(name: str) -> Iterator[None]:
    """Let a module seem not to be installed until the block ends, unless it is in use."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment] # so Python marks what is not there
    try:
        yield
    finally:
        del sys.modules[name]


# Asking timetables.


def _query_timetables(request: RunsRequest) -> list[NextRunsResult]:
    """Return the result of each query; a fork that dies of one is replaced for the rest."""
    results: list[NextRunsResult] = []
    set_clock = _clock_of(request)
    while rest := request["queries"][len(results) :]:
        work = partial(_import_and_query, request, rest, set_clock)
        done = _run(work, 1 + len(rest), request)
        if not done.values:
            why = _why_not_imported(request, done)
            return results + [failed_result(query, why) for query in rest]
        good = list(takewhile(_is_result, done.values[1:]))
        results += good
        if len(good) < len(rest):
            slow = f"the timetable took longer than {request['seconds']:g} s to answer"
            why = done.why_it_ended(slow=slow, process="the process that asked the timetable")
            results.append(failed_result(rest[len(good)], why))
    return results


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == NextRunsResult.__required_keys__


def _import_and_query(
    request: RunsRequest, queries: list[TimetableQuery], set_clock: Callable[[], object]
) -> Iterator[NextRunsResult | None]:
    """Yield None once the file is imported, and then the result of each query."""
    set_clock()
    root, file = Path(request["root"]), request["file"]
    try:
        dags = {dag.dag_id: dag for dag in load_dags(root, file)}
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - author code
        why = problem_of(root, file, error).message
        yield None
        yield from (failed_result(query, why) for query in queries)
        return
    yield None
    for query in queries:
        try:
            result = query_timetable(query, dags)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - author code
            result = failed_result(query, problem_of(root, file, error).message)
        yield result


if __name__ == "__main__":
    main()
