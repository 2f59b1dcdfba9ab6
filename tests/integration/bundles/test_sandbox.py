"""The sandbox: author code parsed and asked in forks, whatever it does there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter.bundles.fork import OUTPUT_BYTES, Limits
from lamplighter.bundles.importer import ParsedFile
from lamplighter.bundles.parsing import limits_within, parse_files, query_timetables
from lamplighter.dags.upcoming import LastRun, NextRunsQuery, NextRunsResult
from tests.patience import LONG_SECONDS, with_patience

WriteBundle = Callable[[dict[str, str]], Path]

GIB = 1024**3
GOOD = "from lamplighter import DAG\nDAG('good')\n"


def parse(root: Path, *files: str, seconds: float = LONG_SECONDS) -> list[ParsedFile]:
    """Parse with a limit that a healthy file never meets."""
    return parse_files(root, files, limits=Limits(seconds=seconds))


def parse_one(
    write_bundle: WriteBundle, source: str, *, seconds: float = LONG_SECONDS
) -> ParsedFile:
    """Parse a bundle of one file."""
    (parsed,) = parse(write_bundle({"dags/a.py": source}), "dags/a.py", seconds=seconds)
    return parsed


def ids(parsed: ParsedFile) -> list[str]:
    """Return the ids of the DAGs that a file defines."""
    return [dag["dag_id"] for dag in parsed.dags]


def late(parsed: ParsedFile) -> bool:
    """Return whether a file was not imported in time."""
    return any("took longer than" in problem.message for problem in parsed.errors)


# Parsing.


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("while True: pass", "took longer than"),
        ("import sys; sys.exit(3)", "called sys.exit(3)"),
        ("import os; os._exit(3)", "ended before it was done (exit code 3)"),
        ("x = bytearray(2 * 1024**3)", "more memory than a DAG file may use"),
        ("import signal; signal.raise_signal(signal.SIGABRT)", "died of Aborted"),
        ("class Stop(BaseException): pass\nraise Stop", "ended before it was done (exit code 1)"),
        ("import os; os.closerange(3, 100)", "ended before it was done (exit code 1)"),
        ("raise SystemError('no')", "SystemError: no"),
    ],
)
def test_file_that_misbehaves_is_one_error(
    write_bundle: WriteBundle, source: str, words: str
) -> None:
    """Whatever a file does is an error of its own, and the files beside it are parsed."""
    root = write_bundle({"dags/a.py": source, "dags/b.py": GOOD})
    bad, good = with_patience(
        lambda seconds: parse(root, "dags/a.py", "dags/b.py", seconds=seconds),
        lambda parsed: late(parsed[0]) != ("while" in source) or late(parsed[1]),
    )
    assert words in bad.errors[0].message
    assert (bad.file, bad.dags) == ("dags/a.py", [])
    assert (ids(good), good.errors) == (["good"], [])


def test_file_that_prints_an_answer_defines_nothing_more(write_bundle: WriteBundle) -> None:
    """What looks like an answer is output when it is printed."""
    fake = '{"file": "dags/a.py", "dags": [{"dag_id": "fake"}], "warnings": [], "errors": []}'
    parsed = parse_one(write_bundle, f"print('''{fake}''')\n{GOOD}")
    assert (ids(parsed), parsed.output) == (["good"], fake + "\n")


@pytest.mark.parametrize("text", ["null", "[1]", "{}", "nonsense", '{"file": 1, "dags": 2}'])
def test_file_that_writes_into_the_answer_is_an_error(write_bundle: WriteBundle, text: str) -> None:
    """A file that finds the pipe for answers breaks its own answer, and nothing else."""
    source = f"""
import os
for descriptor in range(3, 20):
    try:
        os.write(descriptor, b'{text}\\n')
    except OSError:
        pass
"""
    root = write_bundle({"dags/a.py": source, "dags/b.py": GOOD})
    bad, good = parse(root, "dags/a.py", "dags/b.py")
    assert "ended before it was done" in bad.errors[0].message
    assert ids(good) == ["good"]


def test_file_that_prints_a_gigabyte_is_parsed(write_bundle: WriteBundle) -> None:
    """Endless output neither blocks the file nor is it kept: its beginning is."""
    source = f"text = 'x' * 2**20\nfor _ in range(1024): print(text)\n{GOOD}"
    parsed = parse_one(write_bundle, source)
    assert ids(parsed) == ["good"]
    assert parsed.output == "x" * OUTPUT_BYTES


def test_file_that_prints_for_ever_is_stopped(write_bundle: WriteBundle) -> None:
    """Output does not count as progress."""
    parsed = with_patience(
        lambda seconds: parse_one(write_bundle, "while True: print('tick')", seconds=seconds),
        lambda parsed: not parsed.output,
    )
    assert late(parsed)
    assert parsed.output.startswith("tick\ntick\n")


def test_output_keeps_the_order_of_both_streams(write_bundle: WriteBundle) -> None:
    """Prints and errors are kept as they came, with those of child processes."""
    source = f"""
import os, subprocess, sys
print("one")
print("two", file=sys.stderr)
os.write(1, b"three\\n")
subprocess.run(["echo", "four"])
print("five", end="")
{GOOD}"""
    assert parse_one(write_bundle, source).output == "one\ntwo\nthree\nfour\nfive"


def test_output_that_is_no_text_is_replaced(write_bundle: WriteBundle) -> None:
    """Bytes that are no text, and characters that are none, do no harm."""
    source = f"import os\nos.write(1, b'\\xff\\xfe')\nprint('ü\\ud800')\n{GOOD}"
    parsed = parse_one(write_bundle, source)
    assert (ids(parsed), parsed.output) == (["good"], "\ufffd\ufffdü\\ud800\n")


def test_output_before_a_sudden_end_is_kept(write_bundle: WriteBundle) -> None:
    """What a file printed before it died is what its author needs."""
    parsed = parse_one(write_bundle, "print('so far')\nimport os\nos._exit(9)")
    assert (parsed.output, len(parsed.errors)) == ("so far\n", 1)


@pytest.mark.parametrize(
    "source",
    [
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = None",
        "import os; os.close(1); os.close(2)",
        "print('x'); import os; os.close(1)",
    ],
)
def test_file_that_closes_its_output_is_parsed(write_bundle: WriteBundle, source: str) -> None:
    """A file may do without output."""
    assert ids(parse_one(write_bundle, f"{source}\n{GOOD}")) == ["good"]


def test_child_left_behind_does_not_delay_the_answer(write_bundle: WriteBundle) -> None:
    """A child that holds every pipe open, for longer than a test may take, is not waited for."""
    source = f"import os, time\nif os.fork() == 0:\n    time.sleep(3600)\n{GOOD}"
    assert ids(parse_one(write_bundle, source)) == ["good"]


@pytest.mark.parametrize("files", [1, 40])
def test_bundle_of_very_many_dags_is_parsed(write_bundle: WriteBundle, files: int) -> None:
    """A thousand DAGs are no special case, in one file or in many."""
    each = 1000 // files
    source = """
from datetime import datetime
from lamplighter import DAG, SparkTask
for n in range({first}, {end}):
    with DAG(f"d{{n}}", schedule="@daily", start_date=datetime(2026, 1, 1)):
        SparkTask("a", entry_point="jobs/a.py") >> SparkTask("b", entry_point="jobs/a.py")
"""
    sources = {
        f"dags/f{n}.py": source.format(first=n * each, end=n * each + each) for n in range(files)
    }
    root = write_bundle(sources | {"jobs/a.py": ""})
    parsed = parse_files(root, list(sources), limits=limits_within(2 * GIB))
    assert [file.file for file in parsed] == list(sources)
    assert len({dag_id for file in parsed for dag_id in ids(file)}) == 1000


def test_limits_share_the_memory_there_is() -> None:
    """All that runs at once fits, and each has enough for a large file."""
    for memory in (GIB // 2, GIB, 2 * GIB, 10 * GIB, 1000 * GIB):
        limits = limits_within(memory)
        assert limits.processes * limits.memory_bytes <= memory * 0.8
        assert limits.processes >= 1
        assert limits.memory_bytes >= min(400 * 1024**2, memory * 0.79)


# Asking timetables.

HOURLY = """
import os, sys, time
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, DataInterval, Timetable

class Own(Timetable):
    def __init__(self, deed=""):
        self.deed = deed
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        if self.deed and start.hour == 5:
            names = {"start": start, "last": last}
            exec(self.deed, globals(), names)
            start = names["start"]
        return DagRunInfo.interval(start, start.add(hours=1))

START = pendulum.datetime(2026, 1, 5)
"""

BAD_DEEDS = {
    "raises": ("raise RuntimeError('the moon is new')", "the moon is new"),
    "hangs": ("while True: pass", "the timetable took longer than"),
    "exits": ("sys.exit(3)", "sys.exit(3)"),
    "vanishes": ("os._exit(3)", "the process that asked the timetable ended before it was done"),
    "crashes": ("os.abort()", "the process that asked the timetable died of Aborted"),
    "eats": ("x = bytearray(3 * 1024**3)", "memory"),
    "returns": ("start = start.subtract(hours=3)", "went backwards"),
    "stays": ("start = last.start", "did not advance"),
    "naive": ("start = start.naive()", "without a time zone"),
}


def question(dag_id: str, *, file: str = "dags/a.py", **changes: Any) -> NextRunsQuery:
    """Ask for three runs at eight in the morning of the first day."""
    asked = NextRunsQuery(
        file=file, dag_id=dag_id, last=None, count=3, at="2026-01-05T08:30:00+00:00"
    )
    return asked | changes  # type: ignore[return-value]


def ask(
    root: Path, *questions: NextRunsQuery, seconds: float = LONG_SECONDS
) -> list[NextRunsResult]:
    """Ask with a limit that a healthy timetable never meets."""
    return query_timetables(root, questions, limits=Limits(seconds=seconds))


def is_late(answer: NextRunsResult) -> bool:
    """Return whether a timetable did not answer in time, or its file was not imported in time."""
    return "took longer than" in (answer["error"] or "")


def test_answer_has_the_documented_fields(write_bundle: WriteBundle) -> None:
    """A run is told with everything that is needed to create it, instants in UTC."""
    root = write_bundle({"dags/a.py": HOURLY + "DAG('a', schedule=Own(), start_date=START)"})
    last = LastRun(
        run_after="2026-01-05T03:00:00+00:00",
        data_interval_start="2026-01-05T02:00:00+00:00",
        data_interval_end="2026-01-05T03:00:00Z",
        partition_date=None,
        partition_key=None,
    )
    assert ask(root, question("a", last=last, count=1)) == [
        {
            "dag_id": "a",
            "runs": [
                {
                    "run_id": "scheduled__2026-01-05T03:00:00+00:00",
                    "logical_date": "2026-01-05T03:00:00+00:00",
                    "data_interval_start": "2026-01-05T03:00:00+00:00",
                    "data_interval_end": "2026-01-05T04:00:00+00:00",
                    "run_after": "2026-01-05T04:00:00+00:00",
                    "partition_key": None,
                    "partition_date": None,
                }
            ],
            "is_last": False,
            "owed": 5,
            "error": None,
        }
    ]


def test_answer_of_partitions_has_key_and_date(write_bundle: WriteBundle) -> None:
    """The last partition goes in as it came out, and the walk continues after it."""
    source = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Days(Timetable):
    partitioned = True
    def next_dagrun_info_v2(self, *, last_dagrun_info, restriction):
        last = last_dagrun_info
        day = last.partition_date.add(days=1) if last else restriction.earliest
        assert last is None or last.partition_key == last.partition_date.to_date_string()
        return DagRunInfo(day.add(hours=30), None, day, day.to_date_string())
DAG("a", schedule=Days(), start_date=pendulum.datetime(2026, 1, 5, tz="Europe/Zurich"))
"""
    root = write_bundle({"dags/a.py": source})
    (first,) = ask(root, question("a", count=2))
    run: Any = first["runs"][1]
    assert (run["partition_date"], run["partition_key"], run["logical_date"]) == (
        "2026-01-05T23:00:00+00:00",
        "2026-01-05",
        None,
    )
    (second,) = ask(root, question("a", count=1, last=run))
    assert second["runs"][0]["run_after"] == "2026-01-08T05:00:00+00:00"


def test_answers_come_in_the_order_of_questions(write_bundle: WriteBundle) -> None:
    """Questions about several files may come in any order."""
    source = HOURLY + "for n in 'xyz': DAG(f'{NAME}{n}', schedule=Own(), start_date=START)\n"
    root = write_bundle({f"dags/{n}.py": source.replace("{NAME}", n) for n in "ab"})
    asked = ["bx", "ax", "by", "az", "ay", "bx"]
    answers = ask(root, *(question(name, file=f"dags/{name[0]}.py") for name in asked))
    assert [answer["dag_id"] for answer in answers] == asked
    assert all(len(answer["runs"]) == 3 for answer in answers)
    assert ask(root) == []


def test_timetable_that_misbehaves_spoils_its_own_dag_only(write_bundle: WriteBundle) -> None:
    """Each bad timetable of a file is an error of its DAG, and those between them are answered."""
    source = HOURLY
    for name, (deed, _) in BAD_DEEDS.items():
        source += f"DAG({name!r}, schedule=Own({deed!r}), start_date=START)\n"
        source += f"DAG('after_{name}', schedule=Own(), start_date=START)\n"
    names = [name for bad in BAD_DEEDS for name in (bad, f"after_{bad}")]
    root = write_bundle({"dags/a.py": source})
    answers = with_patience(
        lambda seconds: ask(root, *map(question, names), seconds=seconds),
        lambda answers: [each["dag_id"] for each in answers if is_late(each)] != ["hangs"],
    )
    errors = {answer["dag_id"]: answer["error"] for answer in answers}
    for name, (_, words) in BAD_DEEDS.items():
        assert words in str(errors[name])
        assert errors[f"after_{name}"] is None
    assert [answer["owed"] for answer in answers] == [0, 8] * len(BAD_DEEDS)


def test_run_id_that_is_no_text_is_an_error(write_bundle: WriteBundle) -> None:
    """An author may name runs, with text."""
    source = HOURLY + "Own.generate_run_id = lambda self, **_: 7\n"
    root = write_bundle({"dags/a.py": source + "DAG('a', schedule=Own(), start_date=START)"})
    (answer,) = ask(root, question("a"))
    assert (answer["error"], answer["runs"]) == ("DAG 'a': schedule: run_id=7 must be a string", [])


def test_question_about_missing_dag_is_an_error(write_bundle: WriteBundle) -> None:
    """A DAG that has left its file meanwhile is said to be missing."""
    (answer,) = ask(write_bundle({"dags/a.py": GOOD}), question("other"))
    assert answer["error"] == "there is no DAG 'other' in dags/a.py"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import os; os._exit(3)", "the process that imported the file ended before it was done"),
        ("while True: pass", "the file took longer than"),
    ],
)
def test_question_about_broken_file_is_an_error(
    write_bundle: WriteBundle, source: str, words: str
) -> None:
    """A file that cannot be imported is the error of all its DAGs, and of no other file's."""
    root = write_bundle({"dags/a.py": source, "dags/b.py": GOOD})
    questions = [question("a"), question("b"), question("good", file="dags/b.py")]
    first, second, good = with_patience(
        lambda seconds: ask(root, *questions, seconds=seconds),
        lambda answers: is_late(answers[0]) != ("while" in source) or is_late(answers[2]),
    )
    assert words in str(first["error"])
    assert second["error"] == first["error"]
    assert (good["error"], good["is_last"]) == (None, True)


def test_question_is_not_spoilt_by_another_dags_schedule(write_bundle: WriteBundle) -> None:
    """A DAG whose timetable fails from the start does not keep its file from being asked."""
    source = HOURLY + "DAG('bad', schedule=Own('1 / 0'), start_date=START.set(hour=5))\n"
    root = write_bundle({"dags/a.py": source + "DAG('a', schedule=Own(), start_date=START)"})
    bad, good = ask(root, question("bad"), question("a"))
    assert "division by zero" in str(bad["error"])
    assert (good["error"], good["owed"]) == (None, 8)
