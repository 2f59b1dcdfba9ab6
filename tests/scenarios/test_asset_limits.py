"""Asset events beside other runs: when all slots are taken, and when times are due as well."""

from unittest.mock import patch

from pendulum import datetime

from lamplighter import DAG, Asset
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter_local.stack import LocalStack
from lamplighter_operations.trigger import create_manual_run
from tests.scenarios.acts import finish_one, register, send, taken
from tests.tools.definitions import register_dags
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

A, B = Asset("a"), Asset("b")
NINE = datetime(2026, 1, 5, 9)  # three hours before the deployment's noon


# Slots.


def test_four_events_during_the_only_run_all_count(stack: LocalStack) -> None:
    """Nothing is lost at the limit: the next run takes all four, and then there is no more."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    send(stack, "a", "a", "a", "a", "a")
    assert taken(stack) == [{"a": [0, 1]}]
    require_sound()
    for _ in range(2):
        finish_one(stack)
    stack.advance(minutes=10)
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 5]}]
    assert stack.dag("dag").asset_condition_met_at is None
    require_sound()


def test_manual_run_occupies_the_slot(stack: LocalStack) -> None:
    """The limit counts runs of every type; the events wait for the slot."""
    register(stack, DAG("dag", schedule=(A & B), max_active_runs=1))
    create_manual_run("dag", logical_date=None)
    send(stack, "a", "b")
    assert len(stack.runs("dag")) == 1
    assert finish_one(stack) == "manual"
    assert taken(stack) == [{}, {"a": [0, 1], "b": [0, 1]}]
    require_sound()


def test_manual_run_that_waited_longer_comes_first(stack: LocalStack) -> None:
    """Whoever has waited longest for the one slot gets it."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    send(stack, "a")
    stack.advance(seconds=1)
    create_manual_run("dag", logical_date=None)
    send(stack, "a")
    order = [finish_one(stack) for _ in range(3)]
    assert order == ["asset_triggered", "manual", "asset_triggered"]
    require_sound()


def test_raised_limit_lets_waiting_events_run(stack: LocalStack) -> None:
    """A push that raises the limit is enough; no further event is needed."""
    register(stack, DAG("dag", schedule=A, max_active_runs=1))
    send(stack, "a", "a")
    register(stack, DAG("dag", schedule=A, max_active_runs=2))
    assert taken(stack) == [{"a": [0, 1]}, {"a": [1, 2]}]
    require_sound()


def test_failed_run_does_not_give_its_events_back(stack: LocalStack) -> None:
    """Events are consumed by the run that was created, whatever becomes of it."""
    register(stack, DAG("dag", schedule=A))
    send(stack, "a")
    finish_run("dag", stack.runs("dag")[0].run_key, state="failed")
    stack.advance(minutes=10)
    assert taken(stack) == [{"a": [0, 1]}]
    require_sound()


# Beside time.


def either(*, limit: int = 16) -> DAG:
    """Return a DAG that runs each hour and whenever there is an event of `a`."""
    schedule = AssetOrTimeSchedule(
        timetable=CronDataIntervalTimetable("0 * * * *", "UTC"), assets=A
    )
    return DAG("dag", schedule=schedule, start_date=NINE, max_active_runs=limit)


def test_asset_or_time_fires_on_both(stack: LocalStack) -> None:
    """An event makes a run of its own, and the hours go on as if there had been none."""
    register(stack, either())
    stack.advance(to=datetime(2026, 1, 5, 12, 30))
    send(stack, "a")
    stack.advance(to=datetime(2026, 1, 5, 13, 0, 30))
    runs = sorted(stack.runs("dag"), key=lambda run: run.run_after)
    assert [(run.run_type, run.run_after.hour, run.run_after.minute) for run in runs] == [
        ("scheduled", 10, 0),
        ("scheduled", 11, 0),
        ("scheduled", 12, 0),
        ("asset_triggered", 12, 30),
        ("scheduled", 13, 0),
    ]
    require_sound()


def test_event_and_older_hours_take_turns(stack: LocalStack) -> None:
    """With one slot, an event that finds a backlog is second, whatever the backlog's length."""
    register(stack, either(limit=1))
    send(stack, "a")
    stack.advance(to=datetime(2026, 1, 5, 14, 0, 30))
    order = [finish_one(stack) for _ in range(6)]
    assert order == ["scheduled", "asset_triggered"] + ["scheduled"] * 4
    require_sound()


def test_stream_of_events_does_not_hold_up_the_hours(stack: LocalStack) -> None:
    """Events that keep the one slot busy let a due hour have its turn, and get theirs."""
    register(stack, either(limit=1))
    order = [finish_one(stack) for _ in range(3)]
    send(stack, "a")
    stack.advance(to=datetime(2026, 1, 5, 13, 0, 30))
    for _ in range(4):
        send(stack, "a")
        order.append(finish_one(stack))
    assert order[3:] == ["asset_triggered", "scheduled", "asset_triggered", "asset_triggered"]
    assert len(stack.runs("dag")) == 8
    require_sound()


def test_overdue_times_and_ready_assets_do_not_wait_for_one_another(stack: LocalStack) -> None:
    """A hundred missed times and ten events: the events fire at once, one tick claims the rest."""
    timed = [
        DAG(f"timed-{at}", schedule="0 * * * *", start_date=NINE, catchup=False)
        for at in range(100)
    ]
    ready = [DAG(f"ready-{at}", schedule=Asset(f"asset-{at}")) for at in range(10)]
    register_dags(*timed, *ready)
    stack.clock.move(to=stack.clock.now().add(hours=2))
    for at in range(10):
        stack.emit(f"asset-{at}")
    with patch.object(stack, "_sources", lambda: [(stack.settings.queue_url("events"), "ingest")]):
        stack.run_until_idle()
    assert [len(stack.runs(dag.dag_id)) for dag in ready] == [1] * 10
    assert [len(stack.runs(dag.dag_id)) for dag in timed] == [0] * 100
    assert stack.tick()["claimed_runs"] == 100
    require_sound()
