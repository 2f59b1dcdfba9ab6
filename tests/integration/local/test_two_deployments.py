"""Two deployments in one process: side by side, interleaved, and closed in any order."""

import os
from collections.abc import Iterator

import boto3
import pytest
from botocore.client import BaseClient
from pendulum import datetime

from lamplighter import DAG, Asset, SparkTask, clock, runtime
from lamplighter.errors import RefusedError
from lamplighter_local import LocalDeployment

ONE = datetime(2026, 1, 1)
OTHER = datetime(2030, 6, 1)


def hourly(dag_id: str = "hourly", *, outlet: str | None = None) -> DAG:
    """Return a DAG with a run every hour, which updates an asset."""
    with DAG(dag_id, schedule="@hourly", start_date=ONE, catchup=False) as dag:
        SparkTask("load", job="jobs:load", outlets=[Asset(outlet)] if outlet else [])
    return dag


def consumer(dag_id: str, asset: str) -> DAG:
    """Return a DAG that runs when an asset is updated."""
    with DAG(dag_id, schedule=[Asset(asset)]) as dag:
        SparkTask("use", job="jobs:use")
    return dag


@pytest.fixture
def two() -> Iterator[tuple[LocalDeployment, LocalDeployment]]:
    """Yield two open deployments whose clocks are years apart, with DAGs of the same names."""
    dags = [hourly(outlet="orders"), consumer("use", "orders")]
    with (
        LocalDeployment(dags, at=ONE, name="one") as one,
        LocalDeployment([hourly(), consumer("use", "orders")], at=OTHER, name="other") as other,
    ):
        yield one, other


def test_each_has_its_own_clock_bundle_and_runs(
    two: tuple[LocalDeployment, LocalDeployment],
) -> None:
    """What happens in one is not seen in the other, though DAGs have the same names."""
    one, other = two
    one.advance(hours=3)
    assert (one.now, other.now) == (ONE.add(hours=3), OTHER)
    assert (len(one.runs("hourly")), len(other.runs("hourly"))) == (3, 1)
    assert {run.state for run in one.runs("use")} == {"success"}
    other.push([hourly("daily")], name="more")
    assert [dag.dag_id for dag in one.dags()] == ["hourly", "use"]
    assert [dag.dag_id for dag in other.dags()] == ["daily", "hourly", "use"]


def test_interleaved_advances_give_the_same_histories_as_one_after_the_other() -> None:
    """Whoever takes turns with another one sees what it would see alone."""

    def history(lamp: LocalDeployment) -> object:
        return lamp.runs("hourly"), lamp.runs("use"), lamp.dag("hourly")

    def made(name: str) -> LocalDeployment:
        return LocalDeployment(
            [hourly(outlet="orders"), consumer("use", "orders")], at=ONE, name=name
        )

    with made("alone") as alone:
        for _ in range(4):
            alone.advance(minutes=40)
        expected = history(alone)
    with made("one") as one, made("other") as other:
        for _ in range(4):
            one.advance(minutes=40)
            other.advance(minutes=40)
        assert history(one) == history(other) == expected


def test_events_and_failures_reach_their_own_deployment(
    two: tuple[LocalDeployment, LocalDeployment],
) -> None:
    """An event, an outcome and a fault that one is given do nothing to the other."""
    one, other = two
    one.fail_next("use", "use")
    one.faults.duplicate("ingest")
    other.emit("orders", extra={"rows": 7})
    other.run_until_idle()
    other.advance(minutes=1)
    (run,) = other.runs("use")
    assert (run.state, run.events[0].extra) == ("success", {"rows": 7})
    assert one.runs("use") == []
    assert one.faults.pending == ["duplicate ingest"]
    one.emit("orders")
    one.run_until_idle()
    one.advance(minutes=1)
    assert [run.state for run in one.runs("use")] == ["failed"]
    assert one.faults.pending == []


def test_tables_queues_and_bucket_begin_with_the_name(
    two: tuple[LocalDeployment, LocalDeployment],
) -> None:
    """Both are in the same emulator, where everyone can see them."""
    names = boto3.client("dynamodb").list_tables()["TableNames"]
    assert {name.partition("-")[0] for name in names} == {"one", "other"}
    assert [lamp.table_name("Runs") for lamp in two] == ["one-Runs", "other-Runs"]
    assert {bucket["Name"] for bucket in boto3.client("s3").list_buckets()["Buckets"]} == {
        "one-bucket",
        "other-bucket",
    }
    assert two[1].queue_url("claims").endswith("/other-claims")


@pytest.mark.parametrize("is_first_closed_first", [True, False])
def test_closing_one_leaves_the_other_alone(*, is_first_closed_first: bool) -> None:
    """In whichever order they end, the other goes on, and nothing is left of both."""
    before = BaseClient._make_api_call, dict(os.environ), runtime.current()
    one = LocalDeployment([hourly()], at=ONE, name="one").__enter__()
    other = LocalDeployment([hourly()], at=OTHER, name="other").__enter__()
    ended, left = (one, other) if is_first_closed_first else (other, one)
    ended.close()
    with pytest.raises(RefusedError, match="not open"):
        ended.runs("hourly")
    begin = left.now
    left.advance(hours=2)
    assert len(left.runs("hourly")) >= 2
    assert clock.now() == begin.add(hours=2)
    left.check_invariants()
    again = LocalDeployment([hourly()], at=ONE, name=ended.name).__enter__()
    assert again.runs("hourly") == []
    left.close()
    again.advance(hours=1)
    again.close()
    assert (BaseClient._make_api_call, dict(os.environ), runtime.current()) == before


def test_same_name_twice_is_refused_until_the_first_is_closed() -> None:
    """The message says what to do, and the refused one may be opened afterwards."""
    second = LocalDeployment([hourly()], at=ONE)
    refused = pytest.raises(RefusedError, match=r"named 'local' is open .* another name=")
    with LocalDeployment(at=ONE), refused:
        second.__enter__()
    with second as lamp:
        assert [dag.dag_id for dag in lamp.dags()] == ["hourly"]


@pytest.mark.parametrize("name", ["", "A", "with space", "-x", "x" * 40, "ends-"])
def test_name_that_no_bucket_could_have_is_refused(name: str) -> None:
    """Names of resources begin with it."""
    with pytest.raises(RefusedError, match="lower-case letters"):
        LocalDeployment(at=ONE, name=name)


def test_settings_given_for_a_while_count_inside_methods() -> None:
    """A deployment whose runtime is current, with other settings, keeps those."""
    with LocalDeployment([hourly()], at=ONE) as lamp:
        assert runtime.current().name == "local"
        with runtime.using(settings=lamp.stack.settings) as changed, lamp.in_own_runtime():
            assert runtime.current() is changed
