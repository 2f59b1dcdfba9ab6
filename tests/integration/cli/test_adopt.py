"""`lamplighter adopt` on Airflow files in many styles, which are never run."""

import ast
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pendulum import DateTime, datetime

from lamplighter import runtime, settings
from lamplighter.bundles.parsing import BundleReport, check_bundle
from lamplighter.dags.upcoming import upcoming_runs
from lamplighter.executors.step_functions import EVERY
from lamplighter.loading import author_code_as_data
from lamplighter.registry.definition import without_refused
from lamplighter.serialization import decode_dag
from lamplighter.zones import iso
from lamplighter_cli.adopt.command import BUNDLE
from lamplighter_cli.adopt.names import ADVICE, KEPT, OPERATORS, STATES, advice_on
from lamplighter_cli.adopt.translation import Translation, translate
from lamplighter_job.context import Context

Command = Callable[..., Any]

# In one process, because the bundle of all files is made and checked once.
pytestmark = pytest.mark.xdist_group("adopt")

HERE = Path(__file__).parent
FILES = HERE / "airflow_files"
GOLDEN = HERE / "airflow_golden"
AT = datetime(2026, 1, 10, 12, 30)
SOURCES = sorted(path.relative_to(FILES).as_posix() for path in FILES.rglob("*.py"))
# With a report, a translation and jobs that a person has looked at.
REVIEWED = ("classic_v2", "taskflow_simple", "schedules_v3", "spark_submit", "services", "bash")
# Reported, but not translated: what they do has no counterpart, or they are no Python 3.
UNTRANSLATED = {
    "broken.py": "not Python 3",
    "python2.py": "Python 2",
    "custom_trigger.py": "MessageQueueTrigger",
    "task_group_decorator.py": "@task_group",
    "taskflow_loop.py": "called in a loop",
    "variables_at_top.py": "Variable",
}
NOT_AIRFLOW = {"helpers/__init__.py", "helpers/text.py", "jobs/count.py"}


def adopted(name: str, airflow: int | None = None) -> Translation:
    """Return what becomes of one of the files."""
    made = translate(FILES / name, name, FILES, airflow=airflow, at=AT)
    assert made is not None
    return made


def messages(made: Translation) -> str:
    """Return everything that is said about a file."""
    return "\n".join(finding.message for finding in made.report.all_findings)


def copied(folder: Path, *names: str) -> Path:
    """Return a folder with some of the files, or with all."""
    target = folder / "airflow"
    if not names:
        shutil.copytree(FILES, target)
    for name in names:
        target.mkdir(exist_ok=True)
        shutil.copy(FILES / name, target / name)
    return target


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundle that all files together become."""
    root = copied(tmp_path_factory.mktemp("adopt"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["lamplighter", "adopt", str(root), "--write", "--at", iso(AT)])
        from lamplighter_cli.app import main  # noqa: PLC0415 - reads the arguments

        with pytest.raises(SystemExit) as end:
            main()
    assert end.value.code == 3
    return root / BUNDLE


@pytest.fixture(scope="module")
def checked(bundle: Path) -> BundleReport:
    """Return what the check says about that bundle, where its state machines may be started."""
    arn = "arn:aws:states:us-east-1:123456789012:stateMachine:"
    given = replace(settings.current(), state_machines=(EVERY,), state_machine_prefix=arn)
    with runtime.using(settings=given):
        return without_refused(check_bundle(bundle))


def test_there_are_forty_airflow_files_in_different_styles() -> None:
    """The files are those of the tests below."""
    assert len(set(SOURCES) - NOT_AIRFLOW) >= 40


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in NOT_AIRFLOW])
def test_file_is_reported_and_translated(name: str) -> None:
    """Every finding has a line of the file, and every translation is Python."""
    made = adopted(name)
    lines = len((FILES / name).read_bytes().splitlines())
    assert all(1 <= finding.line <= lines for finding in made.report.all_findings)
    assert made.report.is_translated == (name not in UNTRANSLATED)
    assert UNTRANSLATED.get(name, "") in messages(made)
    for text in made.files.values():
        ast.parse(text)
    assert "report this file" not in messages(made)


@pytest.mark.parametrize("name", sorted(NOT_AIRFLOW))
def test_file_without_airflow_is_nothing_to_adopt(name: str) -> None:
    """It goes into the bundle only if another file imports it."""
    assert translate(FILES / name, name, FILES, airflow=None, at=AT) is None


def test_translated_files_pass_the_check(checked: BundleReport) -> None:
    """All of them, as one bundle."""
    assert [f"{error.file}:{error.line}: {error.message}" for error in checked.errors] == []
    assert len(checked.dags) > 50


def test_translated_dags_have_the_tasks_of_the_report(checked: BundleReport) -> None:
    """Whoever reads the report has seen all tasks, except of those that loops make."""
    found = {dag.dag_id: len(dag.document["tasks"]) for dag in checked.dags}
    for name in set(SOURCES) - NOT_AIRFLOW - UNTRANSLATED.keys():
        if name.startswith(("factory", "loop", "unusual", "taskflow_override")):
            continue
        for dag in adopted(name).report.dags:
            assert found[dag.dag_id] == len(dag.tasks), name


def test_runs_of_the_translation_are_those_of_the_report(checked: BundleReport) -> None:
    """What is shown as the runs in Airflow is what the translated DAG really has."""
    documents = {dag.dag_id: dag.document for dag in checked.dags}
    compared = 0
    for name in set(SOURCES) - NOT_AIRFLOW - UNTRANSLATED.keys():
        for dag in adopted(name).report.dags:
            if dag.runs is None or dag.dag_id not in documents:
                continue
            with author_code_as_data():
                made = decode_dag(documents[dag.dag_id])
            runs = upcoming_runs(made, 5, at=AT)
            shown = [
                f"{iso(run.run_after)} (logical date"
                f" {'none' if run.logical_date is None else iso(run.logical_date)})"
                for run in runs
            ]
            assert shown == dag.runs.translated == dag.runs.airflow, dag.dag_id
            compared += 1
    assert compared > 30


def golden_of(name: str, lamplighter: Command, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what is printed and written for one file."""
    root = copied(folder, f"{name}.py")
    result = lamplighter("adopt", root, "--write", "--at", iso(AT))
    yield "report.txt", result.out.replace(f"{root}/", "")
    for path in sorted((root / BUNDLE).rglob("*.py")):
        # Not `.py`: other tools read those as their own.
        yield (
            f"{path.relative_to(root / BUNDLE).as_posix().replace('/', '.')}.txt",
            path.read_text(),
        )


@pytest.mark.parametrize("name", REVIEWED)
def test_output_is_as_reviewed(name: str, alone: Command, tmp_path: Path) -> None:
    """LAMPLIGHTER_WRITE_ADOPTED=1 accepts what is different now."""
    found = dict(golden_of(name, alone, tmp_path))
    folder = GOLDEN / name
    if os.environ.get("LAMPLIGHTER_WRITE_ADOPTED"):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for file, text in found.items():
            (folder / file).write_text(text, encoding="utf-8")
    assert {path.name: path.read_text("utf-8") for path in folder.iterdir()} == found


def run_job(bundle: Path, module: str, function: str, context: Context) -> dict[str, Any]:
    """Run a function of the bundle's jobs, and return what it leaves."""
    names: dict[str, Any] = {"__name__": module}
    exec(compile((bundle / "jobs" / f"{module}.py").read_text(), module, "exec"), names)  # noqa: S102 - a file of this test
    names[function](context)
    return context.output


def context(**facts: Any) -> Context:
    """Return the context of a step."""
    day = datetime(2026, 1, 9)
    known: dict[str, Any] = {"dag_id": "d", "run_id": "r", "run_type": "scheduled", "task_id": "t"}
    known |= {"try_number": 1, "submission": 1, "run_after": day.add(days=1), "logical_date": day}
    return Context(**{**known, **facts})


def test_moved_functions_compute_what_they_did(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results, XCom, mapped items and templates reach the next function."""
    left = run_job(bundle, "classic_v2", "run_extract", context())
    assert left == {"return_value": {"rows": 12}}
    read = run_job(bundle, "classic_v2", "run_report", context(inputs={"extract": left}))
    assert read == {"doubled": 24}
    mapped = run_job(
        bundle,
        "taskflow_mapping",
        "run_size",
        context(inputs={"files": {"return_value": ["a.csv", "bb.csv"]}}),
    )
    assert mapped == {"return_value": [5, 6]}
    run_job(bundle, "variables", "run_read", given := context(variables={"root": "s3://lake"}))
    assert given.output == {"return_value": "s3://lake/x"}
    run_job(bundle, "taskflow_override", "run_copy", context(arguments=("orders", "2026-01-09")))
    assert capsys.readouterr().out == "copy orders 2026-01-09\n"


def test_task_that_does_not_move_fails_with_the_reason(bundle: Path) -> None:
    """It keeps its place in the DAG, and does nothing in silence."""
    with pytest.raises(NotImplementedError, match=r"S3KeySensor.*AssetWatcher"):
        run_job(bundle, "sensors", "not_moved_key", context())


def test_nothing_in_a_file_is_run(alone: Command, tmp_path: Path) -> None:
    """A file that would stop the process is only read."""
    (tmp_path / "evil.py").write_text(
        "import airflow\nopen('/proc/self/nothing', 'w')\nraise SystemExit(9)\n"
    )
    result = alone("adopt", tmp_path)
    assert (result.code, result.err) == (0, "")


def test_release_of_airflow_is_read_from_the_imports() -> None:
    """It can be given, and is said to be assumed where nothing tells."""
    assert adopted("assets.py").report.airflow == 3
    assert adopted("classic_v1.py").report.airflow == 2
    made = adopted("latin1.py", airflow=3).report
    assert (made.airflow, made.airflow_reason) == (3, "as --airflow says")
    assert "assumed" in adopted("only_comments.py").report.airflow_reason


def test_plain_cron_of_airflow_3_becomes_its_timetable() -> None:
    """With the zone of the start date, and without catchup, as in Airflow."""
    made = adopted("schedules_v3.py")
    text = made.files["dags/schedules_v3.py"]
    assert 'CronTriggerTimetable(NIGHTLY, timezone="Europe/Zurich")' in text
    dag = made.report.dags[0]
    assert dag.runs is not None
    assert dag.runs.first_difference == (
        "run 1: 2026-01-11T01:30:00+00:00 (logical date 2026-01-11T01:30:00+00:00) there,"
        " 2026-01-11T01:30:00+00:00 (logical date 2026-01-10T01:30:00+00:00) here"
    )
    assert "data intervals" in str(dag.runs.reason)


def test_argument_timetable_of_another_call_tells_no_release() -> None:
    """Only DAGs of Airflow 2 have it; a schedule on assets or time has it in Airflow 3, too."""
    assert adopted("datasets_condition.py").report.airflow_reason == "it imports airflow.datasets"
    assert adopted("custom_timetable.py").report.airflow_reason == "it has the argument timetable"


def test_schedule_that_is_only_known_at_run_time_needs_an_edit() -> None:
    """A cron text from the environment would mean data intervals here."""
    said = messages(adopted("dynamic_dates.py"))
    assert "the schedule is only known when the file runs" in said
    assert "start_date is computed when the file is read" in said


def test_module_that_is_not_there_needs_an_edit_of_the_dag() -> None:
    """The function moves, and its package does not."""
    made = adopted("local_modules.py")
    assert "pandas is not there where Python tasks run" in messages(made)
    assert made.report.dag_level(made.report.dags[0]).name == "EDIT"


def test_comments_stay_and_lost_ones_are_said(tmp_path: Path) -> None:
    """Only those inside of a call that is written anew are lost."""
    path = tmp_path / "a.py"
    path.write_text(
        "from airflow import DAG  # the import\n\n# about x\nwith DAG(\n    'x',  # its id\n"
        "    schedule=None,\n):\n    pass  # no tasks\n"
    )
    made = translate(path, "a.py", tmp_path, airflow=None, at=AT)
    assert made is not None
    assert "# about x\nwith DAG(" in made.files["dags/a.py"]
    assert "pass  # no tasks" in made.files["dags/a.py"]
    assert "the comment '# the import', and 1 more is lost" in messages(made)


def test_airflow_2_without_schedule_runs_daily() -> None:
    """Its default is written out."""
    text = adopted("schedule_defaults_v2.py").files["dags/schedule_defaults_v2.py"]
    assert "schedule=timedelta(days=1)" in text


def test_airflow_is_kept_from_the_translation(alone: Command, tmp_path: Path) -> None:
    """The line for `.airflowignore` is told, where it matters and until it is there."""
    root = tmp_path / "dags"
    root.mkdir()
    shutil.copy(FILES / "taskflow_simple.py", root)
    told = f"add lamplighter_bundle to {root / '.airflowignore'}"

    assert told in alone("adopt", root, "--write").err
    assert "airflowignore" not in alone("adopt", root, "--to", tmp_path / "made").err
    assert f"add own/lamp to {root}" in alone("adopt", root, "--to", root / "own" / "lamp").err
    (root / ".airflowignore").write_text("old\nlamplighter_bundle\n")
    assert "airflowignore" not in alone("adopt", root, "--write", "--force").err


def test_existing_files_are_only_overwritten_by_force(alone: Command, tmp_path: Path) -> None:
    """The second time is refused, and changes nothing."""
    root = copied(tmp_path, "classic_v2.py")
    assert alone("adopt", root, "--write").code == 0
    target = root / BUNDLE / "dags/classic_v2.py"
    text = target.read_text()
    target.write_text("# mine\n")
    refused = alone("adopt", root, "--write")
    assert (refused.code, target.read_text()) == (1, "# mine\n")
    assert "exist" in refused.err
    assert "--force" in refused.err
    alone("adopt", root, "--write", "--force")
    assert target.read_text() == text


def test_json_has_the_yield_and_every_finding(alone: Command, tmp_path: Path) -> None:
    """Programs read the same as people."""
    root = copied(tmp_path, "sensors.py", "classic_v2.py")
    result = alone("adopt", root, "--json", "--at", iso(AT))
    found = json.loads(result.out)
    assert result.code == 3
    assert found["yield"]["dags"] == {"moved": 1, "after_edits": 0, "not_moved": 1}
    assert found["yield"]["tasks"] == {"moved": 3, "after_edits": 0, "not_moved": 5}
    (dag,) = found["files"][0]["dags"]
    assert (dag["dag_id"], len(dag["next_runs"]["airflow"])) == ("classic_v2", 5)


def test_a_file_of_its_own_is_adopted(alone: Command, tmp_path: Path) -> None:
    """Its bundle stands beside it, or where it is asked for."""
    root = copied(tmp_path, "taskflow_simple.py", "sensors.py")
    result = alone("adopt", root / "taskflow_simple.py", "--to", tmp_path / "made")
    assert result.code == 0
    found = sorted(path.name for path in (tmp_path / "made").rglob("*.py"))
    assert found == ["taskflow_simple.py", "taskflow_simple.py"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "does not exist"),
        ([FILES, "--airflow", "1"], "write 2 or 3"),
        ([FILES / "helpers"], "no file that imports airflow"),
    ],
)
def test_mistake_is_one_line(arguments: list[object], said: str, alone: Command) -> None:
    """And exit code 1."""
    result = alone("adopt", *arguments)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert said in result.err


def test_import_of_airflow_in_a_bundle_gives_the_advice(alone: Command, tmp_path: Path) -> None:
    """From the same table, also for a module that a DAG file imports."""
    for name, text in {
        "dags/a.py": "from airflow.sensors.external_task import ExternalTaskSensor\n",
        "dags/b.py": "import helper\n",
        "lib/helper.py": "from airflow import DAG, Dataset\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    result = alone("check", tmp_path)
    assert result.code == 1
    assert advice_on("ExternalTaskSensor") in result.out
    assert "Dataset: write `from lamplighter import Asset`" in result.out
    assert result.out.count("`lamplighter adopt`") == 2


def test_table_names_what_exists() -> None:
    """What a name becomes can be imported, and every service has its state."""
    for module, name in KEPT.values():
        assert hasattr(__import__(module, fromlist=[name]), name)
    services = {name for name, entry in OPERATORS.items() if entry.how == "service"}
    assert STATES.keys() <= services
    assert not ADVICE.keys() & KEPT.keys()


def test_moment_of_the_comparison_can_be_given() -> None:
    """So that a report can be repeated."""

    def runs(at: DateTime) -> list[str]:
        made = translate(FILES / "classic_v2.py", "classic_v2.py", FILES, airflow=None, at=at)
        assert made is not None
        assert made.report.dags[0].runs is not None
        return made.report.dags[0].runs.airflow

    assert runs(AT) == runs(AT)
    assert runs(AT) != runs(AT.add(days=1))
