"""What `schedule=` means: every accepted value, the presets, and the names of runs.

Rows marked `changed_by_design` answer otherwise than Airflow 3, each for the reason beside it.
"""

from datetime import datetime, timedelta
from typing import Any

import pendulum
import pytest
from dateutil.relativedelta import relativedelta

from lamplighter import DAG, Asset, AssetAlias, AssetAll, AssetAny, Dataset
from lamplighter.errors import DefinitionError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DataInterval, TimeRestriction, Timetable
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable, DeltaDataIntervalTimetable
from lamplighter.timetables.simple import (
    AssetTriggeredTimetable,
    ContinuousTimetable,
    NullTimetable,
    OnceTimetable,
)
from lamplighter.timetables.trigger import CronTriggerTimetable

START = datetime(2024, 1, 1)
HOUR = timedelta(hours=1)
A, B = Asset("a"), Asset("b")
DAILY_TRIGGER = CronTriggerTimetable("0 0 * * *", timezone="UTC")


def same(schedule: object, timetable: Timetable) -> Any:
    """Return a row on which Lamplighter and Airflow agree."""
    return pytest.param(schedule, timetable, id=repr(schedule)[:40])


def changed_by_design(schedule: object, timetable: Timetable, *, reason: str) -> Any:
    """Return a row on which they do not, with the reason in its name."""
    return pytest.param(schedule, timetable, id=f"{schedule!r:.30}-changed_by_design-{reason}")


def dag(schedule: Any, **options: Any) -> DAG:
    """Return a DAG with `schedule` that starts in 2024."""
    return DAG("d", **{"schedule": schedule, "start_date": START, "max_active_runs": 1} | options)


MEANINGS = [
    same(None, NullTimetable()),
    same("@once", OnceTimetable()),
    same("@continuous", ContinuousTimetable()),
    same(DAILY_TRIGGER, DAILY_TRIGGER),
    same(A, AssetTriggeredTimetable(A)),
    same(Dataset("a"), AssetTriggeredTimetable(Dataset("a"))),
    same(AssetAlias("x"), AssetTriggeredTimetable(AssetAlias("x"))),
    same(Asset.ref(name="a"), AssetTriggeredTimetable(Asset.ref(name="a"))),
    same(A | B, AssetTriggeredTimetable(AssetAny(A, B))),
    same([A, B], AssetTriggeredTimetable(AssetAll(A, B))),
    same((A, B), AssetTriggeredTimetable(AssetAll(A, B))),
    same([A | B, A], AssetTriggeredTimetable(AssetAll(AssetAny(A, B), A))),
    pytest.param({B, A}, AssetTriggeredTimetable(AssetAll(A, B)), id="set"),
    changed_by_design(
        "0 0 * * *",
        CronDataIntervalTimetable("0 0 * * *", "UTC"),
        reason="plain_cron_means_data_intervals",
    ),
    changed_by_design(
        "  0 0 * * *\n",
        CronDataIntervalTimetable("0 0 * * *", "UTC"),
        reason="plain_cron_means_data_intervals",
    ),
    changed_by_design(
        HOUR, DeltaDataIntervalTimetable(HOUR), reason="plain_delta_means_data_intervals"
    ),
    changed_by_design(
        relativedelta(months=1),
        DeltaDataIntervalTimetable(relativedelta(months=1)),
        reason="plain_delta_means_data_intervals",
    ),
    changed_by_design(
        pendulum.duration(months=1),
        DeltaDataIntervalTimetable(relativedelta(months=1)),
        reason="plain_delta_means_data_intervals",
    ),
]


@pytest.mark.parametrize(("schedule", "timetable"), MEANINGS)
def test_schedule_of_each_kind_means_timetable(schedule: object, timetable: Timetable) -> None:
    """Each accepted value of `schedule=` stands for one timetable."""
    assert dag(schedule).timetable == timetable


def test_schedule_left_out_means_never() -> None:
    """A DAG without `schedule=` is never run by time."""
    assert DAG("d").timetable == NullTimetable()


def test_schedule_given_timetable_keeps_object() -> None:
    """A timetable is taken as it is, not copied."""
    assert dag(DAILY_TRIGGER).timetable is DAILY_TRIGGER


@pytest.mark.parametrize(
    "schedule",
    [
        0,
        True,
        1.5,
        b"0 0 * * *",
        {"a": A},
        START,
        ["0 0 * * *"],
        [A, None],
        OnceTimetable,
        object(),
    ],
    ids=type,
)
def test_schedule_of_other_kind_is_refused(schedule: object) -> None:
    """Anything else is an error that names the DAG and the argument."""
    with pytest.raises(DefinitionError, match="DAG 'd': schedule: "):
        dag(schedule)


# Airflow expands the first six only and keeps the text of the others.
PRESETS = """
| preset     | expression    |                   |
| @hourly    | 0 * * * *     |                   |
| @daily     | 0 0 * * *     |                   |
| @weekly    | 0 0 * * 0     |                   |
| @monthly   | 0 0 1 * *     |                   |
| @quarterly | 0 0 1 */3 *   |                   |
| @yearly    | 0 0 1 1 *     |                   |
| @midnight  | 0 0 * * *     | changed_by_design |
| @annually  | 0 0 1 1 *     | changed_by_design |
"""


def rows(table: str) -> list[Any]:
    """Return the cells of each row, the last one as part of the row's name."""
    cells = [
        [cell.strip() for cell in line[1:-1].split("|")] for line in table.strip().splitlines()[1:]
    ]
    return [pytest.param(*row[:-1], id=" ".join(row).strip()) for row in cells]


@pytest.mark.parametrize(("preset", "expression"), rows(PRESETS))
def test_preset_is_expanded_at_construction(preset: str, expression: str) -> None:
    """A preset is the same schedule as its expression, in what it shows and stores too."""
    timetable = dag(preset).timetable
    assert timetable.summary == expression
    assert timetable == CronDataIntervalTimetable(expression, "UTC")
    assert timetable.description


@pytest.mark.parametrize("preset", ["@reboot", "@hour", "@", "@every 5m"])
def test_preset_nobody_knows_is_refused(preset: str) -> None:
    """An unknown preset is an error that quotes it."""
    with pytest.raises(DefinitionError, match=f"DAG 'd': schedule: cron '{preset}'"):
        dag(preset)


DESCRIPTIONS = """
| expression         | description                                                     |   |
| 0 0 * * *          | At 00:00                                                        |   |
| */5 * * * *        | Every 5 minutes                                                 |   |
| 30 16 * * 1-5      | At 16:30, Monday through Friday                                 |   |
| 0 0 1 * 1          | At 00:00, on day 1 of the month (or) At 00:00, only on Monday   |   |
| 0 0 * * * 30       |                                                                 |   |
| 0 0 * * * 30 2030  |                                                                 |   |
| nonsense           |                                                                 |   |
| 61 0 * * *         |                                                                 |   |
"""


@pytest.mark.parametrize(("expression", "description"), rows(DESCRIPTIONS))
def test_description_of_cron_is_english(expression: str, description: str) -> None:
    """Five fields are described in English, on a 24-hour clock; other expressions not at all."""
    assert CronDataIntervalTimetable(expression, "UTC").description == description


def test_zone_of_dag_is_start_dates() -> None:
    """A plain cron text is read in the zone of the start date."""
    start = pendulum.datetime(2024, 1, 1, tz="Europe/Zurich")
    timetable = dag("0 0 * * *", start_date=start).timetable
    assert timetable == CronDataIntervalTimetable("0 0 * * *", "Europe/Zurich")


def test_zone_of_dag_may_be_default() -> None:
    """A start date in `default_args` gives the zone as well."""
    start = pendulum.datetime(2024, 1, 1, tz="Asia/Tokyo")
    made = dag("0 0 * * *", start_date=None, default_args={"start_date": start})
    assert made.timetable == CronDataIntervalTimetable("0 0 * * *", "Asia/Tokyo")


def test_zone_of_naive_start_is_utc() -> None:
    """A naive start date is in UTC, and so is the schedule."""
    made = dag("0 0 * * *", start_date=datetime(2024, 1, 1, 6))
    assert made.start_date == pendulum.datetime(2024, 1, 1, 6)
    assert made.timetable == CronDataIntervalTimetable("0 0 * * *", "UTC")


def test_bounds_of_dag_are_in_utc() -> None:
    """Start and end date are turned into UTC, whatever zone they were written in."""
    made = dag(
        "0 0 * * *",
        start_date=pendulum.datetime(2024, 1, 1, tz="Europe/Zurich"),
        end_date=pendulum.datetime(2024, 7, 1, tz="America/New_York"),
    )
    assert str(made.start_date) == "2023-12-31 23:00:00+00:00"
    assert str(made.end_date) == "2024-07-01 04:00:00+00:00"


# Airflow: catchup off, paused at first, run ids by run-after.
DEFAULTS = """
| argument                        | default     |                   |
| catchup                         | True        | changed_by_design |
| is_paused_upon_creation         | False       | changed_by_design |
| owner                           | lamplighter | changed_by_design |
| max_active_runs                 | 16          |                   |
| max_active_tasks                | 16          |                   |
| max_consecutive_failed_dag_runs | 0           |                   |
| dagrun_timeout                  | None        |                   |
| start_date                      | None        |                   |
| end_date                        | None        |                   |
"""


@pytest.mark.parametrize(("argument", "default"), rows(DEFAULTS))
def test_argument_of_dag_has_default(argument: str, default: str) -> None:
    """A DAG that says nothing about an argument has the agreed value."""
    assert str(getattr(DAG("d"), argument)) == default


MONDAY = DataInterval(pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 1, 2))
RUN_IDS = """
| run type  | run id                               |                                |
| scheduled | scheduled__2024-01-01T00:00:00+00:00 | changed_by_design-logical_date |
| backfill  | backfill__2024-01-01T00:00:00+00:00  | changed_by_design-logical_date |
| manual    | manual__2024-01-01T00:00:00+00:00    | changed_by_design-logical_date |
"""


@pytest.mark.parametrize(("run_type", "run_id"), rows(RUN_IDS))
def test_run_id_of_dated_run_is_logical_date(run_type: str, run_id: str) -> None:
    """A dated run is named by its logical date, not by the instant it may be created after."""
    timetable = dag("0 0 * * *").timetable
    made = timetable.generate_run_id(run_type=run_type, run_after=MONDAY.end, data_interval=MONDAY)
    assert made == run_id


@pytest.mark.parametrize(
    "schedule",
    [
        "@daily",
        HOUR,
        relativedelta(months=1),
        DAILY_TRIGGER,
        EventsTimetable([START]),
        AssetOrTimeSchedule(timetable=DAILY_TRIGGER, assets=[A]),
    ],
    ids=repr,
)
def test_catchup_without_start_date_is_refused(schedule: Any) -> None:
    """A schedule with a time part that is to catch up needs an instant to catch up from."""
    with pytest.raises(DefinitionError, match="DAG 'd': start_date: "), DAG("d", schedule=schedule):
        pass


def test_no_catchup_needs_no_start_date() -> None:
    """Without catchup there is nothing to catch up from."""
    with DAG("d", schedule="@daily", catchup=False) as made:
        pass
    assert made.start_date is None


@pytest.mark.parametrize("schedule", [None, A, [A, B], A | B, "@once", "@continuous"], ids=repr)
def test_catchup_without_periods_needs_nothing(schedule: Any) -> None:
    """A schedule that can owe no runs may catch up without a start date."""
    with DAG("d", schedule=schedule, max_active_runs=1) as made:
        pass
    assert made.catchup


@pytest.mark.parametrize("limit", [2, 16, 500])
def test_continuous_with_several_runs_is_refused(limit: int) -> None:
    """`@continuous` allows one active run, and says so about the argument to change."""
    with pytest.raises(DefinitionError, match=r"DAG 'd': max_active_runs: .*max_active_runs=1"):
        dag("@continuous", max_active_runs=limit)


def test_continuous_with_default_limit_is_refused() -> None:
    """The default of 16 active runs is too many for `@continuous`, too."""
    with pytest.raises(DefinitionError, match="DAG 'd': max_active_runs: "):
        DAG("d", schedule="@continuous", start_date=START)


def test_impossible_date_in_cron_is_refused() -> None:
    """An expression that never comes true is an error; Airflow accepts it and never runs."""
    with pytest.raises(DefinitionError, match=r"DAG 'd': schedule: .*never ticks"):
        dag("0 0 31 2 *")


def test_unrestricted_daily_dag_owes_every_day() -> None:
    """A daily DAG with every default catches up from its start date, one day at a time."""
    info = DAG("d", schedule="@daily", start_date=START).next_dagrun_info()
    assert info is not None
    assert info.data_interval == MONDAY
    assert info.run_after == MONDAY.end


def test_restriction_of_dag_is_timetables() -> None:
    """The bounds that a DAG hands to its timetable are its own, in the agreed order of fields."""
    made = dag("@daily", end_date=datetime(2024, 2, 1), catchup=False)
    assert made.restriction() == TimeRestriction(
        pendulum.datetime(2024, 1, 1), pendulum.datetime(2024, 2, 1), False
    )


@pytest.mark.parametrize("schedule", [[], AssetAll(), AssetAny()], ids=repr)
def test_schedule_without_assets_is_refused_changed_by_design(schedule: object) -> None:
    """A condition on no asset could hold always or never; Airflow takes it and never fires."""
    with pytest.raises(DefinitionError, match="DAG 'd': schedule: needs at least one asset"):
        dag(schedule)
