"""References to assets: who waits for them, and from which event on."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask
from lamplighter.errors import RefusedError
from lamplighter.events import ingest
from lamplighter.identifiers import uri_id
from lamplighter.registry import assets, pushes
from lamplighter.registry import register as register_module
from lamplighter.registry.assets import register_assets
from lamplighter.registry.custom_timetables import query_definitions
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import RegisterReport
from lamplighter.scheduler.claim import ClaimReport
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.models.assets import ITSELF
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter_local.deliveries import deliver
from lamplighter_local.stack import LocalStack

Register = Callable[..., RegisterReport]

A, B, C = Asset("a", "s3://lake/a"), Asset("b", "s3://lake/b"), Asset("c", "s3://lake/c")


def waits_for(dag_id: str = "dag") -> dict[str, tuple[float, float]]:
    """Return how far each asset is that a DAG waits for, and how far the DAG with it."""
    rows = AssetQueue.query(dag_id, consistent_read=True)
    return {row.asset_id: (itself(row.asset_id).seq, row.consumed_seq) for row in rows}


def consumers(asset: str) -> list[str]:
    """Return the DAGs that an event of the asset would reach."""
    rows = Assets.query(asset, Assets.ref.startswith("dag#"), consistent_read=True)
    return [row.ref.removeprefix("dag#") for row in rows]


def itself(asset: str) -> Assets:
    """Return the row of an asset."""
    return Assets.get(asset, ITSELF, consistent_read=True)


def columns(row: Any, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def record_event(stack: LocalStack, asset: str) -> None:
    """Let an event of an asset be recorded by someone who does not hand it on."""
    stack.emit(asset)
    with patch.object(ingest, "fan_out", return_value=ClaimReport()):
        deliver(stack.settings.queue_url("events"), "ingest")


# What a condition waits for.


def test_condition_registers_assets_and_consumers(register_dags: Register) -> None:
    """Every asset of a condition has its row, its URI leads to it, and the DAG is a consumer."""
    register_dags(DAG("dag", schedule=(A & B)))
    assert waits_for() == {"a": (0, 0), "b": (0, 0)}
    assert consumers("a") == consumers("b") == ["dag"]
    row = itself("a")
    assert (row.kind, row.uri, row.seq, row.refs_rev) == ("asset", "s3://lake/a", 0, 1)
    (uri,) = [row for row in Assets.scan() if row.uri == "s3://lake/b" and row.kind == "uri"]
    assert uri.target == "b"


def test_outlets_and_inlets_have_rows(register_dags: Register) -> None:
    """What a task reads or produces is an asset too, and makes nobody a consumer."""
    dag = DAG("dag")
    SparkTask("task", entry_point="jobs/job.py", inlets=[A], outlets=[B, AssetAlias("x")], dag=dag)
    register_dags(dag)
    kinds = {row.asset_id: row.kind for row in Assets.scan() if row.kind != "uri"}
    assert kinds == {"a": "asset", "b": "asset", "alias:x": "alias"}
    assert (consumers("a"), consumers("b"), waits_for()) == ([], [], {})


def test_alias_and_names_are_told_apart(register_dags: Register, stack: LocalStack) -> None:
    """An alias has another row than an asset of its name, and a name alone means the asset."""
    register_dags(DAG("dag", schedule=(AssetAlias("a") | Asset.ref(name="a"))))
    assert stack.dag("dag").asset_condition == {"any": ["alias:a", "a"]}
    assert list(waits_for()) == ["a", "alias:a"]
    assert (itself("alias:a").kind, itself("a").kind) == ("alias", "asset")


def test_reference_by_uri_waits_for_the_uri(register_dags: Register, stack: LocalStack) -> None:
    """A URI is waited for as such, also if the same push says which asset has it."""
    producer = DAG("producer")
    SparkTask("task", entry_point="jobs/job.py", outlets=[A], dag=producer)
    register_dags(DAG("dag", schedule=[Asset.ref(uri="s3://lake/a/")]), producer)
    uri = uri_id("s3://lake/a")
    assert stack.dag("dag").asset_condition == {"all": [uri]}
    assert (consumers(uri), consumers("a")) == (["dag"], [])


def test_reference_by_uri_stays_when_its_asset_comes(
    register_dags: Register, stack: LocalStack
) -> None:
    """Whatever asset has the URI, and whenever it comes, the DAG's row is as it was."""
    dag = DAG("dag", schedule=[Asset.ref(uri="s3://lake/a")])
    register_dags(dag)
    stack.run_until_idle()
    before = stack.dag("dag")
    register_dags(DAG("x", schedule=[A]), bundle="other")
    register_dags(dag)
    after = stack.dag("dag")
    assert columns(after, "asset_condition", "asset_condition_met_at") == (
        before.asset_condition,
        None,
    )
    assert waits_for() == {uri_id("s3://lake/a"): (0, 0)}


def test_strange_names_get_readable_ids(register_dags: Register, stack: LocalStack) -> None:
    """A name that can be no key is a slug with a hash, the same in row and condition."""
    register_dags(DAG("dag", schedule=[Asset("Täglich / é", "x://y")]))
    (name,) = waits_for()
    assert stack.dag("dag").asset_condition == {"all": [name]}
    assert itself(name).name == "Täglich / é"


# Who waits for them.


def test_new_consumer_begins_with_the_next_event(
    register_dags: Register, stack: LocalStack
) -> None:
    """Events from before the reference do not count for it."""
    register_dags(DAG("first", schedule=[A]))
    record_event(stack, "a")
    record_event(stack, "a")
    register_dags(DAG("first", schedule=[A]), DAG("dag", schedule=[A]))
    assert waits_for() == {"a": (2, 2)}
    assert waits_for("first") == {"a": (2, 0)}
    assert itself("a").refs_rev == 2


def test_same_push_again_leaves_references(register_dags: Register, stack: LocalStack) -> None:
    """What a consumer has not consumed yet survives any number of pushes."""
    register_dags(DAG("dag", schedule=[A]))
    record_event(stack, "a")
    register_dags(DAG("dag", schedule=[A]))
    assert waits_for() == {"a": (1, 0)}
    assert itself("a").refs_rev == 1


def test_smaller_condition_is_looked_at(register_dags: Register, stack: LocalStack) -> None:
    """When A and B become A, what has come of A may be enough: the claim is told to look."""
    register_dags(DAG("dag", schedule=(A & B)))
    record_event(stack, "a")
    register_dags(DAG("dag", schedule=[A]))
    row = stack.dag("dag")
    assert (row.asset_condition_met_at, row.due_shard) == (stack.clock.now(), 0)
    assert (waits_for(), consumers("b")) == ({"a": (1, 0)}, [])
    assert itself("b").refs_rev == 2
    stack.run_until_idle()
    (run,) = stack.runs("dag")
    assert (run.run_type, run.events) == ("asset_triggered", {"a": [0, 1]})
    assert stack.dag("dag").asset_condition_met_at is None
    assert waits_for() == {"a": (1, 1)}


def test_condition_without_events_is_not_claimed(
    register_dags: Register, stack: LocalStack
) -> None:
    """A changed condition that does not hold is looked at once, and forgotten."""
    register_dags(DAG("dag", schedule=(A & B)))
    register_dags(DAG("dag", schedule=(A & C)))
    assert stack.dag("dag").asset_condition_met_at is not None
    stack.run_until_idle()
    assert columns(stack.dag("dag"), "asset_condition_met_at", "due_shard") == (None, None)
    assert stack.runs("dag") == []
    assert list(waits_for()) == ["a", "c"]


def test_new_dag_is_looked_at_once(register_dags: Register, stack: LocalStack) -> None:
    """A new DAG is sent to be claimed, finds nothing, and is forgotten until an event comes."""
    register_dags(DAG("dag", schedule=[A]))
    assert columns(stack.dag("dag"), "asset_condition_met_at", "due_shard") == (
        stack.clock.now(),
        0,
    )
    stack.run_until_idle()
    assert columns(stack.dag("dag"), "asset_condition_met_at", "due_shard") == (None, None)
    assert stack.runs("dag") == []


def test_event_before_the_row_of_a_new_dag_counts(
    register_dags: Register, stack: LocalStack
) -> None:
    """An event that comes between the reference and the DAG's row finds no DAG, and is not lost."""

    def emit(*arguments: Any, **named: Any) -> Any:
        stack.emit("a")
        deliver(stack.settings.queue_url("events"), "ingest")
        return query_definitions(*arguments, **named)

    with patch.object(register_module, "query_definitions", emit):
        register_dags(DAG("dag", schedule=[A]))
    assert columns(itself("a"), "seq", "open_shard") == (1, None)
    assert stack.runs("dag") == []
    stack.run_until_idle()
    assert [run.events for run in stack.runs("dag")] == [{"a": [0, 1]}]


def test_schedule_without_assets_drops_references(
    register_dags: Register, stack: LocalStack
) -> None:
    """A DAG that waits for time instead is nobody's consumer any more."""
    register_dags(DAG("dag", schedule=[A, B]), DAG("other", schedule=[A]))
    record_event(stack, "a")
    register_dags(DAG("dag", schedule=None), DAG("other", schedule=[A]))
    row = stack.dag("dag")
    assert columns(row, "asset_condition", "asset_condition_met_at") == (None, None)
    assert waits_for() == {}
    assert (consumers("a"), consumers("b")) == (["other"], [])
    assert waits_for("other") == {"a": (1, 0)}


def test_assets_beside_time_are_kept(register_dags: Register, stack: LocalStack) -> None:
    """Adding a timetable to the same assets changes nothing about them."""
    register_dags(DAG("dag", schedule=[A]))
    record_event(stack, "a")
    both = AssetOrTimeSchedule(timetable=CronTriggerTimetable("@daily", timezone="UTC"), assets=[A])
    register_dags(DAG("dag", schedule=both, catchup=False))
    assert (stack.dag("dag").asset_condition, waits_for()) == ({"all": ["a"]}, {"a": (1, 0)})


def test_120_consumers_come_in_one_push(register_dags: Register, stack: LocalStack) -> None:
    """More consumers than one transaction takes are all there, and so are their rows."""
    report = register_dags(*(DAG(f"dag{number}", schedule=[A]) for number in range(120)))
    assert len(report.new) == len(consumers("a")) == 120
    register_dags(*(DAG(f"dag{number}", schedule=[B]) for number in range(120)))
    assert (consumers("a"), len(consumers("b"))) == ([], 120)
    assert stack.dag("dag119").asset_condition == {"all": ["b"]}


def test_references_come_before_and_go_after(register_dags: Register, stack: LocalStack) -> None:
    """At the moment when the row is written, both the new and the old references are there."""
    register_dags(DAG("dag", schedule=[A]))
    seen: list[list[str]] = []

    def look(push: Push, writes: Any) -> None:
        if any(isinstance(write.row, Dags) for write in writes):
            seen.append(list(waits_for()))
        write_all(push, writes)

    write_all = pushes.write
    with patch.object(pushes, "write", look):
        register_dags(DAG("dag", schedule=[B]))
    assert seen == [["a", "b"]]
    assert list(waits_for()) == ["b"]
    assert stack.dag("dag").asset_condition == {"all": ["b"]}


def test_event_during_the_addition_is_not_missed(
    register_dags: Register, stack: LocalStack
) -> None:
    """An event that is recorded while a consumer is added does not count for it, wholly."""
    register_dags(DAG("first", schedule=[A]))
    is_first = True

    def overtaken(push: Push, writes: Any) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            record_event(stack, "a")
        write_all(push, writes)

    write_all = pushes.write
    with patch.object(pushes, "write", overtaken):
        register_dags(DAG("first", schedule=[A]), DAG("dag", schedule=[A]))
    assert waits_for() == {"a": (1, 1)}
    assert itself("a").seq == 1


def test_crash_before_the_removal_is_made_up_for(register_dags: Register) -> None:
    """A registration that died before it dropped old references drops them when repeated."""
    register_dags(DAG("dag", schedule=[A, B]))
    with (
        patch.object(assets, "drop_consumers", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        register_dags(DAG("dag", schedule=[B]))
    assert list(waits_for()) == ["a", "b"]

    register_dags(DAG("dag", schedule=[B]))

    assert list(waits_for()) == ["b"]
    assert consumers("a") == []


def test_overtaken_push_leaves_the_newer_asset(register_dags: Register) -> None:
    """What an older push says about an asset is not written once a newer one has begun."""
    register_dags(DAG("dag", schedule=[Asset("a", "s3://new/a", extra={"k": 2})]))
    old = DAG("dag", schedule=[Asset("a", "s3://old/a", extra={"k": 1})])

    with pytest.raises(RefusedError):
        register_assets([old], Push("bundle", "0" * 64, 0))

    assert (itself("a").uri, itself("a").extra) == ("s3://new/a", {"k": 2})
