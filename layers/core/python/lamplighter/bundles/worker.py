"""A process that parses DAG files and asks their timetables on request, in forks of its own.

Reads one JSON request per line and answers one JSON line. The library is imported once, here; what
an author wrote is imported only in forks.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, TypedDict

from lamplighter.bundles.following import Answer, Question, answer_to, failure
from lamplighter.bundles.fork import Limits, Outcome, in_a_fork
from lamplighter.bundles.importer import (
    ParsedFile,
    Problem,
    import_file,
    load_dags,
    problem_of,
)
from lamplighter.bundles.shifted_clock import shift_clock
from lamplighter.dags.upcoming import coming_runs, run_as_json
from lamplighter.zones import parse_instant

# Standard input: the next request comes only after an answer, so until then it can only end.
_CALLER = 0


class Upcoming(TypedDict):
    """A question for the coming runs of one DAG."""

    dag_id: str
    count: int
    at: str


class Request(TypedDict):
    """One file to work on, within limits."""

    root: str
    file: str
    seconds: float
    memory_bytes: int


class ParseRequest(Request):
    """A file to parse."""

    parse_later_again: bool
    upcoming: Upcoming | None


class RunsRequest(Request):
    """A file whose DAGs are asked for the runs that follow."""

    questions: list[Question]


def main() -> None:
    """Serve requests until the caller closes the pipe, be it in the middle of one."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What anything prints here must not mix with the answers.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.close(nothing)
    # Ctrl-C reaches all that a command has started; it is the command that tells of it.
    with suppress(EOFError, KeyboardInterrupt):
        for line in sys.stdin:
            request = json.loads(line)
            answer = _ask_timetables(request) if "questions" in request else _parse(request)
            json.dump(answer, answers)
            answers.write("\n")
            answers.flush()


def _limits(request: Request) -> Limits:
    return Limits(request["seconds"], request["memory_bytes"])


# Parsing.


def _parse(request: ParseRequest) -> dict[str, Any]:
    answer = _parse_once(request, is_later=False)
    if request["parse_later_again"] and not answer["errors"]:
        again = _parse_once(request, is_later=True)
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


def _parse_once(request: ParseRequest, *, is_later: bool) -> dict[str, Any]:
    def work() -> Iterator[dict[str, Any]]:
        if is_later:
            shift_clock()
        yield _parsed(request)

    outcome = in_a_fork(work, count=1, limits=_limits(request), caller=_CALLER)
    if outcome.answers and _is_parsed_file(outcome.answers[0]):
        answer: dict[str, Any] = outcome.answers[0]
    else:
        problem = Problem(request["file"], None, _why_not_imported(request, outcome))
        answer = ParsedFile(request["file"], errors=[problem]).to_json()
    return answer | {"output": outcome.output}


def _is_parsed_file(answer: Any) -> bool:
    """Return False if author code has written something of its own in place of the answer."""
    try:
        ParsedFile.from_json(answer)
    except (AttributeError, LookupError, TypeError):
        return False
    return True


def _why_not_imported(request: Request, outcome: Outcome) -> str:
    return outcome.cause_of_death(
        slow=f"the file took longer than {request['seconds']:g} s to import",
        process="the process that imported the file",
    )


def _parsed(request: ParseRequest) -> dict[str, Any]:
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


# Asking timetables.


def _ask_timetables(request: RunsRequest) -> list[Answer]:
    """Return an answer to each question; a fork that dies of one is replaced for the rest."""
    answers: list[Answer] = []
    while rest := request["questions"][len(answers) :]:
        outcome = in_a_fork(
            partial(_answers, request, rest),
            count=1 + len(rest),
            limits=_limits(request),
            caller=_CALLER,
        )
        if not outcome.answers:
            why = _why_not_imported(request, outcome)
            return answers + [failure(question, why) for question in rest]
        good = list(takewhile(_is_answer, outcome.answers[1:]))
        answers += good
        if len(good) < len(rest):
            answers.append(failure(rest[len(good)], _why_not_answered(request, outcome)))
    return answers


def _is_answer(answer: Any) -> bool:
    return isinstance(answer, dict) and set(answer) == Answer.__required_keys__


def _why_not_answered(request: Request, outcome: Outcome) -> str:
    return outcome.cause_of_death(
        slow=f"the timetable took longer than {request['seconds']:g} s to answer",
        process="the process that asked the timetable",
    )


def _answers(request: RunsRequest, questions: list[Question]) -> Iterator[Answer | None]:
    """Yield None once the file is imported, and then the answer to each question."""
    root, file = Path(request["root"]), request["file"]
    try:
        dags = {dag.dag_id: dag for dag in load_dags(root, file)}
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - author code
        why = problem_of(root, file, error).message
        yield None
        yield from (failure(question, why) for question in questions)
        return
    yield None
    for question in questions:
        try:
            answer = answer_to(question, dags)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - author code
            answer = failure(question, problem_of(root, file, error).message)
        yield answer


if __name__ == "__main__":
    main()
