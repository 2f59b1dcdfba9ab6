"""DAGs as a user looks at them, pauses them, and finds out what is wrong with them."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask
from lamplighter.store.models import Dags
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]

ORDERS, FX = Asset("orders", "s3://lake/orders"), Asset("fx")
START = datetime(2026, 1, 5, tz="Europe/Zurich")
WEEKLY = CronTriggerTimetable("0 7 * * 1", timezone="Europe/Zurich")
EITHER = AssetOrTimeSchedule(timetable=WEEKLY, assets=ORDERS)


@pytest.fixture
def shop(stack: LocalStack) -> LocalStack:
    """Return a deployment with a DAG of each kind: time, assets, both."""
    hourly = DAG("hourly", schedule="0 13 * * *", start_date=START, description="Loads it")
    with hourly:
        SparkTask("load", entry_point="jobs/load.py") >> SparkTask("clean", job="jobs.a:b")
    register_dags(
        hourly,
        DAG("both", schedule=(ORDERS & FX)),
        DAG("either", schedule=EITHER, start_date=START.add(hours=8)),
    )
    stack.emit("orders", event_id="e1")
    stack.run_until_idle()
    return stack


def as_json(lamplighter: Command, *arguments: str) -> Any:
    """Return what a command says to programs."""
    result = lamplighter(*arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def test_list_shows_schedules_and_next_runs(lamplighter: Command, shop: LocalStack) -> None:
    """A person sees times in UTC and in the DAG's zone, and how far assets have come."""
    result = lamplighter("dags", "list")
    assert (result.code, result.err) == (0, "")
    lines = {line.split()[0]: line for line in result.out.splitlines()}
    assert list(lines) == ["DAG", "both", "either", "hourly"]
    assert "2026-01-05 12:00 UTC (13:00 Europe/Zurich)" in lines["hourly"]
    assert "1 of 2 assets updated" in lines["both"]
    assert "0 of 1 asset updated" in lines["either"]
    assert "2026-01-12 06:00 UTC (07:00 Europe/Zurich)" in lines["either"]
    assert "queued" in lines["either"]


def test_list_for_programs_has_the_documented_fields(
    lamplighter: Command, shop: LocalStack
) -> None:
    """Instants are ISO texts in UTC, and what is absent is null."""
    both, either, _ = as_json(lamplighter, "dags", "list")
    assert both == {
        "dag_id": "both",
        "schedule": "Asset",
        "state": "active",
        "pause_reason": None,
        "error": None,
        "next_run": None,
        "next_interval_start": None,
        "next_interval_end": None,
        "next_run_after": None,
        "assets_updated": ["orders"],
        "assets_missing": ["fx"],
        "active_runs": 0,
        "last_run_id": None,
        "last_run_state": None,
    }
    assert either["next_run_after"] == "2026-01-12T06:00:00+00:00"
    assert (either["active_runs"], either["last_run_state"]) == (1, "queued")


def test_list_of_nothing_says_how_to_begin(lamplighter: Command) -> None:
    """A new deployment is no error."""
    result = lamplighter("dags", "list")
    assert (result.code, "lamplighter push" in result.out) == (0, True)
    assert as_json(lamplighter, "dags", "list") == []


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"is_paused": True}, "paused"),
        ({"has_import_errors": True, "is_paused": True}, "broken"),
        ({"schedule_error": "it raises"}, "broken"),
        ({"is_stale": True, "has_import_errors": True}, "stale"),
        ({}, "active"),
    ],
)
def test_state_is_what_keeps_a_dag_from_running(
    lamplighter: Command, shop: LocalStack, change: dict[str, Any], state: str
) -> None:
    """Of several reasons the one that must be mended first is shown."""
    row = shop.dag("hourly")
    for name, value in change.items():
        setattr(row, name, value)
    row.save()
    assert as_json(lamplighter, "dags", "show", "hourly")["state"] == state


def test_show_has_tasks_limits_and_the_next_interval(
    lamplighter: Command, shop: LocalStack
) -> None:
    """All that decides about the next run is on one page."""
    out = lamplighter("dags", "show", "hourly").out
    facts = dict(line.split("  ", 1) for line in out.splitlines() if "  " in line)
    facts = {name: text.strip() for name, text in facts.items()}
    assert facts["tasks"] == "clean, load"
    assert facts["slots"] == "0 of 16 used"
    assert facts["description"] == "Loads it"
    assert facts["interval"] == (
        "2026-01-05 12:00 UTC (13:00 Europe/Zurich) → 2026-01-06 12:00 UTC (13:00 Europe/Zurich)"
    )
    shown = as_json(lamplighter, "dags", "show", "hourly")
    assert (shown["tasks"], shown["catchup"]) == (["clean", "load"], True)
    assert shown["file"] == "dags/objects.py"


def test_show_lists_the_newest_runs(lamplighter: Command, shop: LocalStack) -> None:
    """With the assets that are still missing for the next."""
    (run,) = shop.runs("either")
    assert run.run_id in lamplighter("dags", "show", "either").out
    assert as_json(lamplighter, "dags", "show", "either")["assets_missing"] == ["orders"]


def test_pause_and_unpause_say_what_comes_of_it(lamplighter: Command, shop: LocalStack) -> None:
    """The DAG leaves the due index and comes back; doing it twice changes nothing."""
    for _ in range(2):
        assert lamplighter("dags", "pause", "hourly").out == "DAG hourly is paused\n"
        assert shop.dag("hourly").due_shard is None
    for _ in range(2):
        result = lamplighter("dags", "unpause", "hourly")
        assert result.out.startswith("DAG hourly is active; its next run comes after 2026-01-06 12")
        assert shop.dag("hourly").due_shard is not None
    assert as_json(lamplighter, "dags", "pause", "hourly")["state"] == "paused"


def test_errors_are_those_of_files_and_of_schedules(
    lamplighter: Command, stack: LocalStack, write_bundle: WriteBundle
) -> None:
    """A file that fails and a schedule that cannot be followed are both named with their place."""
    assert lamplighter("dags", "errors").out == "no errors\n"
    root = write_bundle({"dags/a.py": "from lamplighter import DAG\nDAG('a')", "dags/b.py": "1/0"})
    stack.push(root, bundle="mine")
    Dags("a").update([Dags.schedule_error.set("it goes backwards")])
    assert lamplighter("dags", "errors").out.splitlines() == [
        "error: mine: dags/b.py:1: ZeroDivisionError: division by zero",
        "error: mine: dags/a.py: DAG a: it goes backwards",
    ]
    first, _ = as_json(lamplighter, "dags", "errors")
    assert (first["bundle"], first["line"], first["severity"]) == ("mine", 1, "error")


@pytest.mark.parametrize(
    ("options", "next_run"),
    [
        ([], "2026-01-07T12:00:00+00:00"),
        (["--catchup"], "2026-01-07T12:00:00+00:00"),
        (["--latest"], "2026-01-09T12:00:00+00:00"),
        (["--from-now"], "2026-01-10T12:00:00+00:00"),
    ],
)
def test_unpause_takes_a_choice_about_what_was_missed(
    lamplighter: Command, shop: LocalStack, options: list[str], next_run: str
) -> None:
    """The next run that is told is the one that was chosen."""
    shop.advance(days=1)
    lamplighter("dags", "pause", "hourly")
    shop.clock.advance(timedelta(days=3))
    found = as_json(lamplighter, "dags", "unpause", "hourly", *options)
    assert (found["state"], found["next_run_after"]) == ("active", next_run)


def test_unpause_with_two_choices_is_wrong_use(lamplighter: Command, shop: LocalStack) -> None:
    """Exit code 2, and the DAG stays as it was."""
    lamplighter("dags", "pause", "hourly")
    result = lamplighter("dags", "unpause", "hourly", "--latest", "--from-now")
    assert result.code == 2
    assert "exclude each other" in result.err
    assert shop.dag("hourly").is_paused
