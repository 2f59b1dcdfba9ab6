"""Tables that come back from point-in-time recovery, put in place as docs/runbook.md says.

The emulator restores tables as they are at that moment, so the instant is the one of the call. TTL,
recovery itself and deletion protection do not come back with a table, there or on AWS.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pendulum
import pytest

from lamplighter import DAG, Asset, SparkTask, aws, settings
from lamplighter.store.models import TABLES
from lamplighter.store.tables import table_definitions
from lamplighter_cli.doctor_checks import ERROR, check_activity, check_resources
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.repair import find_drift

_START = pendulum.datetime(2026, 1, 1, tz="UTC")
_COPY = "restored-"
_RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


@pytest.fixture
def lamp() -> Iterator[LocalDeployment]:
    """Return a deployment in its fourth hour: an hourly DAG, and one that consumes its events."""
    numbers = Asset("numbers")
    with DAG("count", schedule="0 * * * *", start_date=_START) as count:
        SparkTask("count", job="jobs.hello:count", outlets=[numbers])
    with DAG("greet", schedule=numbers) as greet:
        SparkTask("greet", job="jobs.hello:greet")
    emr = FakeEmr(takes_seconds=600)
    with LocalDeployment([count, greet], at=_START, executor=emr) as made:
        made.advance(hours=3, minutes=30)
        yield made


def _restore_copies(tables: Iterable[str]) -> None:
    """Restore tables beside the originals."""
    for table in tables:
        aws.client("dynamodb").restore_table_to_point_in_time(
            SourceTableName=table, TargetTableName=f"{_COPY}{table}", UseLatestRestorableTime=True
        )


def _put_in_place(tables: Iterable[str]) -> None:
    """Let copies have the names of the originals, which are deleted."""
    dynamodb = aws.client("dynamodb")
    for table in tables:
        backup = dynamodb.create_backup(TableName=f"{_COPY}{table}", BackupName=table)
        dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)
        dynamodb.delete_table(TableName=table)
        arn = backup["BackupDetails"]["BackupArn"]
        dynamodb.restore_table_from_backup(TargetTableName=table, BackupArn=arn)


def _tables() -> list[str]:
    return [table.name for table in table_definitions(settings.current().table_prefix)]


def _errors() -> list[str]:
    """Return what `lamplighter doctor` finds wrong."""
    findings = [*check_resources(), *check_activity()]
    return [f"{each.check}: {each.text}" for each in findings if each.level == ERROR]


def _dates(lamp: LocalDeployment, dag_id: str, *, state: str = "success") -> list[str]:
    runs = [run for run in lamp.runs(dag_id) if run.state == state]
    return [(run.logical_date or run.created_at).format("HH:mm") for run in runs]


# On AWS functions have permissions on tables of their own prefix only.
@pytest.mark.interferes
def test_tables_restored_under_another_prefix_are_a_deployment(lamp: LocalDeployment) -> None:
    """All tables of one instant go on from there: doctor is content, ticks claim what is due."""
    _restore_copies(_tables())
    lamp.stack.settings = replace(lamp.stack.settings, table_prefix=f"{_COPY}local-")
    lamp.stack.tick()
    assert _errors() == []
    assert find_drift() == []

    lamp.advance(hours=2)
    assert _dates(lamp, "count") == ["00:00", "01:00", "02:00", "03:00", "04:00"]
    assert len(_dates(lamp, "greet")) == 5


def test_tables_put_in_place_do_what_was_lost_once_more(lamp: LocalDeployment) -> None:
    """What happened after the instant happens again, each interval once, and nothing else does."""
    _restore_copies(_tables())
    lamp.advance(hours=2)
    assert _dates(lamp, "count")[-1] == "04:00"
    lamp.advance(minutes=5, deliver=False)  # paused
    _put_in_place(_tables())
    assert _dates(lamp, "count") == ["00:00", "01:00", "02:00"]
    (late,) = _errors()
    assert late.startswith("tick: last ran at about")

    lamp.advance(minutes=24)
    assert _dates(lamp, "count") == ["00:00", "01:00", "02:00", "03:00", "04:00"]
    # Two events that come together may share a run.
    assert sum(len(run.events) for run in lamp.runs("greet")) == 5
    lamp.stack.tick()  # idle ones are left out here
    assert _errors() == []
    lamp.check_invariants()


def test_tables_of_different_instants_contradict_each_other(lamp: LocalDeployment) -> None:
    """A single table from before names runs that are over: doctor tells, and repairs slots only."""
    lamp.advance(to=_START.add(hours=4, minutes=5))  # a run is under way
    table = f"{settings.current().table_prefix}Dags"
    _restore_copies([table])
    lamp.advance(hours=1)
    _put_in_place([table])
    assert [drift.dag_id for drift in find_drift()] == ["count"]


@pytest.mark.usefixtures("lamp")
def test_restored_table_lacks_what_the_runbook_turns_on() -> None:
    """Time to live is not restored: the runbook names the tables that have it."""
    table = f"{settings.current().table_prefix}Runs"
    _restore_copies([table])
    described = aws.client("dynamodb").describe_time_to_live(TableName=f"{_COPY}{table}")
    assert described["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED"
    expiring = {each.name for each in table_definitions("") if each.ttl_attribute}
    written = _RUNBOOK.read_text()
    assert f"for table in {' '.join(sorted(expiring))}; do" in written
    assert f"TABLES='{' '.join(sorted(each.__name__ for each in TABLES))}'" in written
