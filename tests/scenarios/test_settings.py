"""Settings that differ from their defaults: what the functions do then, and what is refused."""

import json
from itertools import pairwise

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetWatcher, SparkTask, runtime
from lamplighter.errors import SettingsError
from lamplighter.runtime import Runtime
from lamplighter.store.models import Runs
from lamplighter.store.watchers import read_parked
from lamplighter.triggers import SqsTrigger
from lamplighter_local import handlers
from lamplighter_local.deployment import LocalDeployment

START = datetime(2026, 1, 1)


def always() -> DAG:
    """Return a DAG that runs without a pause."""
    with DAG("always", schedule="@continuous", start_date=START, max_active_runs=1) as dag:
        SparkTask("work", job="jobs:work")
    return dag


@pytest.mark.parametrize(("settings", "gap"), [({}, 30), ({"continuous_gap_seconds": 600}, 600)])
def test_gap_of_continuous_runs_is_that_of_the_settings(
    settings: dict[str, object], gap: int
) -> None:
    """`claim` leaves the time between two runs that the deployer has chosen."""
    with LocalDeployment([always()], at=START, settings=settings) as lamp:
        lamp.advance(seconds=6 * gap)
        ends = [end for run in lamp.runs("always") if (end := run.data_interval_end)]
    between = [(later - earlier).total_seconds() for earlier, later in pairwise(ends)]
    assert len(between) >= 3
    assert min(between) >= gap
    assert max(between) < gap + 60


@pytest.mark.parametrize(
    ("settings", "parked"), [({}, []), ({"watcher_events_per_minute": 2}, ["orders"])]
)
def test_watcher_is_parked_at_the_number_of_the_settings(
    settings: dict[str, object], parked: list[str]
) -> None:
    """`watch` parks a watcher that fires more often than the deployer wants."""
    orders = Asset("orders", watchers=[AssetWatcher("shop", SqsTrigger("shop-orders"))])
    with LocalDeployment([DAG("load", schedule=orders)], at=START, settings=settings) as lamp:
        for number in range(4):
            lamp.send("shop-orders", {"order": number})
        lamp.run_until_idle()
        assert [name.partition("/")[0] for name in read_parked()] == parked


def test_runs_are_kept_for_the_days_of_the_settings() -> None:
    """A run that is over expires when the deployer says so."""
    with LocalDeployment([always()], at=START, settings={"run_retention_days": "20"}) as lamp:
        lamp.advance(minutes=5)
        over = [row for row in Runs.scan(consistent_read=True) if row.ended_at is not None]
        assert over
        assert {(row.expires_at - row.ended_at).in_days() for row in over} == {20}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"watch_sesion_seconds": 30},
            "there is no setting 'watch_sesion_seconds'; did you mean watch_session_seconds?",
        ),
        ({"bucket": "mine"}, "there is no setting 'bucket'"),
        ({"due_shards": "many"}, "due_shards='many' must be a whole number between 1 and 256"),
        ({"due_shards": True}, "due_shards=True must be a whole number between 1 and 256"),
        ({"due_shards": 257}, "due_shards=257 must be a whole number between 1 and 256"),
        ({"executor": "glue"}, "executor='glue' must be emr-serverless"),
    ],
)
def test_deployment_with_settings_that_cannot_be_is_refused(
    settings: dict[str, object], says: str
) -> None:
    """The same names and limits count as for a stack, and the answer is one line."""
    with pytest.raises(SettingsError) as refused:
        LocalDeployment(at=START, settings=settings)
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"due_shard": 4}, "LAMPLIGHTER_SETTINGS: there is no setting 'due_shard'; did you mean"),
        (
            {"due_shards": "many"},
            "LAMPLIGHTER_SETTINGS.due_shards='many' must be a whole number between 1 and 256",
        ),
        (
            {"due_shards": 257},
            "LAMPLIGHTER_SETTINGS.due_shards=257 must be a whole number between 1 and 256",
        ),
    ],
)
@pytest.mark.parametrize("function", ["tick", "watch", "sweep"])
def test_function_with_settings_that_cannot_be_says_so(
    function: str, given: dict[str, object], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function whose environment was edited by hand does nothing, and its log names the edit."""
    monkeypatch.setenv("LAMPLIGHTER_SETTINGS", json.dumps(given))
    with runtime.activate(Runtime("lambda")), pytest.raises(SettingsError) as refused:
        handlers.call(function, {"time": "2026-01-01T00:00:00Z"})
    assert str(refused.value).startswith(says)
