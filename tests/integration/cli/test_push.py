"""`lamplighter push` as a user types it, against a deployment in this process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer

from lamplighter import aws, runtime
from lamplighter.store.models import Catalog, Dags
from lamplighter_cli import console
from lamplighter_local.stack import LocalStack

WriteBundle = Callable[[dict[str, str]], Path]

HEAD = """
import pendulum
from lamplighter import DAG
from lamplighter.timetables.base import DagRunInfo, Timetable
from lamplighter.timetables.trigger import CronTriggerTimetable
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
HOURLY = HEAD + "DAG('hourly', schedule='0 * * * *', start_date=NINE)\n"
MANY = HOURLY.replace("NINE)", "NINE.subtract(days=10))")


Command = Callable[..., Any]


def uploads(stack: LocalStack) -> list[str]:
    """Return the keys of all archives and announcements."""
    found = aws.client("s3").list_objects_v2(Bucket=stack.settings.bucket)
    return [item["Key"] for item in found.get("Contents", ())]


def test_push_numbers_and_announces_a_bundle(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A push says what it owes and what it did, on stdout alone, and is registered."""
    root = write_bundle({"dags/a.py": HOURLY})
    result = lamplighter("push", root, "--bundle", "mine")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0] == "hourly has 3 runs that are already due"
    assert "pushed 'mine': push 1, 1 DAGs, version " in result.out
    stack.run_until_idle()
    assert stack.dag("hourly").bundle == "mine"
    assert len(stack.runs("hourly")) == 3


LARGE = (
    HOURLY
    + """
from lamplighter import SparkTask
with DAG('large', schedule=None):
    SparkTask('load', job='jobs:load', executor_cores={cores}, executor_memory='27g')
"""
)


def test_push_of_a_task_larger_than_the_deployment_is_refused(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A task that can never have its capacity is refused in one line that says what to do."""
    root = write_bundle(
        {"dags/a.py": LARGE.format(cores=4), "jobs/__init__.py": "def load(spark, context): ..."}
    )
    with runtime.using(settings=replace(stack.settings, spark_vcpus=4)):
        result = lamplighter("push", root, "--bundle", "mine")
    assert result.code == 1
    assert (
        "DAG 'large': task 'load': it needs 6 vCPU for its driver and one executor, and the"
        " deployment has 4: make it smaller, or raise spark_vcpus" in result.err
    )
    assert list(Catalog.scan()) == []


def test_forced_push_of_a_task_without_a_worker_breaks_its_dag_alone(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """The registration refuses the DAG with the nearest size; its neighbour is registered."""
    root = write_bundle(
        {"dags/a.py": LARGE.format(cores=3), "jobs/__init__.py": "def load(spark, context): ..."}
    )
    checked = lamplighter("check", root)
    line = "task 'load': executor_cores=3: a worker has 1, 2, 4, 8, 16, 32 vCPU: use 4"
    assert checked.code == 1
    assert f"DAG 'large': {line}" in checked.out
    assert lamplighter("push", root, "--bundle", "mine", "--force").code == 0
    stack.run_until_idle()
    (problem,) = json.loads(lamplighter("dags", "errors", "--json").out)
    assert line in problem["message"]
    assert [row.dag_id for row in Dags.scan()] == ["hourly"]


def test_push_takes_the_folder_name(
    lamplighter: Command, write_bundle: WriteBundle, tmp_path: Path
) -> None:
    """Without a name the bundle is called like its folder."""
    root = write_bundle({"dags/a.py": HOURLY}).rename(tmp_path.parent / "orders-team")
    assert lamplighter("push", root).code == 0
    root.rename(tmp_path)
    assert [row.id for row in Catalog.query("bundle")] == ["orders-team"]


def test_second_push_uploads_no_archive(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """The same content is numbered again and not uploaded again."""
    root = write_bundle({"dags/a.py": HOURLY + "# once\n"})
    before = set(uploads(stack))
    for _ in range(2):
        assert lamplighter("push", root, "--bundle", "twice").code == 0
    new = sorted(set(uploads(stack)) - before)
    # The archive and its manifest, both named by the content.
    assert [key.partition("/")[0] for key in new] == ["bundles", "bundles", "pushes", "pushes"]
    assert [key.rpartition(".")[2] for key in new] == ["json", "zip", "json", "json"]
    assert Catalog.get("bundle", "twice").pushed == 2


def test_push_of_errors_exits_one(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A bundle with an error is shown on stderr and not pushed."""
    root = write_bundle({"dags/a.py": HOURLY, "dags/b.py": "1 / 0\n"})
    result = lamplighter("push", root, "--bundle", "mine")
    assert (result.code, result.out) == (1, "")
    assert "dags/b.py:1: ZeroDivisionError: division by zero" in result.err
    assert "--force pushes it anyway" in result.err
    assert list(Catalog.scan()) == []


def test_forced_push_of_errors_is_made(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """With --force the files that work are registered."""
    root = write_bundle({"dags/a.py": HOURLY, "dags/b.py": "1 / 0\n"})
    result = lamplighter("push", root, "--bundle", "mine", "--force", "--json")
    assert result.code == 0
    assert json.loads(result.out)["errors"] == ["ZeroDivisionError: division by zero"]
    stack.run_until_idle()
    assert [row.dag_id for row in Dags.scan()] == ["hourly"]


def test_many_owed_runs_need_a_yes(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """More than 100 owed runs are not pushed unasked: exit code 3, and nothing is there."""
    root = write_bundle({"dags/a.py": MANY})
    result = lamplighter("push", root, "--bundle", "mine")
    assert result.code == 3
    assert result.err == (
        "error: 243 runs are already due: pass --yes to create them, or --skip-owed to skip them\n"
    )
    assert "hourly has 243 runs" in result.out
    assert list(Catalog.scan()) == []


@pytest.mark.parametrize("option", ["--yes", "-y"])
def test_many_owed_runs_with_a_yes(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle, option: str
) -> None:
    """Whoever says yes beforehand is not asked."""
    root = write_bundle({"dags/a.py": MANY})
    assert lamplighter("push", root, "--bundle", "mine", option).code == 0
    assert Catalog.get("bundle", "mine").pushed == 1


@pytest.mark.parametrize(("reply", "code"), [(True, 0), (False, 3)])
def test_person_is_asked_about_owed_runs(
    lamplighter: Command, write_bundle: WriteBundle, reply: bool, code: int
) -> None:
    """Where someone can answer, the answer decides."""
    root = write_bundle({"dags/a.py": MANY})
    with (
        patch.object(console, "is_interactive", lambda: True),
        patch.object(typer, "confirm", lambda question, err: reply and err and "243" in question),
    ):
        assert lamplighter("push", root, "--bundle", "mine").code == code


def test_json_has_the_documented_fields(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """For programs there is one JSON value on stdout, and nothing else."""
    root = write_bundle({"dags/a.py": HOURLY})
    result = lamplighter("push", root, "--bundle", "mine", "--json")
    report = json.loads(result.out)
    assert report.pop("version") in "".join(uploads(stack))
    assert report == {
        "bundle": "mine",
        "push": 1,
        "dags": ["hourly"],
        "owed": {"hourly": 3},
        "skipped": {},
        "changes": [
            {
                "dag_id": "hourly",
                "schedule_before": None,
                "schedule_after": "0 * * * *",
                "next_run_now": None,
                "next_run_then": "2026-01-05T10:00:00+00:00",
                "owed": 3,
                "skipped": 0,
                "dropped_events": 0,
                "new_schedule_begins": None,
                "uncovered": None,
                "repeated": None,
            }
        ],
        "errors": [],
    }
    assert result.err == ""


def test_unchanged_schedule_owes_nothing_new(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A backlog that is there already is no reason to ask."""
    root = write_bundle({"dags/a.py": MANY})
    lamplighter("push", root, "--bundle", "mine", "--yes")
    stack.run_until_idle()
    result = lamplighter("push", root, "--bundle", "mine", "--json")
    assert (result.code, json.loads(result.out)["owed"]) == (0, {})


OWN = """
class Own(Timetable):
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(hours=1))
DAG('own', schedule=Own(), start_date=NINE.subtract(days=10))
"""


def test_custom_timetable_says_what_it_owes(
    lamplighter: Command, write_bundle: WriteBundle
) -> None:
    """The author's own timetable is asked on the author's machine, and counts."""
    root = write_bundle({"dags/a.py": HEAD + OWN})
    result = lamplighter("push", root, "--bundle", "mine")
    assert (result.code, result.out) == (3, "own has 243 runs that are already due\n")


def test_changed_kind_of_schedule_can_be_pushed(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A trigger that becomes @continuous is no error of the author's."""
    text = HEAD + "DAG('d', schedule={}, start_date=NINE, max_active_runs=1)\n"
    first = text.format("CronTriggerTimetable('0 * * * *', timezone='UTC')")
    assert lamplighter("push", write_bundle({"dags/a.py": first}), "--bundle", "mine").code == 0
    stack.run_until_idle()
    root = write_bundle({"dags/a.py": text.format("'@continuous'")})
    assert lamplighter("push", root, "--bundle", "mine").code == 0


# What is missing is one line.


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bucket": ""}, "set LAMPLIGHTER_BUCKET: it names a resource of the stack"),
        ({"table_prefix": "elsewhere-"}, "the table elsewhere-"),
        ({"bucket": "no-such-bucket"}, "the bucket no-such-bucket does not exist in this account"),
    ],
    ids=["no bucket", "wrong tables", "wrong bucket"],
)
@pytest.mark.interferes
def test_wrong_settings_are_one_line(
    lamplighter: Command,
    stack: LocalStack,
    write_bundle: WriteBundle,
    change: dict[str, str],
    words: str,
) -> None:
    """A setting that is missing or wrong is named, with exit code 1 and no traceback."""
    root = write_bundle({"dags/a.py": HOURLY})
    with runtime.using(settings=replace(stack.settings, **change)):  # type: ignore[arg-type]
        result = lamplighter("push", root, "--bundle", "mine")
    assert result.code == 1
    assert result.err.startswith(f"error: {words}")
    assert len(result.err.splitlines()) == 1


def test_missing_credentials_are_one_line(write_bundle: WriteBundle) -> None:
    """Outside any deployment the command says so in one line."""
    root = write_bundle({"dags/a.py": HOURLY})
    code = "from lamplighter_cli.app import main; main()"
    given = {name: text for name, text in os.environ.items() if not name.startswith("AWS_")}
    nothing = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
        "LAMPLIGHTER_BUCKET": "some-bucket",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    result = subprocess.run(
        [sys.executable, "-c", code, "push", str(root)],
        capture_output=True,
        text=True,
        check=False,
        env=given | nothing,
    )
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "error: no AWS credentials: sign in, choose a --profile, or use --local"
    ]


@pytest.mark.parametrize("name", ["a/b", "with space", "", "x" * 201])
def test_impossible_name_is_one_line(
    lamplighter: Command, write_bundle: WriteBundle, tmp_path: Path, name: str
) -> None:
    """A bundle's name is an id; no name means that of the folder, which must be one too."""
    root = write_bundle({"dags/a.py": HOURLY}).rename(tmp_path.parent / "not an id")
    result = lamplighter("push", root, "--bundle", name)
    root.rename(tmp_path)
    assert (result.code, len(result.err.splitlines())) == (1, 1)
    assert result.err.startswith("error: bundle ")


def test_folder_that_is_no_bundle_is_one_line(lamplighter: Command, tmp_path: Path) -> None:
    """A wrong path is one line, and nothing is asked of AWS."""
    result = lamplighter("push", tmp_path)
    assert (result.code, len(result.err.splitlines())) == (1, 1)
