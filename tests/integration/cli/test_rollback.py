"""`lamplighter rollback` and `lamplighter bundles` as a user types them."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import aws
from lamplighter.identifiers import bundle_key
from lamplighter.store.bundles import RECORDS_KEPT, next_push_number, read_records
from lamplighter.store.models import Catalog
from lamplighter_local.stack import LocalStack
from lamplighter_operations import push_notes
from tests.infra.permissions_file import CheckedPermissions
from tests.tools.function_calls import noted_calls_of

Command = Callable[..., Any]
WriteBundle = Callable[[dict[str, str]], Path]

HEAD = """
import pendulum
from lamplighter import DAG
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
FIRST = HEAD + "DAG('hourly', schedule='0 * * * *', start_date=NINE)\nDAG('old')\n"
SECOND = HEAD + "DAG('hourly', schedule='*/30 * * * *', start_date=NINE)\nDAG('new')\n"
THIRD = SECOND + "# a third\n"


@pytest.fixture
def push(stack: LocalStack, lamplighter: Command, write_bundle: WriteBundle) -> Callable[..., None]:
    """Return a function that pushes a DAG file as the bundle `shop` and lets it be registered."""

    def push(text: str, *options: str, registers: bool = True) -> None:
        root = write_bundle({"dags/a.py": text})
        result = lamplighter("push", root, "--bundle", "shop", "--yes", *options)
        assert (result.code, result.err) == (0, "")
        if registers:
            stack.run_until_idle()

    return push


Push = Callable[..., None]


def dags(stack: LocalStack) -> list[str]:
    """Return the ids of the DAGs that are in use."""
    return [name for name in ("hourly", "new", "old") if _is_in_use(stack, name)]


def _is_in_use(stack: LocalStack, name: str) -> bool:
    try:
        return not stack.dag(name).is_stale
    except LookupError:
        return False


class TestRollback:
    def test_archive_before_is_pushed_again(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """It takes a new number and comes with a preview; its DAGs are as they were."""
        push(FIRST)
        push(SECOND)
        result = lamplighter("rollback", "shop", "--why", "new fails")
        assert (result.code, result.err) == (0, "")
        assert "hourly: schedule */30 * * * * → 0 * * * *" in result.out
        assert "new is removed from the bundle" in result.out
        assert "rolled back 'shop': push 3, 2 DAGs, version " in result.out
        stack.run_until_idle()
        assert dags(stack) == ["hourly", "old"]
        third, second, first = read_records("shop")
        assert third.origin == {"kind": "rollback", "push": 1}
        assert (third.bundle_version, third.why) == (first.bundle_version, "new fails")
        assert second.outcome == third.outcome == "registered"

    def test_runs_of_the_past_stay_as_they_are(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """Schedules go on from where they are: no run is created twice, and none is removed."""
        push(FIRST)
        push(SECOND)
        before = {run.run_id for run in stack.runs("hourly")}
        lamplighter("rollback", "shop", "--yes")
        stack.run_until_idle()
        assert {run.run_id for run in stack.runs("hourly")} == before

    def test_pushes_of_the_same_archive_are_passed_over(
        self, push: Push, lamplighter: Command
    ) -> None:
        """The push before is the newest with another archive that was registered."""
        for text in (FIRST, SECOND, SECOND):
            push(text)
        assert json.loads(lamplighter("rollback", "shop", "--json").out)["origin"]["push"] == 1

    def test_repeated_rollback_goes_no_further(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """A command whose answer was lost can be given again: it names what it found."""
        for text in (FIRST, SECOND, THIRD):
            push(text)
        assert lamplighter("rollback", "shop").code == 0
        stack.run_until_idle()
        result = lamplighter("rollback", "shop")
        assert (result.code, result.err) == (
            1,
            (
                "error: push 4 of bundle 'shop' is a rollback to push 2: choose another push with"
                " --to\n"
            ),
        )

    def test_named_push_is_pushed_again_and_only_once(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """With `--to`, a repetition says that it is in force."""
        for text in (FIRST, SECOND, THIRD):
            push(text)
        assert lamplighter("rollback", "shop", "--to", 1).code == 0
        stack.run_until_idle()
        assert dags(stack) == ["hourly", "old"]
        result = lamplighter("rollback", "shop", "--to", 1)
        assert (result.code, result.err) == (0, "")
        assert "has this archive already (push 4, version " in result.out
        assert len(read_records("shop")) == 4

    def test_rollback_over_a_push_that_is_on_its_way_counts(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """Numbers decide: the one that is not registered yet is never registered."""
        push(FIRST)
        push(SECOND)
        push(THIRD, registers=False)
        result = lamplighter("rollback", "shop")
        assert (result.code, "push 4, 2 DAGs" in result.out) == (0, True)
        stack.run_until_idle()
        assert dags(stack) == ["hourly", "old"]

    def test_owed_runs_of_dags_that_come_back_need_a_yes(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """What became due while a DAG was removed counts: exit code 3 without `--yes`."""
        push(FIRST)
        push(HEAD + "DAG('old')\n")
        stack.clock.advance(timedelta(days=5))
        result = lamplighter("rollback", "shop")
        assert (result.code, "120 runs are already due: pass --yes" in result.err) == (3, True)
        assert "hourly: is in the bundle again; next run after 2026-01-05 13:00 UTC" in result.out
        assert len(read_records("shop")) == 2

    def test_owed_runs_of_dags_that_come_back_can_be_skipped(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """With `--skip-owed` the schedule goes on as if the DAG were new."""
        push(FIRST)
        push(HEAD + "DAG('old')\n")
        stack.clock.advance(timedelta(days=5))
        result = lamplighter("rollback", "shop", "--skip-owed")
        assert (result.code, "hourly skips 120 runs" in result.out) == (0, True)
        stack.run_until_idle()
        assert len(stack.runs("hourly")) == 3
        assert stack.dag("hourly").next_run_after == datetime(2026, 1, 10, 13)

    def test_errors_need_force(self, push: Push, lamplighter: Command) -> None:
        """An archive with import errors comes back only on request."""
        push(FIRST + "1 / 0\n", "--force")
        push(SECOND)
        result = lamplighter("rollback", "shop")
        assert (result.code, "--force pushes it anyway" in result.err) == (1, True)
        assert lamplighter("rollback", "shop", "--force").code == 0

    @pytest.mark.parametrize(
        ("arguments", "line"),
        [
            (("shop",), "bundle 'shop' in local has no push with another archive before push 1"),
            (("shp",), "there is no bundle 'shp' in local: there is shop"),
            (
                ("shop", "--to", "3"),
                "there is no record of push 3 of bundle 'shop' in local (the last 50 are kept: 1)",
            ),
            (("a b",), "bundle 'a b': the id may hold letters, digits and . _ ~ - only, not ' '"),
        ],
    )
    def test_mistake_is_one_line(
        self, push: Push, lamplighter: Command, arguments: tuple[str, ...], line: str
    ) -> None:
        """It names the thing and the fix."""
        push(FIRST)
        result = lamplighter("rollback", *arguments)
        assert (result.code, result.out, result.err) == (1, "", f"error: {line}\n")


def shown(lamplighter: Command, *options: object) -> Any:
    """Return what `bundles show` prints as JSON."""
    return json.loads(lamplighter("bundles", "show", "shop", *options, "--json").out)


class TestBundles:
    def test_list_tells_what_is_in_force_and_whence(self, push: Push, lamplighter: Command) -> None:
        """Who pushed what, when and how; and what became of it."""
        assert lamplighter("bundles", "list").out == "no bundles yet: lamplighter push DIR\n"
        push(FIRST)
        header, row = lamplighter("bundles", "list").out.splitlines()
        assert header.split() == [
            "bundle",
            "push",
            "pushed",
            "by",
            "how",
            "archive",
            "DAGs",
            "errors",
        ]
        assert row.startswith("shop    1     2026-01-05 12:00:05 UTC")
        assert "arn:aws:sts::123456789012:" in row
        (told,) = json.loads(lamplighter("bundles", "list", "--json").out)
        assert (told["bundle"], told["dags"], told["files_with_errors"]) == ("shop", 2, 0)
        assert (told["current"]["push"], told["newest_push"]) == (1, 1)
        assert told["current"]["origin"] == {"kind": "push"}

    def test_list_has_a_bundle_of_which_nothing_is_registered(
        self, push: Push, lamplighter: Command
    ) -> None:
        """It is there, with no push in force."""
        push(FIRST, registers=False)
        assert "shop    none" in lamplighter("bundles", "list").out
        assert "none is registered" in lamplighter("bundles", "show", "shop").out
        assert shown(lamplighter)["pushes"][0]["state"] == "announced"

    def test_show_tells_what_differs_from_the_push_before(
        self, push: Push, lamplighter: Command
    ) -> None:
        """DAGs added, removed and with other schedules, and files."""
        push(FIRST)
        push(SECOND, "--why", "half-hours")
        out = lamplighter("bundles", "show", "shop").out
        assert out[out.index("push 2, compared") :].splitlines() == [
            "push 2, compared with push 1:",
            "  new DAG new: schedule None",
            "  removed DAG old: schedule None",
            "  changed DAG hourly: schedule 0 * * * * → */30 * * * *",
            "  changed file dags/a.py",
        ]
        told = shown(lamplighter)
        assert told["dags"] == ["hourly", "new"]
        assert [(each["push"], each["state"], each["why"]) for each in told["pushes"]] == [
            (2, "registered", "half-hours"),
            (1, "registered", None),
        ]
        assert told["changes"]["schedules_changed"] == {"hourly": ["0 * * * *", "*/30 * * * *"]}
        first = shown(lamplighter, "--push", 1)
        assert (first["push"]["push"], first["changes"], first["compared_with"]) == (1, None, None)

    def test_readers_may_show_bundles(self, stack: LocalStack, push: Push, alone: Command) -> None:
        """Nothing that these commands ask for needs the policy for operators."""
        push(FIRST)
        push(SECOND)
        checked = CheckedPermissions(stack.settings.table_prefix)
        with noted_calls_of("reader", checked.note):
            assert alone("bundles", "list").code == 0
            assert alone("bundles", "show", "shop").code == 0
        assert checked.forbidden == set()

    def test_show_without_a_check_says_that_changes_are_not_known(
        self, stack: LocalStack, push: Push, lamplighter: Command, write_bundle: WriteBundle
    ) -> None:
        """A push of a program, or of an older version, has no manifest."""
        push(FIRST)
        stack.push(write_bundle({"dags/a.py": SECOND}), bundle="shop")
        out = lamplighter("bundles", "show", "shop").out
        assert "push 2, compared with push 1: not known, because one was pushed without" in out

    def test_bundle_from_before_records_is_shown(self, push: Push, lamplighter: Command) -> None:
        """What its row says is shown: the push in force and its archive."""
        push(FIRST)
        (record,) = read_records("shop")
        record.delete()
        (told,) = shown(lamplighter)["pushes"]
        assert (told["push"], told["state"], told["is_current"]) == (1, "registered", True)
        assert (told["version"], told["pushed_by"]) == (record.bundle_version, None)

    def test_unreadable_push_says_so(
        self, stack: LocalStack, push: Push, lamplighter: Command
    ) -> None:
        """An archive that was lost before it was registered leaves the push before in force."""
        push(FIRST)
        push(SECOND, registers=False)
        lost = read_records("shop")[0].bundle_version
        aws.client("s3").delete_object(Bucket=stack.settings.bucket, Key=bundle_key("shop", lost))
        stack.run_until_idle()
        newest, before = shown(lamplighter)["pushes"]
        assert (newest["state"], newest["errors"]) == ("unreadable", 1)
        assert (before["state"], before["is_current"]) == ("registered", True)
        result = lamplighter("rollback", "shop", "--to", 2)
        assert (
            result.code,
            "push 2 of bundle 'shop' in local could not be read" in result.err,
        ) == (
            1,
            True,
        )

    def test_caller_who_cannot_be_known_is_left_out(self, push: Push) -> None:
        """A push does not fail because AWS does not say who makes it."""
        with patch.object(push_notes, "caller_arn", lambda: None):
            push(FIRST)
        assert read_records("shop")[0].outcome == "registered"

    def test_long_reason_is_refused(self, lamplighter: Command, write_bundle: WriteBundle) -> None:
        """Before anything is checked or uploaded."""
        root = write_bundle({"dags/a.py": FIRST})
        result = lamplighter("push", root, "--bundle", "shop", "--why", "x" * 1_001)
        assert (result.code, "--why has 1,001 characters, at most 1,000" in result.err) == (1, True)


def test_history_is_bounded(push: Push, lamplighter: Command) -> None:
    """Each record takes the place of the one so many pushes before; nothing of it is left."""
    push(FIRST, "--why", "the first")
    for _ in range(RECORDS_KEPT - 1):
        next_push_number("shop")
    push(SECOND)
    (record,) = Catalog.query("pushes#shop")
    assert int(record.push or 0) == RECORDS_KEPT + 1
    assert (record.why or "", record.id) == ("", "01")
