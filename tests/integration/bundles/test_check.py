"""Checking a bundle: every file in a process of its own, every problem as data."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pendulum import datetime

from lamplighter import runtime
from lamplighter.bundles.fork import Limits
from lamplighter.bundles.parsing import BundleReport, check_bundle, find_upcoming_runs
from lamplighter.clock import FixedClock
from lamplighter.errors import DefinitionError
from lamplighter.loading import author_code_allowed
from lamplighter.serialization import decode_dag
from tests.patience import LONG_SECONDS, with_patience

WriteBundle = Callable[[dict[str, str]], Path]

GOOD = """
from lamplighter import DAG
DAG("good")
"""


def check(root: Path, *, seconds: float = LONG_SECONDS) -> BundleReport:
    """Check with a limit that a healthy file never meets."""
    return check_bundle(root, limits=Limits(seconds=seconds))


def test_dag_that_no_name_holds_is_found(write_bundle: WriteBundle) -> None:
    """A DAG counts by being defined; it need not be a global name of the file."""
    root = write_bundle({"dags/a.py": "from lamplighter import DAG\nwith DAG('a'):\n    pass\n"})
    report = check(root)
    assert [(dag.dag_id, dag.file, dag.line) for dag in report.dags] == [("a", "dags/a.py", 2)]
    assert report.warnings == report.errors == ()


def test_edit_of_the_same_size_in_the_same_second_is_seen(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file says now counts, and not what Python compiled before."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for hour in ("1", "2"):
        files = {
            "dags/a.py": (
                "from lamplighter import DAG\nfrom timetables.hours import HOUR\n"
                f"DAG('a', schedule=f'{hour} {{HOUR}} * * *', catchup=False)\n"
            ),
            "timetables/hours.py": f"HOUR = {hour}\n",
        }
        root = write_bundle(files)
        for name in files:
            os.utime(root / name, (1_800_000_000, 1_800_000_000))
        (dag,) = check(root).dags
        assert dag.schedule == f"{hour} {hour} * * *"


def test_file_under_another_clock_imports_what_the_clock_does_without(
    write_bundle: WriteBundle,
) -> None:
    """What moves the clock leaves pytest out, which takes long; a file may import it yet."""
    text = "import sys\nassert 'pytest' not in sys.modules\nimport pytest\n"
    root = write_bundle({"dags/a.py": text + GOOD})
    with runtime.using(clock=FixedClock(datetime(2026, 1, 5))):
        report = check(root)
    assert report.errors == ()
    assert [dag.dag_id for dag in report.dags] == ["good"]


def test_error_names_file_line_and_author_frames(write_bundle: WriteBundle) -> None:
    """An import error shows the author's own lines and none of the library's or Python's."""
    root = write_bundle(
        {
            "dags/a.py": "import pendulum\nfrom timetables.broken import halve\n\nhalve(1)\n",
            "timetables/broken.py": "def halve(n):\n    return n / 0\n",
        }
    )
    (error,) = check(root).errors
    assert (error.file, error.line) == ("dags/a.py", 4)
    assert error.message == "ZeroDivisionError: division by zero (in timetables/broken.py, line 2)"
    assert error.frames == ("dags/a.py:4 in <module>", "timetables/broken.py:2 in halve")


def test_frames_are_the_authors_inside_the_bundle_too(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own frames, which have no file, are left out inside the bundle's folder too."""
    root = write_bundle({"dags/a.py": "1 / 0\n"})
    monkeypatch.chdir(root)
    (error,) = check(Path()).errors
    assert error.frames == ("dags/a.py:1 in <module>",)


def test_definition_error_points_at_the_defining_line(write_bundle: WriteBundle) -> None:
    """A wrong argument is reported in one sentence at the author's line."""
    root = write_bundle(
        {"dags/a.py": "from lamplighter import DAG\n\nDAG('a', schedule='61 * * * *')"}
    )
    (error,) = check(root).errors
    assert (error.file, error.line) == ("dags/a.py", 3)
    assert error.message.startswith("DAG 'a': schedule: cron '61 * * * *' is not valid")


def test_syntax_error_points_at_its_line(write_bundle: WriteBundle) -> None:
    """A file that Python cannot read is reported at the line where reading stopped."""
    (error,) = check(write_bundle({"dags/a.py": "x = 1\ndef broken(:\n    pass\n"})).errors
    assert (error.file, error.line) == ("dags/a.py", 2)
    assert error.message == "SyntaxError: invalid syntax"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import sys; sys.exit(0)", "called sys.exit(0)"),
        ("import os; os._exit(3)", "ended before it was done (exit code 3)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "died of Segmentation fault"),
        ("x = bytearray(3 * 1024**3)", "more memory than a DAG file may use"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_file_that_ends_badly_spares_the_others(
    write_bundle: WriteBundle, source: str, words: str
) -> None:
    """A file that exits, crashes or eats memory is one error, and the other files still count."""
    report = check(write_bundle({"dags/a.py": source, "dags/b.py": GOOD}))
    assert [dag.dag_id for dag in report.dags] == ["good"]
    assert words in report.errors[0].message


def test_file_that_hangs_is_stopped_at_the_limit(write_bundle: WriteBundle) -> None:
    """An endless loop costs its time limit and no more, even with a child process left behind."""
    source = "import subprocess, sys\nsubprocess.Popen(['sleep', '3600'])\nwhile True: pass\n"
    root = write_bundle({"dags/a.py": source, "dags/b.py": GOOD})
    report = with_patience(
        lambda seconds: check(root, seconds=seconds), lambda report: not report.dags
    )
    (error,) = report.errors
    assert re.fullmatch(r"the file took longer than \d+ s to import; it was stopped", error.message)
    assert [dag.dag_id for dag in report.dags] == ["good"]


def test_output_of_a_file_is_never_taken_for_data(write_bundle: WriteBundle) -> None:
    """A file that prints what an answer looks like defines only what it really defines."""
    fake = '{"file": "dags/a.py", "dags": [], "warnings": [], "errors": []}'
    source = f"import os\nprint('''{fake}''' * 5000)\nos.write(1, b'{{}}\\n')\n{GOOD}"
    report = check(write_bundle({"dags/a.py": source}))
    assert [dag.dag_id for dag in report.dags] == ["good"]
    assert not report.errors


def test_duplicate_id_warns_and_first_path_wins(write_bundle: WriteBundle) -> None:
    """Of two DAGs with one id the first by path is used, and the second is named in a warning."""
    report = check(write_bundle({"dags/b.py": GOOD, "dags/a.py": GOOD}))
    assert [dag.file for dag in report.dags] == ["dags/a.py"]
    (warning,) = report.warnings
    assert warning.file == "dags/b.py"
    assert "'good' is already defined in dags/a.py" in warning.message


def test_dag_imported_from_another_file_counts_once(write_bundle: WriteBundle) -> None:
    """A DAG belongs to the file that defines it, not to files that import it."""
    root = write_bundle({"dags/a.py": GOOD, "dags/b.py": "import a\n"})
    report = check(root)
    assert [(dag.dag_id, dag.file) for dag in report.dags] == [("good", "dags/a.py")]
    assert report.warnings == ()


def test_dag_made_by_a_factory_belongs_to_the_caller(write_bundle: WriteBundle) -> None:
    """A factory in a library makes DAGs for the file that calls it, at the line that calls it."""
    factory = "from lamplighter import DAG\ndef make(name):\n    return DAG(name)\n"
    root = write_bundle(
        {"lib/factory.py": factory, "dags/a.py": "from factory import make\n\nmake('made')\n"}
    )
    assert [(d.dag_id, d.file, d.line) for d in check(root).dags] == [("made", "dags/a.py", 3)]


def test_timetable_in_a_dag_file_is_found_again(
    write_bundle: WriteBundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timetable defined beside its DAG is written down by a path that the bundle can import."""
    source = """
from lamplighter import DAG
from lamplighter.timetables.simple import OnceTimetable
class MyTimetable(OnceTimetable):
    pass
DAG("a", schedule=MyTimetable())
"""
    root = write_bundle({"dags/own_timetable.py": source})
    (dag,) = check(root).dags
    assert dag.document["timetable"]["type"] == "dags.own_timetable.MyTimetable"
    monkeypatch.syspath_prepend(str(root))
    with author_code_allowed():
        assert decode_dag(dag.document).timetable.summary == "@once"


@pytest.mark.parametrize(
    "moment",
    [
        "datetime.datetime.now()",
        "datetime.datetime.combine(datetime.date.today(), datetime.time())",
        "pendulum.today('UTC')",
        "pendulum.now('UTC').start_of('hour')",
        "datetime.datetime.fromtimestamp(time.time())",
        "datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=random.random())",
    ],
)
def test_definition_that_depends_on_the_moment_warns(
    write_bundle: WriteBundle, moment: str
) -> None:
    """A start date computed from the present is found, even one that changes only once a day."""
    source = f"""
import datetime, random, time
import pendulum
from lamplighter import DAG
DAG("moving", schedule="@daily", start_date={moment})
"""
    (warning,) = check(write_bundle({"dags/a.py": source})).warnings
    assert "DAG 'moving' is different when it is parsed at another moment" in warning.message


def test_definition_that_only_looks_at_dates_is_stable(write_bundle: WriteBundle) -> None:
    """Dates that are written out, whatever library writes them, cause no warning."""
    source = """
from datetime import date, datetime, timezone
import pendulum
from lamplighter import DAG
assert isinstance(pendulum.datetime(2026, 1, 1), datetime)
assert isinstance(datetime(2026, 1, 1), date)
DAG("still", schedule="@daily", start_date=datetime(2026, 1, 1, tzinfo=timezone.utc))
"""
    report = check(write_bundle({"dags/a.py": source}))
    assert report.warnings == report.errors == ()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("entry_point='jobs/none.py'", "entry_point: there is no file 'jobs/none.py'"),
        ("job='jobs.none:run'", "job: there is no module 'jobs.none'"),
        ("job='jobs.real:walk'", "job: jobs/real.py does not define 'walk'"),
    ],
)
def test_program_missing_from_the_bundle_is_an_error(
    write_bundle: WriteBundle, task: str, words: str
) -> None:
    """A task whose program is not there is found before anything is deployed."""
    source = f"from lamplighter import DAG, SparkTask\nwith DAG('a'):\n    SparkTask('t', {task})\n"
    root = write_bundle({"dags/a.py": source, "jobs/real.py": "def run(spark, context): ...\n"})
    (error,) = check(root).errors
    assert error.message == f"DAG 'a': task 't': {words}" + (
        " in the bundle" if "no " in words else ""
    )


def test_dag_function_that_nobody_calls_warns(write_bundle: WriteBundle) -> None:
    """A decorated function that is never called defines nothing, and says so."""
    source = "from lamplighter import dag\n@dag()\ndef forgotten():\n    pass\n"
    (warning,) = check(write_bundle({"dags/a.py": source})).warnings
    assert "'forgotten' is never called" in warning.message


def test_warning_of_the_library_reaches_the_report(write_bundle: WriteBundle) -> None:
    """A moved plugin class imports, and the report says that it has no effect."""
    source = (
        "from lamplighter.plugins_manager import AirflowPlugin\n"
        "class MyPlugin(AirflowPlugin):\n    name = 'mine'\n"
    )
    (warning,) = check(write_bundle({"dags/a.py": source})).warnings
    assert (warning.line, "'MyPlugin' has no effect" in warning.message) == (2, True)


def test_folder_without_dags_is_not_a_bundle(tmp_path: Path) -> None:
    """A path that is not a bundle is refused with what a bundle is."""
    with pytest.raises(DefinitionError, match="is not a bundle"):
        check(tmp_path)


def test_file_of_a_thousand_dags_is_checked(write_bundle: WriteBundle) -> None:
    """A generated file with very many DAGs is no special case."""
    source = "from lamplighter import DAG\nfor n in range(1000):\n    DAG(f'd{n}', catchup=False)\n"
    assert len(check(write_bundle({"dags/many.py": source})).dags) == 1000


def test_coming_runs_of_a_lying_timetable_are_an_error(write_bundle: WriteBundle) -> None:
    """A custom timetable that goes backwards is refused by name when it is asked."""
    source = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Lying(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        return DagRunInfo.exact(last.end.subtract(days=1) if last else restriction.earliest)
DAG("liar", schedule=Lying(), start_date=pendulum.datetime(2026, 1, 1))
"""
    root = write_bundle({"dags/a.py": source})
    question = {"dag_id": "liar", "count": 3, "at": "2025-12-01T00:00:00+00:00"}
    with pytest.raises(DefinitionError, match="went backwards"):
        find_upcoming_runs(root, question)  # type: ignore[arg-type]


CUSTOM = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
class Own(Timetable):
    def __init__(self, hour=3):
        self.hour = hour
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        {answer}
DAG("own", schedule=Own(7), start_date=pendulum.datetime(2026, 1, 1))
"""


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("import datetime; return DagRunInfo.exact(datetime.datetime(2026, 1, 1))", "time zone"),
        ("return DagRunInfo.exact(restriction.earliest.set(hour=self.hour))", "read back"),
        ("raise RuntimeError('the moon is new')", "the moon is new"),
    ],
    ids=["naive", "forgets", "raises"],
)
def test_schedule_that_cannot_be_used_is_an_error(
    write_bundle: WriteBundle, answer: str, words: str
) -> None:
    """A custom timetable that lies, forgets its arguments or raises is found by the check."""
    (error,) = check(write_bundle({"dags/my-dag.py": CUSTOM.format(answer=answer)})).errors
    assert words in error.message


def test_timetable_in_an_oddly_named_file_is_fine(write_bundle: WriteBundle) -> None:
    """A file whose name is no Python name may define a timetable all the same."""
    source = CUSTOM.format(answer="return None")
    report = check(write_bundle({"dags/my-dag.py": source}))
    assert [dag.dag_id for dag in report.dags] == ["own"]


def test_hash_of_tasks_from_a_set_is_stable(write_bundle: WriteBundle) -> None:
    """Tasks made in no particular order give one definition, in every process."""
    source = """
from lamplighter import DAG, SparkTask
with DAG("a"):
    for name in {"one", "two", "three", "four", "five"}:
        SparkTask(name, entry_point="jobs/a.py")
"""
    root = write_bundle({"dags/a.py": source, "jobs/a.py": ""})
    assert len({check(root).dags[0].hash for _ in range(3)}) == 1


def test_import_of_airflow_tells_the_new_root(write_bundle: WriteBundle) -> None:
    """A file that was only copied over is told what to change."""
    (error,) = check(write_bundle({"dags/a.py": "from airflow.sdk import DAG\n"})).errors
    assert "change the import root from 'airflow' to 'lamplighter'" in error.message


WITH_JOB = """
from lamplighter import DAG, SparkTask
with DAG("a"):
    SparkTask("t", job="jobs.a:run")
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def f():\n    run = 1\n", "does not define 'run'"),
        ("x = (\n", "jobs/a.py, line 1: '(' was never closed"),
    ],
)
def test_function_of_a_job_must_be_at_the_top(
    write_bundle: WriteBundle, source: str, words: str
) -> None:
    """A name inside a function is no job, and a job that Python cannot read is said to be so."""
    (error,) = check(write_bundle({"dags/a.py": WITH_JOB, "jobs/a.py": source})).errors
    assert words in error.message


def test_function_of_a_job_may_be_conditional(write_bundle: WriteBundle) -> None:
    """A function defined in a branch of the module counts."""
    job = "try:\n    import x\nexcept ImportError:\n    def run(spark, context): ...\n"
    assert not check(write_bundle({"dags/a.py": WITH_JOB, "jobs/a.py": job})).errors


def test_error_of_the_asked_dag_is_shown(write_bundle: WriteBundle) -> None:
    """Whoever asks for a DAG whose file fails reads why."""
    root = write_bundle(
        {"dags/a.py": "from lamplighter import DAG\nDAG('a', schedule='61 * * * *')\n"}
    )
    with pytest.raises(DefinitionError, match=r"no DAG 'a'.*dags/a.py: DAG 'a': schedule: cron"):
        find_upcoming_runs(root, {"dag_id": "a", "count": 1, "at": "2026-01-01T00:00:00+00:00"})
