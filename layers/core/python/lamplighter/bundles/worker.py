"""A process that parses DAG files on request, each in a fork of its own.

Reads one JSON request per line and answers one JSON line. The library is imported once; a fork
costs milliseconds, starts clean, and may hang, allocate, print or die without harm to the others.
"""

import json
import os
import resource
import selectors
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Never, TypedDict

from lamplighter.bundles.importer import ParsedFile, Problem, import_file, problem_of
from lamplighter.bundles.shifted_clock import shift_clock
from lamplighter.dags.upcoming import coming_runs, run_as_json
from lamplighter.zones import parse_instant

_PATIENCE_SECONDS = 1.0


class Upcoming(TypedDict):
    """A question for the coming runs of one DAG."""

    dag_id: str
    count: int
    at: str


class Request(TypedDict):
    """One file to parse, within limits."""

    root: str
    file: str
    seconds: float
    memory_bytes: int
    parse_later_again: bool
    upcoming: Upcoming | None


def main() -> None:
    """Serve requests until the caller closes the pipe."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _point_at_nothing(1)
    for line in sys.stdin:
        json.dump(_parse(json.loads(line)), answers)
        answers.write("\n")
        answers.flush()


def _point_at_nothing(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, descriptor)
    os.close(nothing)


def _parse(request: Request) -> dict[str, Any]:
    answer = _in_a_fork(request, is_later=False)
    if request["parse_later_again"] and not answer["errors"]:
        again = _in_a_fork(request, is_later=True)
        later = {dag["dag_id"]: dag["hash"] for dag in again["dags"]}
        for dag in answer["dags"]:
            # A file that the moved clock itself breaks tells nothing about the moment.
            if not again["errors"] and later.get(dag["dag_id"]) != dag["hash"]:
                answer["warnings"].append(_unstable(request["file"], dag))
    return answer


def _unstable(file: str, dag: dict[str, Any]) -> dict[str, Any]:
    message = (
        f"DAG {dag['dag_id']!r} is different when it is parsed at another moment: write dates out"
        " instead of computing them from the present"
    )
    return {"file": file, "line": dag["line"], "message": message, "frames": []}


def _in_a_fork(request: Request, *, is_later: bool) -> dict[str, Any]:
    result_read, result_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(result_read)
        _be_the_fork(request, result_write, is_later=is_later)
    os.close(result_write)
    with os.fdopen(result_read, "rb") as result:
        data, is_late = _read_in_time(result, request["seconds"])
    status = _end(pid)
    try:
        answer: dict[str, Any] = json.loads(data)
    except ValueError:
        problem = Problem(request["file"], None, _cause_of_death(request, status, is_late=is_late))
        answer = ParsedFile(request["file"], errors=[problem]).to_json()
    return answer


def _read_in_time(result: IO[bytes], seconds: float) -> tuple[bytes, bool]:
    """Read until the result is closed or time is up, and tell whether it was."""
    data = bytearray()
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(result, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                chunk = os.read(result.fileno(), 65_536)
                if not chunk:
                    return bytes(data), False
                data += chunk
    return b"", True


def _end(pid: int) -> int:
    """Let a fork that has answered end by itself, end it otherwise, and its children with it."""
    patience = time.monotonic() + _PATIENCE_SECONDS
    ended, status = os.waitpid(pid, os.WNOHANG)
    while not ended and time.monotonic() < patience:
        time.sleep(0.001)
        ended, status = os.waitpid(pid, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    return status if ended else os.waitpid(pid, 0)[1]


def _cause_of_death(request: Request, status: int, *, is_late: bool) -> str:
    if is_late:
        return f"the file took longer than {request['seconds']:g} s to import; it was stopped"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) != signal.SIGKILL:
        return f"the process that imported the file died of {signal.strsignal(os.WTERMSIG(status))}"
    code = os.waitstatus_to_exitcode(status)
    return f"the process that imported the file ended before it was done (exit code {code})"


def _be_the_fork(request: Request, result: int, *, is_later: bool) -> Never:
    try:
        os.setsid()
        for stream in (0, 1, 2):
            _point_at_nothing(stream)
        limit = request["memory_bytes"]
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        if is_later:
            shift_clock()
        answer = json.dumps(_answer(request)).encode()
        with os.fdopen(result, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _answer(request: Request) -> dict[str, Any]:
    parsed, dags = import_file(Path(request["root"]), request["file"])
    answer = parsed.to_json()
    question = request["upcoming"]
    for dag in dags:
        if question is None or dag.dag_id != question["dag_id"]:
            continue
        try:
            runs = coming_runs(dag, question["count"], at=parse_instant(question["at"]))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an author's timetable
            answer["runs_error"] = problem_of(Path(request["root"]), request["file"], error).message
        else:
            answer["runs"] = [run_as_json(dag, info) for info in runs]
    return answer


if __name__ == "__main__":
    main()
