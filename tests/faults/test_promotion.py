"""A fault at every single call of a promotion and of a rollback, and then the command again.

Each runs once to learn how many calls it makes. Then it runs again for every call and every fault,
with that fault at that call; the person repeats it, the platform registers what was announced, and
the person repeats it once more, to see that it is done. The DAGs must then be those of the archive
that was meant, and no announced push may be left unregistered.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import aws
from lamplighter.bundles import parsing
from lamplighter.bundles.parsing import CheckedDag, ask_worker, start_worker
from lamplighter.errors import RefusedError
from lamplighter.store.bundles import read_bundle, read_records
from lamplighter.store.models import Dags
from lamplighter.store.rows import connection
from lamplighter_local import LocalDeployment
from lamplighter_operations import push_notes
from lamplighter_operations.bundle_objects import manifest_key
from lamplighter_operations.promotion import (
    current_push_of,
    fetch_for_promotion,
    fetch_for_rollback,
    unpacked,
)
from lamplighter_operations.push import push_archive
from lamplighter_operations.push_notes import Note
from tests.faults.reports import Report, each
from tests.faults.test_register import OF_SERVICES
from tests.tools.faults import Crash, Faults, crash_points
from tests.tools.snapshot import Snapshot

NOON = datetime(2026, 1, 5, 12, 0, 5)
HEAD = "import pendulum\nfrom lamplighter import DAG\n"
OLD = HEAD + "DAG('old')\n"
NEW = HEAD + "DAG('new')\n"
# What a check finds is of no matter here; that it is stored is.
NO_DAGS: tuple[CheckedDag, ...] = ()


class Two(NamedTuple):
    """Two deployments: `dev` has pushed an old and a new archive, `prod` the old one."""

    dev: LocalDeployment
    prod: LocalDeployment
    before: Snapshot

    def put_back(self) -> None:
        """Let both be as they were."""
        self.before.put_back()
        for lamp in (self.dev, self.prod):
            lamp.stack.runtime.caches.clear()


@contextmanager
def two_deployments(root: Path) -> Iterator[Two]:
    """Make both deployments; their sandbox keeps its worker."""
    with ExitStack() as until_the_end:
        worker = start_worker()
        until_the_end.callback(worker.communicate)
        until_the_end.enter_context(
            patch.object(
                parsing,
                "ask_workers",
                lambda requests, **_: (ask_worker(worker, request) for request in requests),
            )
        )
        dev, prod = (
            until_the_end.enter_context(LocalDeployment(at=NOON, name=name))
            for name in ("dev", "prod")
        )
        (root / "dags").mkdir()
        for text in (OLD, NEW):
            (root / "dags" / "a.py").write_text(text, encoding="utf-8")
            dev.push(root, name="shop")
            if text == OLD:
                prod.push(root, name="shop")
        yield Two(dev, prod, Snapshot(prod.stack))


def promote(two: Two) -> None:
    """Do what the command does, apart from the check and the preview, which change nothing."""
    with two.dev.in_own_runtime():
        found = fetch_for_promotion("shop")
    with two.prod.in_own_runtime():
        if current_push_of(found) is None:
            with unpacked(found) as (_, archive):
                note = Note(push_notes.caller_arn(), None, found.origin, NO_DAGS)
                push_archive(archive, "shop", note=note)


def roll_back(two: Two) -> None:
    """Do what the command does in `dev`, as above."""
    with two.dev.in_own_runtime():
        found = fetch_for_rollback("shop")
        if current_push_of(found) is None:
            with unpacked(found) as (_, archive):
                note = Note(push_notes.caller_arn(), None, found.origin, NO_DAGS)
                push_archive(archive, "shop", note=note)


class Story(NamedTuple):
    """A command, the deployment that it changes, and the DAG that is in use afterwards."""

    command: Callable[[Two], None]
    changes: str
    dag_id: str


STORIES = {"promotion": Story(promote, "prod", "new"), "rollback": Story(roll_back, "dev", "old")}


def clients_of(two: Two) -> list[Any]:
    """Return the clients of both deployments that the commands use."""
    found = []
    for lamp in (two.dev, two.prod):
        with lamp.in_own_runtime():
            s3 = [aws.client("s3"), aws.client("s3", read_seconds=120.0)]
            found += [connection().client, *s3, aws.client("sts")]
    return found


def try_with(faults: Faults, two: Two, story: Story) -> None:
    """Give the command once under faults; only what a service could have caused may come of it."""
    with faults.on(*clients_of(two)), suppress(Crash, *OF_SERVICES):
        story.command(two)


def give_again(two: Two, story: Story) -> None:
    """Repeat the command, register, and repeat it once more; a rollback may say that it is one."""
    with suppress(RefusedError):
        story.command(two)
    settle(two)
    with suppress(RefusedError):
        story.command(two)
    settle(two)


def settle(two: Two) -> None:
    """Let both deployments do what is to be done."""
    for lamp in (two.dev, two.prod):
        lamp.run_until_idle()


def wrong_after(two: Two, story: Story) -> Iterator[str]:
    """Yield what is not as it must be."""
    lamp = two.prod if story.changes == "prod" else two.dev
    with lamp.in_own_runtime():
        used = sorted(row.dag_id for row in Dags.scan() if not row.is_stale)
        if used != [story.dag_id]:
            yield f"DAGs in use: {used}"
        row, records = read_bundle("shop"), read_records("shop")
        assert row is not None
        newest = records[0]
        if (row.registered, row.bundle_version) != (newest.push, newest.bundle_version):
            yield f"push {row.registered} is registered, {newest.push} was the newest"
        if newest.outcome != "registered" or newest.origin["kind"] == "push":
            yield f"the newest record is {newest.attribute_values}"
        bucket, key = lamp.stack.settings.bucket, manifest_key("shop", newest.bundle_version)
        aws.client("s3").get_object(Bucket=bucket, Key=key)
    lamp.check_invariants()


@pytest.mark.full
@pytest.mark.parametrize("name", STORIES)
def test_fault_at_every_call_of_a_command(name: str, tmp_path: Path, report: Report) -> None:
    """Whatever fails at whichever call, the command given again ends with the archive in force."""
    wrong: list[str] = []
    story = STORIES[name]
    with two_deployments(tmp_path) as two:
        counted = Faults()
        try_with(counted, two, story)
        give_again(two, story)
        assert list(wrong_after(two, story)) == []
        points = list(crash_points(counted.calls))
        for kind, number in each(points):
            faults = Faults()
            faults.at(number, kind)
            two.put_back()
            try:
                try_with(faults, two, story)
                give_again(two, story)
                found = list(wrong_after(two, story))
            except Exception as error:  # noqa: BLE001 - all of them are listed in the end
                found = [f"became {error!r}"]
            wrong += [f"{faults.injected}: {text}" for text in found]
            assert not faults.pending
    report(f"{name}, {len(counted.calls)} calls", len(points), wrong)


@pytest.mark.parametrize("name", STORIES)
def test_crash_before_the_registration_of_a_repetition(name: str, tmp_path: Path) -> None:
    """What was announced twice is registered once per number, and the last number counts."""
    story = STORIES[name]
    with two_deployments(tmp_path) as two:
        story.command(two)
        story.command(two)
        settle(two)
        assert list(wrong_after(two, story)) == []
