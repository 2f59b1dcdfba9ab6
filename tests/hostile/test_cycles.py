"""DAGs that trigger themselves without end: in a bundle, across bundles, or by their rate."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pendulum import datetime

from lamplighter import DAG, Asset, AssetAlias, SparkTask
from lamplighter.assets import AssetRef
from lamplighter.bundles.importer import ParsedFile
from lamplighter.bundles.parsing import combine
from lamplighter.registry.definition import without_refused
from lamplighter.registry.register import RegisterReport
from lamplighter.store.models import DagVersions
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter_local.dag_objects import parsed_dag
from lamplighter_local.stack import LocalStack, local_stack
from lamplighter_operations.pause import pause, unpause
from tests.scenarios.acts import consumer, register, send, taken
from tests.tools.call_counter import counted_calls
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

NOON = datetime(2026, 1, 5, 12)
X, Y, Z = Asset("x"), Asset("y"), Asset("z")
LAKE = Asset("lake", "s3://lake/orders")


@pytest.fixture
def stack() -> Iterator[LocalStack]:
    """Yield a deployment at noon."""
    with local_stack(at=NOON) as made:
        yield made


def dag(
    dag_id: str,
    takes: Asset | AssetRef | AssetAlias | None,
    *gives: Asset | AssetAlias,
    allow_cycle: bool = False,
) -> DAG:
    """Return a DAG between assets."""
    with DAG(dag_id, schedule=takes, allow_cycle=allow_cycle) as made:
        SparkTask("t", job="jobs.x:main", outlets=list(gives))
    return made


def checked(*dags: DAG) -> list[str]:
    """Return what `check` and `push` say about a bundle before it leaves the author's machine."""
    found = [parsed_dag(each) for each in dags]
    return [
        problem.message
        for problem in without_refused(combine([ParsedFile("dags/a.py", dags=found)])).errors
    ]


def refused(report: RegisterReport) -> list[str]:
    """Return what a registration refused."""
    return [problem.message for problem in report.errors]


# Within a bundle.

CYCLES = {
    "itself": ([dag("a", X, X)], {"a -> x -> a"}),
    "two": ([dag("a", X, Y), dag("b", Y, X)], {"a -> y -> b -> x -> a", "b -> x -> a -> y -> b"}),
    "three": (
        [dag("a", X, Y), dag("b", Y, Z), dag("c", Z, X), dag("d", X)],
        {
            "a -> y -> b -> z -> c -> x -> a",
            "b -> z -> c -> x -> a -> y -> b",
            "c -> x -> a -> y -> b -> z -> c",
        },
    ),
    "one of several outlets": ([dag("a", X, Y, Z, X)], {"a -> x -> a"}),
    "alias": ([dag("a", AssetAlias("n"), AssetAlias("n"))], {"a -> n -> a"}),
    "by name": ([dag("a", Asset.ref(name="lake"), LAKE)], {"a -> lake -> a"}),
    "by URI": (
        [dag("a", Asset.ref(uri="s3://lake/orders"), LAKE)],
        {"a -> lake -> s3://lake/orders -> a"},
    ),
}


@pytest.mark.parametrize(("dags", "cycles"), CYCLES.values(), ids=CYCLES)
def test_cycle_in_a_bundle_is_refused_by_name(
    stack: LocalStack, dags: list[DAG], cycles: set[str]
) -> None:
    """Each DAG of it is refused, by `check` and by a registration that nobody checked before."""
    for found in (checked(*dags), refused(register_dags(*dags))):
        assert {text.split("without end: ")[1].split(".")[0] for text in found} == cycles
        assert all("allow_cycle=True" in text for text in found)
    assert all(stack.runs(each.dag_id) == [] for each in dags)


def test_condition_within_a_mixed_schedule_closes_a_cycle() -> None:
    """Only the asset's part of it triggers, and that is enough."""
    with DAG(
        "a",
        schedule=AssetOrTimeSchedule(
            timetable=CronDataIntervalTimetable("@daily", "UTC"), assets=X | Y
        ),
        start_date=NOON,
    ) as made:
        SparkTask("t", job="jobs.x:main", outlets=[Y])
    assert "a -> y -> a" in checked(made)[0]


@pytest.mark.parametrize(
    "dags",
    [
        [dag("a", X, X, allow_cycle=True)],
        [dag("a", X, Y, allow_cycle=True), dag("b", Y, X)],
        [dag("a", X, Y), dag("b", Y, X, allow_cycle=True)],
        [dag("a", X, Y), dag("b", X, Y), dag("c", Y, Z)],
        [dag("a", None, X), dag("b", X, Y), dag("c", X, Y)],
        [dag("x", Y, X)],  # a DAG and an asset with one name
    ],
)
def test_no_cycle_or_one_that_is_allowed_is_registered(stack: LocalStack, dags: list[DAG]) -> None:
    """One DAG of a cycle is enough to say that it ends."""
    assert checked(*dags) == []
    assert sorted(register_dags(*dags).new) == sorted(each.dag_id for each in dags)


def test_allowed_cycle_does_not_allow_another_one() -> None:
    """A cycle without the DAG that allows its own is refused all the same."""
    found = checked(dag("a", X, Y, allow_cycle=True), dag("b", Y, X), dag("c", Y, Y))
    assert [text.split("without end: ")[1].split(".")[0] for text in found] == ["c -> y -> c"]


def test_cycle_leaves_the_other_dags_of_its_push_alone(stack: LocalStack) -> None:
    """The refused DAGs are broken, with the reason; what is beside them is registered."""
    register(stack, dag("a", X), dag("good", Z))
    report = register_dags(dag("a", X, X), dag("good", Z))
    assert (report.broken, report.unchanged) == (["a"], 1)
    stack.run_until_idle()
    send(stack, "x", "z")
    assert (stack.runs("a"), len(stack.runs("good"))) == ([], 1)
    register(stack, dag("a", X), dag("good", Z))
    assert taken(stack, "a") == [{"x": [0, 1]}]
    require_sound()


# Across bundles.


def test_cycle_through_another_bundle_is_refused_in_the_push_that_closes_it(
    stack: LocalStack,
) -> None:
    """The other bundle's DAG goes on: it did nothing."""
    register(stack, dag("theirs", X, Y), bundle="theirs")
    report = register_dags(dag("mine", Y, X), dag("good", Y), bundle="mine")
    assert "mine -> x -> theirs -> y -> mine" in refused(report)[0]
    assert report.new == ["good"]
    stack.run_until_idle()
    send(stack, "x")
    assert len(stack.runs("theirs")) == 1
    assert refused(register_dags(dag("theirs", X, Y), bundle="theirs")) == []
    require_sound()


def test_cycle_through_many_bundles_is_followed(stack: LocalStack) -> None:
    """However many are between, and whatever their order."""
    assets = [Asset(f"n{number}") for number in range(6)]
    for number in (3, 1, 0, 2, 4):
        register(stack, dag(f"d{number}", assets[number], assets[number + 1]), bundle=f"b{number}")
    report = register_dags(dag("d5", assets[5], assets[0]), bundle="b5")
    assert (
        "d5 -> n0 -> d0 -> n1 -> d1 -> n2 -> d2 -> n3 -> d3 -> n4 -> d4 -> n5 -> d5"
        in refused(report)[0]
    )


def test_cycle_through_the_uri_of_another_bundles_asset_is_found(stack: LocalStack) -> None:
    """Their asset has the URI that mine waits for; its name is all that the outlet says."""
    register(stack, dag("theirs", X, Asset("lake")), dag("names", None, LAKE), bundle="theirs")
    report = register_dags(dag("mine", Asset.ref(uri="s3://lake/orders"), X), bundle="mine")
    assert "mine -> x -> theirs -> lake -> s3://lake/orders -> mine" in refused(report)[0]


@pytest.mark.parametrize("mine", [False, True])
def test_cycle_across_bundles_that_either_side_allows_is_registered(
    stack: LocalStack, mine: bool
) -> None:
    """It is enough that one of the two says so."""
    register(stack, dag("theirs", X, Y, allow_cycle=not mine), bundle="theirs")
    report = register_dags(dag("mine", Y, X, allow_cycle=mine), bundle="mine")
    assert (report.new, refused(report)) == (["mine"], [])


def test_dag_that_left_closes_no_cycle(stack: LocalStack) -> None:
    """A DAG that its bundle no longer has triggers nothing."""
    register(stack, dag("theirs", X, Y), bundle="theirs")
    register(stack, dag("other", Z), bundle="theirs")
    assert refused(register_dags(dag("mine", Y, X), bundle="mine")) == []


def test_own_dag_that_this_push_mends_closes_no_cycle(stack: LocalStack) -> None:
    """What counts is what the push says, not what the bundle had before."""
    register(stack, dag("a", X, Y), bundle="mine")
    assert refused(register_dags(dag("a", X, Z), dag("b", Y, X), bundle="mine")) == []


@pytest.mark.parametrize("document", ["no JSON", '{"schema": 99}', "{}"])
def test_damaged_document_of_another_bundle_stops_no_push(stack: LocalStack, document: str) -> None:
    """Nobody can keep others from pushing by what is in their own rows."""
    register(stack, dag("theirs", X, Y), dag("sound", X, Z), bundle="theirs")
    version = DagVersions.get("theirs", "000001")
    version.document = document
    version.save()
    report = register_dags(dag("mine", Y, X), dag("closing", Z, X), bundle="mine")
    assert (report.new, len(refused(report))) == (["mine"], 1)


def test_search_for_cycles_reads_what_is_downstream_and_no_more(stack: LocalStack) -> None:
    """The calls do not grow with the deployment, nor with the push's DAGs that nobody consumes."""
    many = [dag(f"c{number}", Asset(f"a{number}"), Asset(f"b{number}")) for number in range(60)]
    register(stack, *many, bundle="many")
    mine = [dag(f"m{number}", Y, Asset(f"o{number}")) for number in range(60)]
    register(stack, *mine, bundle="mine")
    with counted_calls() as calls:
        register_dags(*mine, bundle="mine")
    alone = calls.total()
    register(
        stack, *(consumer(Asset(f"o{number}"), f"t{number}") for number in range(3)), bundle="three"
    )
    with counted_calls() as calls:
        register_dags(*mine, bundle="mine")
    # For each consumed asset its consumers; and once the rows and the documents of those.
    assert calls.total() <= alone + 3 + 2 + 1


def test_search_for_cycles_of_dags_without_conditions_reads_nothing(stack: LocalStack) -> None:
    """A DAG that waits for nothing is in no cycle."""
    register(stack, consumer(X, "theirs"), bundle="theirs")
    with counted_calls() as calls:
        register_dags(dag("mine", None, X), bundle="mine")
    with counted_calls() as without:
        register_dags(dag("mine", None, X), bundle="mine")
    assert calls["Query"] == without["Query"]


# By its rate: what no definition shows, such as an alias, or a producer that answers each run.


def busy(stack: LocalStack, per_hour: int) -> None:
    """Let a DAG have so many asset-triggered runs within an hour and no more."""
    stack.settings = replace(stack.settings, asset_runs_per_hour=per_hour)
    register(stack, DAG("dag", schedule=X, max_active_runs=500), consumer(X, "other"))


def test_dag_that_triggers_itself_is_paused_at_its_limit(stack: LocalStack) -> None:
    """It has the runs of its limit, then the reason; every event is still there."""
    busy(stack, 5)
    send(stack, *["x"] * 8)
    row = stack.dag("dag")
    assert (len(stack.runs("dag")), row.is_paused) == (5, True)
    assert row.pause_reason.startswith("5 asset-triggered runs within an hour")
    assert stack.dag("other").is_paused is True
    stack.advance(hours=2)
    assert len(stack.runs("dag")) == 5
    require_sound()
    unpause("dag")
    stack.run_until_idle()
    assert taken(stack)[-1] == {"x": [5, 8]}
    assert stack.dag("dag").pause_reason is None
    assert stack.dag("dag").is_paused is False
    require_sound()


def test_unpaused_dag_has_a_whole_hour_again(stack: LocalStack) -> None:
    """Whoever unpauses it has looked: it is not paused again at once."""
    busy(stack, 2)
    send(stack, "x", "x", "x")
    unpause("dag")
    stack.run_until_idle()
    send(stack, "x")
    assert (len(stack.runs("dag")), stack.dag("dag").is_paused) == (4, False)
    send(stack, "x")
    assert stack.dag("dag").is_paused is True
    require_sound()


def test_dag_below_its_limit_is_never_paused(stack: LocalStack) -> None:
    """The limit is of one hour: the next one begins with nothing."""
    busy(stack, 2)
    for _ in range(4):
        send(stack, "x", "x")
        stack.advance(hours=1)
    assert (len(stack.runs("dag")), stack.dag("dag").is_paused) == (8, False)
    require_sound()


def test_other_runs_do_not_count_as_triggered_by_assets(stack: LocalStack) -> None:
    """The schedule's own runs are as many as they are."""
    stack.settings = replace(stack.settings, asset_runs_per_hour=1)
    every_minute = AssetOrTimeSchedule(
        timetable=CronDataIntervalTimetable("* * * * *", "UTC"), assets=X
    )
    register(stack, DAG("dag", schedule=every_minute, start_date=NOON, max_active_runs=500))
    stack.advance(minutes=20)
    send(stack, "x")
    assert (stack.dag("dag").is_paused, len(stack.runs("dag"))) == (False, 21)


def test_limit_is_not_reached_while_no_slot_is_free(stack: LocalStack) -> None:
    """A DAG that could not have another run anyway is not paused for wanting one."""
    stack.settings = replace(stack.settings, asset_runs_per_hour=1)
    register(stack, DAG("dag", schedule=X, max_active_runs=1))
    send(stack, "x", "x")
    assert stack.dag("dag").is_paused is False
    finish_run("dag", stack.runs("dag")[0].run_key, state="success")
    stack.run_until_idle()
    assert stack.dag("dag").is_paused is True
    require_sound()


def test_pause_of_a_person_keeps_the_count(stack: LocalStack) -> None:
    """Only an unpause begins anew."""
    busy(stack, 3)
    send(stack, "x")
    assert pause("dag").asset_runs_in_hour == 1
