"""From an event to its runs and back, also when some of it is gone."""

from datetime import timedelta

import pytest

from lamplighter import DAG, Asset, AssetAlias, clock
from lamplighter.errors import TransientError
from lamplighter.events.lineage import trace_event, triggering_asset_events
from lamplighter.store.models import AssetEvents, Runs
from lamplighter_local.stack import LocalStack
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run

A, B = Asset("a", "s3://lake/a"), Asset("b")


def ids_of(run: Runs) -> dict[str, list[str]]:
    """Return the ids of a run's events, by asset."""
    events = triggering_asset_events(run).events
    return {asset: [event["event_id"] for event in some] for asset, some in events.items()}


def emit(stack: LocalStack, asset: str, *event_ids: str, **fields: object) -> None:
    """Push events one after the other, a second apart."""
    for event_id in event_ids:
        stack.emit(asset, event_id=event_id, **fields)
        stack.run_until_idle()
        stack.clock.advance(timedelta(seconds=1))


def test_run_lists_exactly_its_events(stack: LocalStack) -> None:
    """Those of the run before and of the run after are not among them."""
    register_dags(DAG("dag", schedule=[A], max_active_runs=1))
    for round_ in ("x", "y"):
        emit(stack, "a", *(f"{round_}{number}" for number in range(3)))
    (first,) = stack.runs("dag")
    assert ids_of(first) == {"a": ["x0"]}
    finish_run("dag", first.run_key, state="success")
    stack.run_until_idle()
    _, second = stack.runs("dag")
    assert ids_of(second) == {"a": ["x1", "x2", "y0", "y1", "y2"]}


def test_event_through_an_alias_is_listed_once(stack: LocalStack) -> None:
    """It stands under its asset, whichever name the DAG waited for."""
    alias = AssetAlias("fresh")
    register_dags(DAG("dag", schedule=(A & alias)), DAG("only", schedule=alias))
    emit(stack, "a", "e1", aliases=["fresh"], extra={"rows": 1})
    for dag_id in ("dag", "only"):
        (run,) = stack.runs(dag_id)
        assert ids_of(run) == {"a": ["e1"]}
    (found,) = trace_event("e1")
    assert {(status.dag_id, status.state) for status in found.consumers} == {
        ("dag", "consumed"),
        ("only", "consumed"),
    }


def test_uri_that_no_asset_has_is_named_by_itself(stack: LocalStack) -> None:
    """A DAG may wait for it before any bundle defines the asset."""
    register_dags(DAG("dag", schedule=Asset.ref(uri="s3://lake/none")))
    stack.run_until_idle()
    stack.emit(uri="s3://lake/none", event_id="e1")
    stack.run_until_idle()
    (run,) = stack.runs("dag")
    assert ids_of(run) == {"s3://lake/none": ["e1"]}


def test_expired_events_are_counted(stack: LocalStack) -> None:
    """An AND that was met after its first half had expired has its run, and says what is gone."""
    register_dags(DAG("dag", schedule=(A & B)))
    emit(stack, "a", "old", "new")
    AssetEvents("a", "old").delete()  # as DynamoDB does some time after `expires_at`
    emit(stack, "b", "late")
    (run,) = stack.runs("dag")
    assert run.events == {"a": [0, 2], "b": [0, 1]}
    stack.clock.advance(timedelta(minutes=2))
    found = triggering_asset_events(run)
    assert dict(found.expired) == {"a": 1}
    assert ids_of(run) == {"a": ["new"], "b": ["late"]}


def test_index_that_lags_is_asked_again(stack: LocalStack) -> None:
    """Right after the run was created, an event that is not listed is not taken for expired."""
    register_dags(DAG("dag", schedule=[A]))
    emit(stack, "a", "e1")
    (run,) = stack.runs("dag")
    AssetEvents("a", "e1").delete()
    with pytest.raises(TransientError, match="cannot be listed yet"):
        triggering_asset_events(run)


def test_consumer_is_found_long_after_the_event(stack: LocalStack) -> None:
    """Also among other runs, in the same second and later ones."""
    register_dags(DAG("dag", schedule=(A & B), max_active_runs=500))
    emit(stack, "a", "first")
    stack.advance(days=3)
    emit(stack, "b", "second")
    for number in range(5):
        emit(stack, "a", f"a{number}")
        emit(stack, "b", f"b{number}")
    runs = stack.runs("dag")
    assert len(runs) == 6
    for event_id in ("first", "second"):
        (found,) = trace_event(event_id)
        assert [status.run_id for status in found.consumers] == [runs[0].run_id]


def test_forgotten_run_is_not_invented(stack: LocalStack) -> None:
    """Runs expire too; that the event was consumed is still known."""
    register_dags(DAG("dag", schedule=[A]))
    emit(stack, "a", "e1")
    stack.runs("dag")[0].delete()
    (found,) = trace_event("e1")
    (status,) = found.consumers
    assert (status.state, status.reason) == ("consumed", "by a run that is no longer kept")


def test_run_is_found_though_a_clock_went_back(stack: LocalStack) -> None:
    """Two machines differ: the later event was recorded at an earlier time, and names the run."""
    register_dags(DAG("dag", schedule=(A & B)))
    stack.run_until_idle()
    stack.emit("b")
    stack.emit("a", event_id="ahead")
    with clock.at(stack.clock.now().add(seconds=90)):
        stack.run_until_idle()
    (first,) = stack.runs("dag")
    finish_run("dag", first.run_key, state="success")
    stack.emit("b")
    stack.emit("a", event_id="behind")
    stack.run_until_idle()
    assert [run.run_after for run in stack.runs("dag")] == [first.run_after] * 2
    for event_id in ("ahead", "behind"):
        (found,) = trace_event(event_id)
        assert [status.state for status in found.consumers] == ["consumed"]
        assert all(status.run_id for status in found.consumers)
