"""Promotion and rollback over days: two deployments with clocks of their own, and two at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pendulum import datetime

from lamplighter.store import bundles
from lamplighter.store.bundles import read_records
from lamplighter.store.models import Dags
from lamplighter_local import LocalDeployment
from lamplighter_operations.promotion import (
    Fetched,
    fetch_for_promotion,
    fetch_for_rollback,
    unpacked,
)
from lamplighter_operations.push import push_archive
from lamplighter_operations.push_history import read_history
from lamplighter_operations.push_notes import Note

NOON = datetime(2026, 1, 5, 12, 0, 5)
DAG_FILE = """
import pendulum
from lamplighter import DAG, SparkTask
with DAG("hourly", schedule="{schedule}", start_date=pendulum.datetime(2026, 1, 5, 9)):
    SparkTask("load", job="jobs.load:load", arguments=["--root", "{{{{ var.value.root }}}}"])
"""
EVERY_HOUR, EVERY_HALF = "0 * * * *", "*/30 * * * *"
Two = tuple[LocalDeployment, LocalDeployment]


@pytest.fixture
def two(kept_worker: None) -> Iterator[Two]:
    """Yield two deployments whose variables differ."""
    with (
        LocalDeployment(at=NOON, name="dev", variables={"root": "s3://dev"}) as dev,
        LocalDeployment(at=NOON.add(days=1), name="prod", variables={"root": "s3://prod"}) as prod,
    ):
        yield dev, prod


def push(lamp: LocalDeployment, root: Path, schedule: str) -> None:
    """Push the bundle with a schedule and let it be registered."""
    for folder in ("dags", "jobs"):
        (root / folder).mkdir(exist_ok=True)
    (root / "jobs" / "load.py").write_text("def load(spark, context): ...\n", encoding="utf-8")
    (root / "dags" / "a.py").write_text(DAG_FILE.format(schedule=schedule), encoding="utf-8")
    lamp.push(root, name="shop")


def fetch(lamp: LocalDeployment, number: int | None = None) -> Fetched:
    """Return a push of a deployment, on its way to another one."""
    with lamp.in_own_runtime():
        return fetch_for_promotion("shop", number)


def push_again(lamp: LocalDeployment, found: Fetched, *, registers: bool = True) -> int:
    """Push to a deployment what was fetched, and return the number."""
    with lamp.in_own_runtime(), unpacked(found) as (_, archive):
        number = push_archive(archive, "shop", note=Note(origin=found.origin)).number
    if registers:
        lamp.run_until_idle()
    return number


def version_in_force(lamp: LocalDeployment) -> str:
    """Return the archive that the only DAG is defined by."""
    with lamp.in_own_runtime():
        (row,) = Dags.scan()
        return str(row.bundle_version)


def test_what_was_tested_runs_with_the_variables_of_its_stage(two: Two, tmp_path: Path) -> None:
    """Each deployment creates the runs of its own clock, from one archive."""
    dev, prod = two
    push(dev, tmp_path, EVERY_HOUR)
    dev.advance(hours=2)
    push_again(prod, fetch(dev))
    prod.advance(hours=2)
    assert version_in_force(dev) == version_in_force(prod)
    assert len(dev.runs("hourly")) == 3 + 2
    assert len(prod.runs("hourly")) == 24 + 3 + 2
    assert {run.state for lamp in two for run in lamp.runs("hourly")} == {"success"}
    for lamp in two:
        lamp.check_invariants()


def test_source_that_is_pushed_meanwhile_changes_nothing(two: Two, tmp_path: Path) -> None:
    """What was fetched is what is pushed, whatever the source has by then."""
    dev, prod = two
    push(dev, tmp_path, EVERY_HOUR)
    found = fetch(dev)
    push(dev, tmp_path, EVERY_HALF)
    push_again(prod, found)
    assert version_in_force(prod) == found.version != version_in_force(dev)


@pytest.mark.parametrize("is_older_registered_last", [False, True])
def test_of_two_promotions_at_once_the_higher_number_counts(
    two: Two, tmp_path: Path, *, is_older_registered_last: bool
) -> None:
    """In whichever order they are registered."""
    dev, prod = two
    push(dev, tmp_path, EVERY_HOUR)
    first = fetch(dev)
    push(dev, tmp_path, EVERY_HALF)
    second = fetch(dev)
    assert push_again(prod, first, registers=not is_older_registered_last) == 1
    assert push_again(prod, second, registers=False) == 2
    prod.run_until_idle()
    assert version_in_force(prod) == second.version
    with prod.in_own_runtime():
        states = {push.push: push.state for push in read_history("shop").pushes}
        assert states[2] == "registered"
        assert states[1] in {"registered", "superseded"}
    prod.check_invariants()


def test_rollback_leaves_positions_and_runs(two: Two, tmp_path: Path) -> None:
    """No interval has two runs, and none is left out: the old schedule goes on from here."""
    dev, _ = two
    push(dev, tmp_path, EVERY_HOUR)
    push(dev, tmp_path, EVERY_HALF)
    dev.advance(hours=2, minutes=30)
    before = [run.run_id for run in dev.runs("hourly")]
    with dev.in_own_runtime():
        found = fetch_for_rollback("shop")
    push_again(dev, found)
    assert [run.run_id for run in dev.runs("hourly")] == before
    dev.advance(hours=2)
    intervals = sorted(
        (run.data_interval_start, run.data_interval_end)
        for run in dev.runs("hourly")
        if run.data_interval_start and run.data_interval_end
    )
    assert [start for start, _ in intervals[1:]] == [end for _, end in intervals[:-1]]
    assert dev.dag("hourly").schedule == EVERY_HOUR
    dev.check_invariants()


def test_runs_under_way_keep_their_archive(two: Two, tmp_path: Path) -> None:
    """A run that was created before a rollback is of the version that it was created with."""
    dev, _ = two
    push(dev, tmp_path, EVERY_HOUR)
    push(dev, tmp_path, EVERY_HALF)
    dev.takes("hourly", "load", hours=3)
    dev.advance(minutes=30)
    (live,) = [run for run in dev.runs("hourly") if run.state == "running"]
    with dev.in_own_runtime():
        found = fetch_for_rollback("shop")
    push_again(dev, found)
    dev.advance(hours=4)
    (ended,) = [run for run in dev.runs("hourly") if run.run_id == live.run_id]
    assert (ended.state, ended.dag_version) == ("success", live.dag_version)


def test_records_name_the_deployment_and_push_they_come_from(two: Two, tmp_path: Path) -> None:
    """A promoted push that is rolled back, and promoted again, says so in order."""
    dev, prod = two
    push(dev, tmp_path, EVERY_HOUR)
    push_again(prod, fetch(dev))
    push(dev, tmp_path, EVERY_HALF)
    push_again(prod, fetch(dev))
    with prod.in_own_runtime():
        found = fetch_for_rollback("shop")
    push_again(prod, found)
    push_again(prod, fetch(dev, 2))
    with prod.in_own_runtime():
        origins = [(row.origin["kind"], row.origin["push"]) for row in read_records("shop")]
    assert origins[::-1] == [("promotion", 1), ("promotion", 2), ("rollback", 1), ("promotion", 2)]


def test_push_that_a_newer_one_overtakes_is_not_recorded_as_registered(two: Two) -> None:
    """What ends late was never in force, and is nothing to roll back to."""
    dev, _ = two
    with dev.in_own_runtime():
        for number in (1, 2):
            bundles.record_push("shop", number, "v", by=None, why=None, origin={"how": "push"})
            assert bundles.begin_registration("shop", number) is not None
        bundles.end_registration("shop", 1, "v", errors=0)
        bundles.end_registration("shop", 2, "v", errors=0)
        assert [each.outcome for each in read_records("shop")] == ["registered", None]
