"""Puts random questions to Lamplighter and to Apache Airflow, and compares the answers.

Exits with 1 if any difference is not explained by a name in `differences.py`; shared streams, which
are played by both at the end, may not differ at all.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypedDict

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE / "examples.json"
sys.path.insert(0, str(HERE.parents[1]))

from tests.parity.answer import Library, Question, library  # noqa: E402 - the path comes first
from tests.parity.differences import DIFFERENCES, Case, agree, explain, is_refusal  # noqa: E402
from tests.parity.questions import questions  # noqa: E402
from tests.parity.shared_stream import compare as compare_streams  # noqa: E402

_QUESTIONS_PER_SHARE = 500
_SHOWN = 20
_WIDTH = 100


class Example(TypedDict):
    """A question with the answers of both."""

    question: Question
    ours: Any
    theirs: Any


def _plainness(example: Example) -> tuple[int, str]:
    text = json.dumps(example["question"])
    return len(text), text


@dataclass
class Tally:
    """What came of some questions."""

    asked: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    plainest: dict[str, Example] = field(default_factory=dict)
    unexplained: list[Example] = field(default_factory=list)

    def explained(self, name: str, example: Example) -> None:
        """Count a difference, and keep the plainest example of it."""
        self.named[name] += 1
        known = self.plainest.setdefault(name, example)
        self.plainest[name] = min(known, example, key=_plainness)

    def add(self, other: "Tally") -> None:
        """Count the other's questions too."""
        self.asked += other.asked
        self.equal += other.equal
        self.refused += other.refused
        self.named += other.named
        self.unexplained += other.unexplained
        for name, example in other.plainest.items():
            self.plainest[name] = min(self.plainest.get(name, example), example, key=_plainness)


class Airflow:
    """An Airflow that answers in a process of its own."""

    def __init__(self, python: str, home: str) -> None:
        # Nothing of ours may be importable there, and nothing of it is to be written here.
        environment = {
            k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AIRFLOW"))
        }
        self._process = subprocess.Popen(
            [python, str(HERE / "answer.py"), "airflow"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**environment, "AIRFLOW_HOME": home},
        )

    def answers(self, asked: Sequence[Question]) -> Iterator[Any]:
        """Yield the answer to each question."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Written from another thread: two full pipes would wait for each other.
        threading.Thread(target=_write, args=(self._process.stdin, asked), daemon=True).start()
        for _ in asked:
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("Airflow has stopped answering; see its message above")
            yield json.loads(line)


def _write(pipe: IO[str], asked: Sequence[Question]) -> None:
    for question in asked:
        pipe.write(json.dumps(question) + "\n")
    pipe.flush()


class _Worker:
    """Both libraries, open for as long as the worker process lives."""

    airflow: Airflow
    lamplighter: Library
    # Kept, because the clock would start again as soon as it were forgotten.
    stopped = ExitStack()


def _open_worker(python: str, home: str) -> None:
    _Worker.airflow = Airflow(python, home)
    _Worker.lamplighter = _Worker.stopped.enter_context(library("lamplighter"))


def _compare(count: int, seed: str) -> Tally:
    """Ask both libraries the questions of one share, and tell what came of it."""
    tally = Tally()
    lamplighter = _Worker.lamplighter
    asked = list(questions(count, seed, lamplighter))
    theirs_in_order = _Worker.airflow.answers(asked)
    for question, theirs in zip(asked, theirs_in_order, strict=True):
        ours = lamplighter.answer(question)
        name = question["timetable"]["type"]
        tally.asked[name] += 1
        if agree(ours, theirs):
            tally.equal[name] += 1
            tally.refused[name] += is_refusal(theirs)
            continue
        example: Example = {"question": question, "ours": ours, "theirs": theirs}
        if reason := explain(Case(question, ours, theirs, lamplighter)):
            tally.explained(reason, example)
        else:
            tally.unexplained.append(example)
    return tally


def compare_all(count: int, seed: int, python: str) -> Iterator[Tally]:
    """Yield the tally of each share as it is done; all cores take part."""
    shares = [
        (min(_QUESTIONS_PER_SHARE, count - first), f"{seed}/{first}")
        for first in range(0, count, _QUESTIONS_PER_SHARE)
    ]
    with (
        tempfile.TemporaryDirectory() as home,
        ProcessPoolExecutor(
            os.cpu_count(), initializer=_open_worker, initargs=(python, home)
        ) as pool,
    ):
        for done in as_completed([pool.submit(_compare, *share) for share in shares]):
            yield done.result()


def _show(tally: Tally, console: Console) -> None:
    headings = ("timetable", "questions", "equal answers", "of them refusals")
    answers = Table(*headings, title="Parity with Apache Airflow")
    for name, asked in sorted(tally.asked.items()):
        answers.add_row(name, f"{asked:,}", f"{tally.equal[name]:,}", f"{tally.refused[name]:,}")
    answers.add_section()
    totals = (tally.asked.total(), tally.equal.total(), tally.refused.total())
    answers.add_row("all", *(f"{total:,}" for total in totals))
    reasons = Table("deliberate difference", "questions", title="Why the others differ")
    for known in DIFFERENCES:
        reasons.add_row(known.name, f"{tally.named[known.name]:,}")
    reasons.add_section()
    reasons.add_row("unexplained", f"{len(tally.unexplained):,}")
    for table in (answers, reasons):
        for column in table.columns[1:]:
            column.justify = "right"
        console.print(table)
    for example in tally.unexplained[:_SHOWN]:
        print(f"\nunexplained: {json.dumps(example['question'])}")
        print(f"  ours:   {json.dumps(example['ours'])}")
        print(f"  theirs: {json.dumps(example['theirs'])}")


def _record(tally: Tally) -> None:
    """Keep the plainest example of each difference; one that was not met keeps its old one."""
    recorded = json.loads(EXAMPLES.read_text(encoding="utf-8")) if EXAMPLES.exists() else {}
    recorded |= tally.plainest
    examples = {known.name: recorded[known.name] for known in DIFFERENCES}
    EXAMPLES.write_text(json.dumps(examples, indent=2) + "\n", encoding="utf-8")


def main() -> int:
    """Run the comparison and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--airflow-python", required=True, help="interpreter that has Airflow")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--record", action="store_true", help=f"store an example of each in {EXAMPLES.name}"
    )
    options = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    columns = ("asking", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    total = Tally()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=options.count)
        for tally in compare_all(options.count, options.seed, options.airflow_python):
            total.add(tally)
            progress.advance(bar, tally.asked.total())
    _show(total, console)
    if options.record:
        _record(total)
    differing = compare_streams(options.airflow_python)
    return 1 if total.unexplained or differing else 0


if __name__ == "__main__":
    sys.exit(main())
