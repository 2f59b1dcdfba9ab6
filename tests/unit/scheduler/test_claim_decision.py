"""What a claim does with one DAG, as tables on plain rows: nothing is read, written or emulated.

The DAG runs hourly. Runs are named by the hour of their logical date: run 9 covers nine to ten and
is due at ten. Unless a row says otherwise, run 9 comes next and it is half past twelve, so that
runs 9, 10 and 11 are due.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from pendulum import DateTime, datetime

from lamplighter.scheduler import cursor
from lamplighter.scheduler.asset_bounds import set_asset_start
from lamplighter.scheduler.claim_decision import (
    BACKING_OFF,
    ClaimDecision,
    Skipped,
    decide_claim,
    key_of,
    step_over,
)
from lamplighter.scheduler.pending import Pending, PendingEvents
from lamplighter.scheduler.schedules import own_schedule
from lamplighter.store.models import AssetQueue, Assets, Dags
from lamplighter.store.slots import run_of, waiting_entry
from lamplighter.store.transactions import Change, Check, Put, Update
from lamplighter.timetables.base import DagRunInfo, encode_timetable
from lamplighter.timetables.interval import CronDataIntervalTimetable


def at(hour: int, minute: int = 0) -> DateTime:
    """Return an instant of the day."""
    return datetime(2026, 1, 5, hour, minute)


NOW = at(12, 30)
DUE = [9, 10, 11]


def cron(expression: str) -> str:
    """Return a timetable as a row has it."""
    return json.dumps(encode_timetable(CronDataIntervalTimetable(expression, "UTC")))


def dag(**columns: Any) -> Dags:
    """Return the row of the DAG as it was read."""
    row = Dags(
        "dag",
        rev=1,
        bundle="bundle",
        bundle_version="1",
        source_key="dags/a.py#dag",
        push=1,
        version="000001",
        hash="hash",
        schedule="0 * * * *",
        timetable=cron("0 * * * *"),
        catchup=True,
        max_active_runs=16,
    )
    cursor.set_next(row, DagRunInfo.interval(at(9), at(10)))
    row.attribute_values.update(columns)
    row.stored = dict(row.attribute_values)
    return row


NO_NEXT_RUN = dict.fromkeys(
    ("next_run", "next_run_after", "next_interval_start", "next_interval_end")
)


def key(hour: int) -> str:
    """Return the key of a run of the schedule."""
    return key_of(dag(), DagRunInfo.interval(at(hour), at(hour + 1)))


def waiting(*keys: str, since: DateTime = NOW) -> set[str]:
    """Return entries of runs that wait for a slot."""
    return {waiting_entry(since, each) for each in keys}


def pending(*assets: str, of: Iterable[str] = "ab") -> PendingEvents:
    """Return what is pending if `assets` have an event each, of all that the DAG waits for."""
    return recorded_events(dict.fromkeys(assets, at(12)), of=of)


def recorded_events(recorded: dict[str, DateTime], *, of: Iterable[str] = "ab") -> PendingEvents:
    """Return what is pending if assets have an event each, recorded at these instants."""
    events = {}
    for name, instant in recorded.items():
        row = AssetQueue("dag", name, since_seq=0, consumed_seq=0)
        row.stored = dict(row.attribute_values)
        events[name] = Pending(row, last_seq=1, recorded_at=instant)
    return PendingEvents(events, {name: Assets(name, "#", seq=1) for name in of})


class Outcome(NamedTuple):
    """What the claim creates, by logical hour or type; what it releases; what comes next."""

    runs: Sequence[int | str]
    released: Sequence[str] = []
    next_run_after: DateTime | None = at(13)


def outcome(decision: ClaimDecision | Skipped) -> Outcome | str:
    """Return a decision as the tables name it."""
    if isinstance(decision, Skipped):
        return decision.reason
    runs = [run.run_type if run.logical_date is None else run.logical_date.hour
            for run in decision.runs]  # fmt: skip
    released = [run_of(entry) for entry in decision.released]
    return Outcome(runs, released, decision.row.next_run_after)


def decide(row: Dags, *, now: DateTime = NOW, **arguments: Any) -> ClaimDecision | Skipped:
    """Decide about a row with the runs of its built-in timetable."""
    return decide_claim(row, cursor.timetable_runs(row), now=now, claim_id="claim", **arguments)


def made(row: Dags, **arguments: Any) -> ClaimDecision:
    """Return the decision about a row that gets something."""
    decision = decide(row, **arguments)
    assert isinstance(decision, ClaimDecision)
    return decision


def are_empty(row: Dags, *columns: str) -> bool:
    """Return whether a row has none of the columns."""
    return all(getattr(row, name) is None for name in columns)


# Times.


@pytest.mark.parametrize(
    ("columns", "arguments", "expected"),
    [
        pytest.param({}, {"now": at(9, 59)}, "not due", id="a minute early"),
        pytest.param({}, {"now": at(10)}, Outcome([9], next_run_after=at(11)), id="on time"),
        pytest.param({}, {}, Outcome(DUE), id="catchup creates all"),
        pytest.param({"catchup": False}, {}, Outcome([11]), id="without catchup the newest"),
        pytest.param(
            {"catchup": False, "catch_up_until": at(11)}, {},
            Outcome([9, 10], next_run_after=at(12)), id="made up for as far as someone asked",
        ),
        pytest.param(
            {"catchup": False, "catch_up_until": at(9)}, {}, Outcome([11]),
            id="what was asked for is over",
        ),
        pytest.param({"latest": at(10)}, {}, Outcome([9, 10], next_run_after=None),
                     id="the schedule ends"),
        pytest.param(NO_NEXT_RUN, {}, "not due", id="no next run"),
    ],
)  # fmt: skip
def test_due_times_become_runs(
    columns: dict[str, Any], arguments: dict[str, Any], expected: Outcome | str
) -> None:
    """Each time that has come becomes a run, once, and the schedule stands at the one after it."""
    assert outcome(decide(dag(**columns), **arguments)) == expected


@pytest.mark.parametrize(
    ("columns", "arguments", "expected"),
    [
        pytest.param({}, {"limit": 2}, Outcome([9, 10], next_run_after=at(12)),
                     id="no more than one transaction takes"),
        pytest.param({"max_active_runs": 1}, {},
                     Outcome([9], next_run_after=at(11)), id="one slot"),
        pytest.param({"max_active_runs": 2, "active": {"x"}}, {},
                     Outcome([9], next_run_after=at(11)), id="one of two slots taken"),
        pytest.param({"max_active_runs": 1, "active": {"x"}}, {}, "no free slot", id="full"),
        pytest.param({"max_active_runs": 1, "active": {"x", "y"}}, {}, "no free slot",
                     id="the limit was lowered"),
        pytest.param({"max_active_runs": 2, "waiting_for_past": {"x"}}, {},
                     Outcome([9], next_run_after=at(11)), id="a run waits for the one before"),
        pytest.param({"max_active_runs": 1, "waiting_for_past": {"x"}}, {}, "not due",
                     id="runs that wait for the one before hold up the schedule"),
        pytest.param({"max_active_runs": 1, "waiting_for_past": {"x"}, "waiting": waiting("m")}, {},
                     Outcome([], ["m"], next_run_after=at(10)), id="but not a run by hand"),
    ],
)  # fmt: skip
def test_limits_hold_runs_back(
    columns: dict[str, Any], arguments: dict[str, Any], expected: Outcome | str
) -> None:
    """No more runs become active than there are free slots; the schedule waits where it is."""
    assert outcome(decide(dag(**columns), **arguments)) == expected


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"is_paused": True}, "paused"),
        ({"is_stale": True}, "stale"),
        ({"has_import_errors": True}, "import errors"),
        ({"is_paused": True, "is_stale": True}, "paused"),
        ({"is_paused": True, "waiting": waiting("m")}, "paused"),
    ],
    ids=repr,
)
def test_closed_dag_gets_nothing(columns: dict[str, Any], reason: str) -> None:
    """A DAG that may have no runs is left as it is, and the report says why."""
    row = dag(**columns)
    assert outcome(decide(row)) == reason
    assert not row.is_changed


@pytest.mark.parametrize(
    ("failures", "failed_ago", "expected"),
    [
        pytest.param(2, timedelta(0), Outcome(DUE), id="two failures are nothing"),
        pytest.param(3, timedelta(seconds=59), BACKING_OFF, id="three"),
        pytest.param(3, timedelta(seconds=60), Outcome(DUE), id="three, a minute ago"),
        pytest.param(4, timedelta(seconds=119), BACKING_OFF, id="twice as long"),
        pytest.param(4, timedelta(seconds=120), Outcome(DUE), id="twice as long is over"),
        pytest.param(500, timedelta(seconds=899), BACKING_OFF, id="never longer than that"),
        pytest.param(500, timedelta(seconds=900), Outcome(DUE), id="the longest is over"),
    ],
)
def test_failed_claims_are_backed_off_from(
    failures: int, failed_ago: timedelta, expected: Outcome | str
) -> None:
    """A DAG that could not be claimed is left alone, longer each time; then all is forgotten."""
    row = dag(claim_failures=failures, claim_failed_at=NOW - failed_ago, claim_error="why")
    assert outcome(decide(row)) == expected
    assert are_empty(row, "claim_failures", "claim_failed_at", "claim_error") == (
        expected != BACKING_OFF
    )


def test_failures_are_forgotten_when_nothing_is_due() -> None:
    """A claim that had nothing to do has worked: the note is taken back all the same."""
    row = dag(claim_failures=1, claim_failed_at=at(9), claim_error="why")
    assert outcome(decide(row, now=at(9, 30))) == Outcome([], next_run_after=at(10))


# Taking turns.

ASSETS = "asset_triggered"
BOTH_WAIT = {"waiting": waiting("m", "n")}
ALL_WAIT = {**BOTH_WAIT, "asset_condition": {"any": ["a"]}, "asset_condition_met_at": at(10, 30)}


@pytest.mark.parametrize(
    ("slots", "served", "expected", "then_served"),
    [
        (1, "", ([], ["m"]), "manual"),
        (1, "manual", ([9], []), "manual scheduled"),
        (1, "manual scheduled", ([ASSETS], []), "asset_triggered manual scheduled"),
        (1, "asset_triggered manual scheduled", ([], ["m"]), "manual"),
        (1, "scheduled", ([], ["m"]), "manual scheduled"),
        (2, "scheduled", ([ASSETS], ["m"]), "asset_triggered manual scheduled"),
        (3, "", ([9, ASSETS], ["m"]), "asset_triggered manual scheduled"),
        (4, "", ([9, ASSETS], ["m", "n"]), "manual"),
        (5, "", ([9, 10, ASSETS], ["m", "n"]), "manual scheduled"),
        (16, "", ([9, 10, 11, ASSETS], ["m", "n"]), "scheduled"),
    ],
)
def test_free_slots_go_round(
    slots: int,
    served: str,
    expected: tuple[list[int | str], list[str]],
    then_served: str,
) -> None:
    """Runs by hand, times and assets get a slot in turn, however much of one kind there is."""
    row = dag(**ALL_WAIT, max_active_runs=slots, served_run_types=set(served.split()) or None)
    decision = made(row, pending=pending("a"))
    found = outcome(decision)
    assert isinstance(found, Outcome)
    assert (found.runs, found.released) == expected
    assert sorted(row.served_run_types or ()) == then_served.split()


@pytest.mark.parametrize(
    ("met_at", "first"), [(at(9, 59), ASSETS), (at(10, 1), 9)], ids=["assets", "schedule"]
)
def test_older_of_time_and_assets_goes_first(met_at: DateTime, first: int | str) -> None:
    """Of a time and a condition, whichever has waited longer gets the slot."""
    row = dag(max_active_runs=1, asset_condition="a", asset_condition_met_at=met_at)
    found = outcome(decide(row, pending=pending("a")))
    assert isinstance(found, Outcome)
    assert found.runs == [first]


def test_waiting_runs_are_released_by_logical_date() -> None:
    """Not in the order in which they were asked for; free ids by when they began to wait."""
    late, early = key(3), key(2)
    row = dag(
        **NO_NEXT_RUN,
        waiting={*waiting(late, since=at(8)), *waiting(early, since=at(9))},
        max_active_runs=1,
    )
    assert outcome(decide(row)) == Outcome([], [early], next_run_after=None)
    assert (row.active, row.waiting) == ({early}, waiting(late, since=at(8)))


def test_claimed_runs_occupy_slots() -> None:
    """The row names the runs that were created and released beside those that were active."""
    row = dag(active={"x"}, waiting=waiting("m"))
    made(row)
    assert row.active == {"x", "m", key(9), key(10), key(11)}
    assert row.waiting is None


# Assets.


@pytest.mark.parametrize(
    ("condition", "have_events", "expected"),
    [
        pytest.param("a", "a", [ASSETS], id="one asset"),
        pytest.param({"any": ["a", "b"]}, "b", [ASSETS], id="one of two is enough"),
        pytest.param({"all": ["a", "b"]}, "ab", [ASSETS], id="all of two"),
        pytest.param({"all": ["a", "b"]}, "a", "not due", id="one of two is too few"),
        pytest.param({"all": ["a", {"any": ["b", "c"]}]}, "ac", [ASSETS], id="nested"),
        pytest.param({"all": []}, "", "not due", id="all of nothing"),
        pytest.param(None, "", "not due", id="no condition"),
    ],
)
def test_asset_condition_that_holds_is_a_run(
    condition: Any, have_events: str, expected: list[str] | str
) -> None:
    """A condition that is met becomes one run, which takes all that is pending."""
    row = dag(**NO_NEXT_RUN, asset_condition=condition)
    events = pending(*have_events)
    decision = decide(row, pending=events)
    if isinstance(expected, str):
        assert outcome(decision) == expected
        return
    assert isinstance(decision, ClaimDecision)
    assert outcome(decision) == Outcome([*expected], next_run_after=None)
    assert decision.runs[0].events == {name: [0, 1] for name in sorted(have_events)}
    assert decision.is_consuming
    assert row.asset_condition_met_at is None


def test_condition_of_a_full_dag_is_noted() -> None:
    """Events that are enough while no slot is free wait on the row, and nothing is consumed."""
    row = dag(max_active_runs=1, active={"x"}, asset_condition="a")
    decision = made(row, pending=pending("a"))
    assert (decision.keys, decision.is_consuming) == ([], False)
    assert row.asset_condition_met_at == NOW


def test_condition_that_no_longer_holds_is_forgotten() -> None:
    """Only if no event has come meanwhile: the assets are checked in the same transaction."""
    row = dag(**NO_NEXT_RUN, asset_condition={"all": ["a", "b"]}, asset_condition_met_at=at(11))
    decision = made(row, pending=pending("a"))
    assert row.asset_condition_met_at is None
    assert [type(write) for write in decision.writes] == [Check, Check, Change]


ALL = {"all": ["a", "b"]}
FULL: dict[str, Any] = {"max_active_runs": 1, "active": {"x"}}


@pytest.mark.parametrize(
    ("columns", "recorded", "runs", "dropped", "met_at"),
    [
        # The start date.
        pytest.param({"asset_start_at": at(13)}, {"a": at(12)}, [], [], NOW, id="before the start"),
        pytest.param({"asset_start_at": at(13), "catchup": False}, {"a": at(12)}, [], [], NOW,
                     id="before the start, without catchup"),
        pytest.param({"asset_start_at": NOW}, {"a": at(12)}, [["a"]], [], None, id="at the start"),
        pytest.param({"asset_start_at": NOW, "catchup": False}, {"a": at(12)}, [], ["a"], None,
                     id="at the start, without catchup"),
        pytest.param({"asset_start_at": at(12), "catchup": False}, {"a": at(12)}, [["a"]], [], None,
                     id="recorded at the start"),
        pytest.param({"asset_start_at": at(12), "catchup": False},
                     {"a": at(11), "b": at(12, 1)}, [], ["a"], None, id="before and after"),
        pytest.param({"asset_start_at": at(12), "catchup": False, "asset_condition_met_at": at(11)},
                     {"a": at(11)}, [], ["a"], at(11), id="met before: the next claim forgets"),
        pytest.param({"asset_start_at": at(12), "catchup": False},
                     {"alias:a": at(11), "b": at(12, 1)}, [["alias:a", "b"]], [], None,
                     id="one event may be in both"),
        # The end date.
        pytest.param({"latest": at(12)}, {"a": at(12)}, [["a"]], [], None, id="at the end"),
        pytest.param({"latest": at(12)}, {"a": at(12, 1)}, [], ["a"], None, id="after the end"),
        pytest.param({"latest": at(12)}, {"a": at(12), "b": at(12, 1)}, [], ["b"], None,
                     id="one in time: the next claim is for it"),
        pytest.param({"latest": at(12), **FULL}, {"a": at(11)}, [], [], at(12),
                     id="in time, no slot"),
        pytest.param({"latest": at(12), **FULL}, {"a": at(12, 1)}, [], ["a"], None,
                     id="after the end, no slot"),
        pytest.param({"latest": at(12), "is_paused": True}, {"a": at(12, 1)}, [], ["a"], None,
                     id="after the end, paused"),
        pytest.param({"latest": at(12), "asset_condition_met_at": at(12)},
                     {"a": at(12, 1)}, [["a"]], [], None, id="owed since before the end"),
        pytest.param({"latest": at(12), "asset_condition_met_at": at(12, 1)},
                     {"a": at(12, 1)}, [], ["a"], at(12, 1), id="claimed since after the end"),
        pytest.param({"latest": at(12), "asset_condition": ALL}, {"a": at(11)}, [], [], None,
                     id="half a condition"),
        pytest.param({"latest": at(12)}, {"alias:a": at(11), "b": at(12, 1)}, [],
                     ["alias:a", "b"], None, id="one late event may be in both"),
    ],
)  # fmt: skip
def test_events_count_between_start_and_end_date(
    columns: dict[str, Any],
    recorded: dict[str, DateTime],
    runs: list[list[str]],
    dropped: list[str],
    met_at: DateTime | None,
) -> None:
    """Those before the start wait, and are kept only with catchup; those after the end are over."""
    condition = {"any": ["a", "b", "alias:a"]}
    row = dag(**{**NO_NEXT_RUN, "asset_condition": condition, **columns})
    events = recorded_events(recorded)

    decision = decide(row, pending=events)

    made_runs = [] if isinstance(decision, Skipped) else decision.runs
    assert [sorted(run.events or ()) for run in made_runs] == runs
    assert [name for name, found in events.events.items() if found.row.dropped] == dropped
    assert row.asset_condition_met_at == met_at


def test_dropped_events_are_written_with_the_start() -> None:
    """The start date is passed in the transaction that drops what came before it."""
    row = dag(**NO_NEXT_RUN, asset_condition=ALL, asset_start_at=NOW, catchup=False)
    events = pending("a", "b")
    decision = made(row, pending=events)

    assert [write.row for write in decision.writes] == [
        events.events[name].row for name in "ab"
    ] + [row]
    assert row.asset_start_at is None
    assert [found.row.dropped for found in events.events.values()] == [
        [[0, 1, "2026-01-05T12:30:00+00:00", "dropped before the start date"]]
    ] * 2


@pytest.mark.parametrize(
    ("before", "earliest", "expected"),
    [
        (None, None, None),
        (None, at(12), None),
        (None, at(13), at(13)),
        (at(13), at(14), at(14)),
        (at(13), at(11), at(11)),
        (at(13), None, None),
    ],
    ids=["none", "over", "to come", "later", "earlier", "removed"],
)
def test_start_of_assets_follows_a_push(
    before: DateTime | None, earliest: DateTime | None, expected: DateTime | None
) -> None:
    """A start date that is to come, or takes the place of such a one, is yet to be passed."""
    row = dag(asset_condition="a", asset_start_at=before, earliest=earliest)
    set_asset_start(row, now=NOW)
    assert row.asset_start_at == expected


def test_schedule_without_assets_has_no_start_of_assets() -> None:
    """Times have bounds of their own."""
    row = dag(earliest=at(13))
    set_asset_start(row, now=NOW)
    assert row.asset_start_at is None


@pytest.mark.parametrize(
    "condition", [{"most": ["a"]}, {"some": 5}, {"all": "a"}, {"all": [], "any": []}], ids=repr
)
def test_condition_that_cannot_be_read_is_noted_on_the_row(condition: Any) -> None:
    """An operator that nobody knows is an error; times go on beside it."""
    row = dag(asset_condition=condition)
    assert outcome(decide(row, pending=pending("a"))) == Outcome(DUE)
    assert row.schedule_error is not None
    assert row.schedule_error.startswith("the asset condition cannot be read")
    assert row.asset_condition_met_at is None


# Runs that exist.


@pytest.mark.parametrize(
    ("columns", "taken", "expected"),
    [
        pytest.param({}, [9], Outcome([10, 11]), id="the first"),
        pytest.param({}, [9, 10], Outcome([11]), id="the first two"),
        pytest.param({}, [10], Outcome([9], next_run_after=at(11)), id="not the first"),
        pytest.param({}, DUE, Outcome([]), id="all"),
        pytest.param({"active": {key(9)}}, [], Outcome([10, 11]), id="active"),
        pytest.param({"waiting_for_past": {key(9)}}, [], Outcome([10, 11]),
                     id="waiting for the one before"),
        pytest.param({"waiting": waiting(key(9))}, [], Outcome([10, 11], [key(9)]), id="waiting"),
        pytest.param({"catchup": False}, [11], Outcome([]), id="the newest, without catchup"),
    ],
)  # fmt: skip
def test_dates_that_have_a_run_are_passed_over(
    columns: dict[str, Any], taken: Collection[int], expected: Outcome
) -> None:
    """A due date whose run exists gets no second one, and the schedule goes on after it."""
    decision = decide(dag(**columns), taken={key(hour) for hour in taken})
    assert outcome(decision) == expected


@pytest.mark.parametrize(
    ("taken", "over", "expected"),
    [
        pytest.param([9], [], Outcome([], next_run_after=at(11)), id="the first date"),
        pytest.param([9, 10], [], Outcome([], next_run_after=at(12)), id="two dates"),
        pytest.param([10], [], "not due", id="not the first date"),
        pytest.param([], ["m"], Outcome([], next_run_after=at(10)), id="a waiting run is over"),
        pytest.param([9], ["m"], Outcome([], next_run_after=at(11)), id="both"),
        pytest.param([], ["other"], "not due", id="a run that does not wait"),
        pytest.param([], [], "not due", id="nothing"),
    ],
)
def test_step_over_passes_what_stood_in_the_way(
    taken: Collection[int], over: Collection[str], expected: Outcome | str
) -> None:
    """It creates nothing, so that nothing can stand in its own way, and gets the DAG on."""
    row = dag(waiting=waiting("m", "n"))
    decision = step_over(
        row,
        cursor.timetable_runs(row),
        taken={key(hour) for hour in taken},
        over=waiting(*over),
        now=NOW,
        claim_id="claim",
    )
    assert outcome(decision) == expected
    assert row.waiting == waiting("m", "n") - waiting(*over)


def test_step_over_notes_a_condition_that_holds() -> None:
    """It creates no run of the condition either, and leaves it to the claim that follows."""
    row = dag(asset_condition="a")
    decision = step_over(
        row,
        cursor.timetable_runs(row),
        taken={key(9)},
        over=frozenset(),
        now=NOW,
        claim_id="claim",
        pending=pending("a"),
    )
    assert outcome(decision) == Outcome([], next_run_after=at(11))
    assert row.asset_condition_met_at == NOW


# A schedule that a push has replaced.


def replaced(**columns: Any) -> Dags:
    """Return the row of a DAG that was hourly until a push at half past eleven."""
    hourly = own_schedule(dag()).as_json()
    half_hourly = {"timetable": cron("*/30 * * * *"), "schedule": "*/30 * * * *"}
    previous = {"previous_schedule": hourly, "schedule_switch_at": at(11)}
    return dag(**{**half_hourly, **previous, **columns})


def test_previous_schedule_has_its_due_runs_then_the_new_begins() -> None:
    """Runs that were due at the push are the old schedule's; the new one goes on where it ended."""
    row = replaced()
    assert outcome(decide(row)) == Outcome([9, 10], next_run_after=at(11, 30))
    assert are_empty(row, "previous_schedule", "schedule_switch_at")
    assert row.next_interval_start == at(11)


def test_previous_schedule_stays_until_all_its_due_runs_exist() -> None:
    """With too few slots, claims go on following the schedule that was replaced."""
    row = replaced(max_active_runs=1)
    assert outcome(decide(row)) == Outcome([9], next_run_after=at(11))
    assert row.schedule_switch_at == at(11)


def test_new_schedule_waits_for_the_claim_after_the_switch() -> None:
    """What the caller knows of runs is of the old schedule: none of the new one is created yet."""
    decision = decide(replaced(), taken={key(9), key(10)})
    assert outcome(decision) == Outcome([], next_run_after=at(11, 30))


# What is written.


def test_decision_is_written_runs_first_and_the_dag_last() -> None:
    """The order is what tells, when a transaction is refused, whose condition did not hold."""
    row = dag(**ALL_WAIT)
    decision = made(row, pending=pending("a", of="a"))
    kinds = [type(write) for write in decision.writes]
    # Three times and the asset run; two runs that waited; the events; the DAG.
    assert kinds == [Put, Put, Put, Put, Update, Update, Change, Change]
    assert decision.writes[-1].row is row
    assert decision.size == len(kinds)
    assert decision.keys == [run.run_key for run in decision.runs] + ["m", "n"]


@pytest.mark.parametrize(
    ("columns", "has_more"),
    [({}, False), ({"max_active_runs": 1}, False), ({"waiting": waiting(*"mnop")}, True)],
    ids=["all created", "no slot left", "more than the limit"],
)
def test_decision_says_whether_more_can_be_had_at_once(
    columns: dict[str, Any], *, has_more: bool
) -> None:
    """A DAG that is still due after the claim, and has a slot, is claimed again."""
    decision = made(dag(**columns), limit=3)
    assert decision.writes
    assert decision.has_more == has_more


# Asset-triggered runs of an hour: 600 by default.


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        pytest.param({}, 1, id="the first one"),
        pytest.param(
            {"asset_runs_in_hour": 598, "asset_hour_start": at(12)}, 599, id="one of many"
        ),
        pytest.param(
            {"asset_runs_in_hour": 599, "asset_hour_start": at(12)}, 600, id="the last one"
        ),
        pytest.param(
            {"asset_runs_in_hour": 600, "asset_hour_start": at(11, 30)}, 1, id="next hour"
        ),
    ],
)
def test_asset_run_within_the_limit_is_counted(columns: dict[str, Any], expected: int) -> None:
    """The count changes with the claim that creates the run; each hour begins with nothing."""
    row = dag(**NO_NEXT_RUN, asset_condition="a", **columns)
    decision = made(row, pending=pending("a"))
    assert [run.run_type for run in decision.runs] == ["asset_triggered"]
    assert row.asset_runs_in_hour == expected
    assert row.asset_hour_start == (NOW if expected == 1 else at(12))
    assert not row.is_paused


def test_asset_run_beyond_the_limit_pauses_the_dag_instead() -> None:
    """Nothing is created or consumed, also no run of the schedule; the condition stays noted."""
    row = dag(asset_condition="a", asset_runs_in_hour=600, asset_hour_start=at(11, 31))
    decision = made(row, pending=pending("a"))
    assert (decision.keys, decision.is_consuming, row.is_paused) == ([], False, True)
    assert (row.pause_reason or "").startswith("600 asset-triggered runs within an hour")
    assert (row.asset_condition_met_at, row.next_run_after) == (NOW, at(10))
    assert decision.writes
    assert are_empty(row, "due_shard")


@pytest.mark.parametrize(
    ("columns", "has_events"),
    [
        pytest.param({}, False, id="no event"),
        pytest.param({"max_active_runs": 1, "active": {"x"}}, True, id="no slot"),
        pytest.param({"is_paused": True}, True, id="paused by a person"),
        pytest.param({"asset_start_at": at(13), "earliest": at(13)}, True, id="before its start"),
    ],
)
def test_spent_hour_pauses_no_dag_that_wants_no_asset_run(
    columns: dict[str, Any], has_events: bool
) -> None:
    """Only a run that could start now is one too many."""
    spent = {"asset_runs_in_hour": 600, "asset_hour_start": at(12)}
    row = dag(**NO_NEXT_RUN, asset_condition="a", **spent, **columns)
    decide(row, pending=pending(*("a" if has_events else ""), of="a"))
    assert row.pause_reason is None
