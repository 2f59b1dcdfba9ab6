"""What trusted code asks of author code: to be parsed, and when the next runs are.

Owns: the two verbs of the `sandbox` function, over an unpacked bundle. Every file is imported in a
fork with limits; whatever an author's code does there is data in the answer, never an error here.
"""

from collections.abc import Sequence
from pathlib import Path

from lamplighter.bundles.following import Answer, Question
from lamplighter.bundles.fork import DEFAULT_LIMITS, Limits
from lamplighter.bundles.importer import ParsedFile
from lamplighter.bundles.worker import ParseRequest, RunsRequest
from lamplighter.bundles.workers import ask_workers

MAX_FILES_PER_CALL = 50
"""How many files a caller should ask for at once, to stay within the time of one Lambda call."""

# The rest is for the process that asks, and for the worker under each fork.
_SHARE_OF_AUTHOR_CODE = 0.8
# Enough for a file of ten thousand DAGs.
_LEAST_BYTES = 400 * 1024**2


def limits_within(memory_bytes: int) -> Limits:
    """Return limits under which all that runs at once fits into `memory_bytes`."""
    share = int(memory_bytes * _SHARE_OF_AUTHOR_CODE)
    at_once = max(1, min(DEFAULT_LIMITS.at_once, share // _LEAST_BYTES))
    return Limits(memory_bytes=share // at_once, at_once=at_once)


def parse_files(
    root: Path, files: Sequence[str], *, limits: Limits = DEFAULT_LIMITS
) -> list[ParsedFile]:
    """Return what each of the bundle's files defines, or what is wrong with it."""
    requests = [
        ParseRequest(
            root=str(root.resolve()),
            file=file,
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes,
            parse_later_again=False,
            upcoming=None,
        )
        for file in files
    ]
    answers = ask_workers(requests, at_once=limits.at_once)
    return [ParsedFile.from_json(answer) for answer in answers]


def coming_runs_of(
    root: Path, questions: Sequence[Question], *, limits: Limits = DEFAULT_LIMITS
) -> list[Answer]:
    """Return the answer to each question, in their order; the time limit is for each of them."""
    # The questions about one file share its import, which may take longer than all of them.
    by_file: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        by_file.setdefault(question["file"], []).append(number)
    requests = [
        RunsRequest(
            root=str(root.resolve()),
            file=file,
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes,
            questions=[questions[number] for number in numbers],
        )
        for file, numbers in by_file.items()
    ]
    answers: dict[int, Answer] = {}
    found = ask_workers(requests, at_once=limits.at_once)
    for numbers, some in zip(by_file.values(), found, strict=True):
        answers.update(zip(numbers, some, strict=True))
    return [answers[number] for number in range(len(questions))]
