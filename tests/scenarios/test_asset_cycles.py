"""A cycle of assets through two bundles, and a rate that no definition shows."""

from contextlib import suppress
from dataclasses import replace

import pytest

from lamplighter import DAG, Asset, SparkTask
from lamplighter.registry.import_problems import all_problems
from lamplighter.store.rows import connection
from lamplighter_local.stack import LocalStack
from tests.scenarios.acts import register, send, taken
from tests.tools.faults import Crash, Faults, Kind
from tests.tools.invariants.tables import require_sound

X, Y = Asset("x"), Asset("y")


def between(dag_id: str, takes: Asset, gives: Asset) -> DAG:
    """Return a DAG that updates one asset for each event of another."""
    with DAG(dag_id, schedule=takes) as dag:
        SparkTask("t", job="jobs.x:main", outlets=[gives])
    return dag


def test_push_that_closes_a_cycle_through_another_bundle_is_an_import_error(
    stack: LocalStack,
) -> None:
    """The function finds it with the permissions that it has; the other bundle goes on."""
    stack.push_dags([between("theirs", X, Y)], bundle="theirs")
    stack.push_dags([between("mine", Y, X), DAG("beside")], bundle="mine")
    (problem,) = all_problems()
    assert "mine -> x -> theirs -> y -> mine" in problem["message"]
    assert (problem["bundle"], problem["severity"]) == ("mine", "error")
    send(stack, "x")
    assert len(stack.runs("theirs")) == 1
    assert stack.dag("beside").bundle == "mine"
    require_sound()


@pytest.mark.parametrize("kind", ["crash-before", "crash-after", "lost-answer", "throttle"])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_claim_that_fails_at_the_limit_counts_each_run_once(
    stack: LocalStack, kind: Kind, call: int
) -> None:
    """Count, run and consumed events change together, whatever goes wrong between the calls."""
    stack.settings = replace(stack.settings, asset_runs_per_hour=3)
    register(stack, DAG("dag", schedule=X))
    for created in (1, 2, 3, 3):
        faults = Faults()
        faults.at(call, kind, "TransactWriteItems")
        with faults.on(connection().client), suppress(Crash):
            send(stack, "x")
        stack.advance(minutes=6)
        assert stack.dag("dag").asset_runs_in_hour == len(stack.runs("dag")) == created
    assert stack.dag("dag").is_paused
    assert taken(stack) == [{"x": [number, number + 1]} for number in range(3)]
    require_sound()
