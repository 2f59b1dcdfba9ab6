"""`lamplighter backfill` as a user types it."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime
from rich.console import Console

from lamplighter import DAG, Asset, SparkTask
from lamplighter.store.backfills import read_backfill
from lamplighter_cli import console
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run

Command = Callable[..., Any]

START = datetime(2026, 1, 5, tz="Europe/Zurich")
RANGE = ("--start", "2026-01-01", "--end", "2026-01-03")


@pytest.fixture
def shop(stack: LocalStack) -> LocalStack:
    """Return a deployment with a daily DAG in Zurich, and one that waits for what it makes."""
    orders = Asset("orders", "s3://lake/orders")
    daily = DAG("daily", schedule="0 0 * * *", start_date=START)
    with daily:
        SparkTask("load", job="jobs:load", outlets=[orders])
    register_dags(daily, DAG("revenue", schedule=[orders]), DAG("frequent", schedule="* * * * *",
                  start_date=START.add(days=10)))  # fmt: skip
    return stack


def as_json(lamplighter: Command, *arguments: str) -> Any:
    """Return what a command says to programs."""
    result = lamplighter("backfill", *arguments, "--json")
    assert (result.code, result.err) == (0, "")
    return json.loads(result.out)


def facts(text: str) -> dict[str, str]:
    """Return a table of names and values."""
    pairs = (line.strip().split("  ", 1) for line in text.splitlines() if "  " in line.strip())
    return {name: value.strip() for name, value in pairs}


def test_plan_says_in_words_what_is_included(lamplighter: Command, shop: LocalStack) -> None:
    """Dates without an offset are the DAG's; the start belongs to the range, the end does not."""
    result = lamplighter("backfill", "plan", "daily", *RANGE)
    said = facts(result.out)
    assert said["from"] == "2025-12-31 23:00 UTC (2026-01-01 00:00 Europe/Zurich), included"
    assert said["to"] == "2026-01-02 23:00 UTC (2026-01-03 00:00 Europe/Zurich), not included"
    assert said["runs"] == "2"
    assert said["triggers"] == "revenue (through orders), up to 2 runs"
    assert said["expected"] == "no runs to go by"
    assert shop.dag("daily").backfill is None


@pytest.mark.parametrize(
    ("end", "days"),
    [
        (["--end", "2026-01-03"], ["2025-12-31", "2026-01-01"]),
        (["--end", "2026-01-02", "--inclusive"], ["2025-12-31", "2026-01-01"]),
        (["--end", "2026-01-01T23:00:00Z", "--inclusive"], ["2025-12-31", "2026-01-01"]),
        (["--end", "2026-01-01T23:00:00Z"], ["2025-12-31"]),
        (["--end", "2026-01-02T00:00:01"], ["2025-12-31", "2026-01-01"]),
    ],
)
def test_end_is_left_out_unless_asked_for(
    lamplighter: Command, shop: LocalStack, end: list[str], days: list[str]
) -> None:
    """An end that is a date means its whole day when it is included, an instant itself."""
    plan = as_json(lamplighter, "plan", "daily", "--start", "2026-01-01", *end)
    assert [each["logical_date"] for each in plan["dates"]] == [
        f"{day}T23:00:00+00:00" for day in days
    ]


def test_plan_judges_by_history(lamplighter: Command, shop: LocalStack) -> None:
    """What the last runs cost and took is what the planned ones are expected to."""
    created = as_json(lamplighter, "create", "daily", *RANGE)
    shop.run_until_idle()
    for key in sorted(read_backfill(created["backfill_id"]).active or ()):  # type: ignore[union-attr] # it is there
        finish_run("daily", key, state="success")
    plan = as_json(lamplighter, "plan", "daily", "--start", "2025-12-01", "--end", "2026-01-03")
    assert (plan["runs"], plan["judged_by_runs"]) == (31, 2)
    kinds = [each["then"] for each in plan["dates"]]
    assert kinds == ["create"] * 31 + ["exists"] * 2


def test_create_shows_the_plan_and_how_to_follow_it(lamplighter: Command, shop: LocalStack) -> None:
    """What is created is what was planned, under an id that people can type."""
    result = lamplighter("backfill", "create", "daily", *RANGE)
    assert result.code == 0
    assert facts(result.out)["runs"] == "2"
    assert "created daily-1: follow it with `lamplighter backfill watch daily`" in result.out
    shop.run_until_idle()
    assert [run.run_type for run in shop.runs("daily")] == ["backfill", "backfill"]


def test_many_runs_need_a_yes(lamplighter: Command, shop: LocalStack) -> None:
    """More than 100 runs are not created unasked: exit code 3, and nothing is there."""
    long = ("--start", "2025-01-01", "--end", "2026-01-01")
    result = lamplighter("backfill", "create", "daily", *long)
    assert result.code == 3
    assert shop.dag("daily").backfill is None
    assert result.err == "error: 365 runs would be created: pass --yes, or choose a shorter range\n"
    assert lamplighter("backfill", "create", "daily", *long, "--yes").code == 0


def test_backfill_is_listed_shown_paused_resumed_and_cancelled(
    lamplighter: Command, shop: LocalStack
) -> None:
    """Each command takes the id, or that of the DAG for its newest, and says what is so now."""
    assert lamplighter("backfill", "list").out == "no backfills yet\n"
    lamplighter("backfill", "create", "daily", *RANGE, "--max-active-runs", "1", "--backwards")
    shop.run_until_idle()
    said = facts(lamplighter("backfill", "show", "daily").out)
    assert (said["order"], said["at a time"]) == ("newest first", "1")
    assert said["progress"] == "0 of 2 (0%), 1 running"
    paused = lamplighter("backfill", "pause", "daily").out
    assert paused == "backfill daily-1 of DAG daily is paused; 1 active run\n"
    resumed = as_json(lamplighter, "resume", "daily-1", "--max-active-runs", "2")
    assert (resumed["state"], resumed["max_active_runs"]) == ("running", 2)
    cancelled = as_json(lamplighter, "cancel", "daily", "--jobs")
    assert cancelled["state"] == "cancelled"
    (row,) = lamplighter("backfill", "list", "daily").out.splitlines()[1:]
    assert row.split()[:2] == ["daily-1", "cancelled"]


def test_watch_ends_with_the_backfill(lamplighter: Command, shop: LocalStack) -> None:
    """It writes a line for each change, and fails if a run did."""
    lamplighter("backfill", "create", "daily", *RANGE)
    shop.run_until_idle()
    first, second = (run.run_key for run in shop.runs("daily"))
    finish_run("daily", first, state="success")
    finish_run("daily", second, state="failed")
    result = lamplighter("backfill", "watch", "daily")
    assert result.code == 1
    assert "daily-1  completed  2 of 2 (100%), 1 failed" in result.out


@pytest.fixture(name="going_on")
def make_going_on(shop: LocalStack) -> Iterator[None]:
    """Let one run of the backfill end whenever a command waits."""

    def end_one(_: float) -> None:
        shop.clock.advance(timedelta(minutes=10))
        finish_run("daily", min(read_active()), state="success")
        shop.run_until_idle()

    with patch.object(shop.clock, "sleep", end_one):
        yield


def read_active() -> set[str]:
    """Return the runs that occupy a slot of the backfill."""
    row = read_backfill("daily-1")
    assert row is not None
    return set(row.active or ())


@pytest.mark.interferes
@pytest.mark.usefixtures("going_on")
def test_watch_writes_a_line_for_each_change(lamplighter: Command, shop: LocalStack) -> None:
    """A file or a pipe gets lines, until the backfill is over."""
    lamplighter("backfill", "create", "daily", *RANGE, "--max-active-runs", "1")
    shop.run_until_idle()
    result = lamplighter("backfill", "watch", "daily")
    said = [line.partition("  daily-1  ")[2] for line in result.out.splitlines()]
    assert result.code == 0
    assert [text.partition(",")[0] for text in said] == [
        "running  0 of 2 (0%)",
        "running  1 of 2 (50%)",
        "completed  2 of 2 (100%)",
    ]


@pytest.mark.interferes
@pytest.mark.usefixtures("going_on")
def test_watch_draws_a_bar_on_a_terminal(lamplighter: Command, shop: LocalStack) -> None:
    """A person sees how far it is."""
    lamplighter("backfill", "create", "daily", *RANGE)
    shop.run_until_idle()
    screen = Console(force_terminal=True, width=80, file=io.StringIO())
    with patch.object(console, "out", lambda: screen):
        assert lamplighter("backfill", "watch", "daily-1").code == 0
    text = screen.file.getvalue()  # type: ignore[attr-defined] # the file above
    assert "━" in text
    assert "2 of 2 (100%)" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("plan dayly --start 2026-01-01 --end 2026-01-02", "did you mean daily?"),
        ("plan daily --start today --end 2026-01-02", "--start 'today' is not a date"),
        ("plan revenue --start 2026-01-01 --end 2026-01-02", "has no dates to backfill"),
        ("plan daily --start 2026-01-02 --end 2026-01-01", "before it begins"),
        ("plan frequent --start 2025-01-01 --end 2026-01-01", "more than 10,000 runs"),
        ("create daily --start 2026-01-01 --end 2026-01-01", "has no complete run"),
        ("create daily --start 2026-01-01 --end 2026-01-02 --conf [1]", "write an object"),
        ("create daily --start 2026-01-01 --end 2026-01-02 --reprocess all", "choose one of none"),
        ("show daily", "DAG 'daily' has no backfill yet"),
        ("show daily-7", "DAG 'daily' has no backfill 'daily-7'"),
        ("pause dayly-1", "did you mean daily?"),
        ("list nothing", "there is no DAG 'nothing'"),
    ],
)
def test_wrong_use_is_one_line(
    lamplighter: Command, shop: LocalStack, arguments: str, words: str
) -> None:
    """The line names the thing and, where it is known, what to do."""
    result = lamplighter("backfill", *arguments.split())
    (line,) = result.err.splitlines()
    assert (result.code, line.startswith("error: "), words in line) == (1, True, True)
