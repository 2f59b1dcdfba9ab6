"""DAGs as authors write them: arguments, limits, defaults for tasks, and bounds in time."""

import warnings
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pendulum
import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask, clock, runtime
from lamplighter.errors import DefinitionError
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, TimeRestriction
from lamplighter.timetables.trigger import CronTriggerTimetable

START = datetime(2024, 1, 1)
JOB = "jobs.orders:load"
DAWN, DUSK = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)


def day(number: int) -> datetime:
    """Return a naive day of January 2024."""
    return datetime(2024, 1, number)


def utc(number: int) -> pendulum.DateTime:
    """Return the same day as an instant."""
    return pendulum.datetime(2024, 1, number)


def task(task_id: str = "load", **options: Any) -> SparkTask:
    """Return a task of the open DAG."""
    return SparkTask(task_id, **{"job": JOB} | options)


WRONG = [
    ("start_date", "2024-01-01"),
    ("start_date", date(2024, 1, 1)),
    ("start_date", 1704067200),
    ("start_date", ""),
    ("start_date", 0),
    ("end_date", "tomorrow"),
    ("end_date", ""),
    ("catchup", None),
    ("catchup", "no"),
    ("catchup", 1),
    ("max_active_runs", 0),
    ("max_active_runs", -1),
    ("max_active_runs", 501),
    ("max_active_runs", "16"),
    ("max_active_runs", 1.0),
    ("max_active_runs", True),
    ("max_active_runs", None),
    ("max_active_tasks", 0),
    ("max_active_tasks", None),
    ("dagrun_timeout", "1h"),
    ("dagrun_timeout", -timedelta(hours=1)),
    ("dagrun_timeout", float("inf")),
    ("dagrun_timeout", True),
    ("max_consecutive_failed_dag_runs", -1),
    ("max_consecutive_failed_dag_runs", None),
    ("params", "text"),
    ("params", [1]),
    ("params", {"when": START}),
    ("params", {1: "one"}),
    ("params", {"pair": (1, 2)}),
    ("params", {"n": float("nan")}),
    ("default_args", "text"),
    ("default_args", ["retries"]),
    ("default_args", {"params": None}),
    ("default_args", {"params": "text"}),
    ("tags", "text"),
    ("tags", [1]),
    ("tags", ["x" * 101]),
    ("tags", 5),
    ("owner", 5),
    ("description", 5),
    ("doc_md", b"text"),
    ("is_paused_upon_creation", None),
    ("is_paused_upon_creation", "yes"),
    ("allowed_run_types", 5),
    ("allowed_run_types", ["monthly"]),
]


@pytest.mark.parametrize(("argument", "value"), WRONG, ids=lambda value: repr(value)[:24])
def test_wrong_argument_of_dag_is_named(argument: str, value: Any) -> None:
    """A wrong argument is one error that names the DAG and the argument."""
    with pytest.raises(DefinitionError, match=f"DAG 'orders': {argument}: "):
        DAG("orders", **{argument: value})


def test_default_date_of_dag_is_named() -> None:
    """A wrong start date in `default_args` is named like one of the DAG's own."""
    with pytest.raises(DefinitionError, match="DAG 'orders': start_date: "):
        DAG("orders", default_args={"start_date": "2024-01-01"})


@pytest.mark.parametrize("argument", ["start_date", "end_date"])
@pytest.mark.parametrize(
    ("moment", "zone"), [(DUSK, "America/New_York"), (DAWN, "Asia/Tokyo")], ids=["dusk", "dawn"]
)
def test_date_beyond_the_calendar_is_named(argument: str, moment: datetime, zone: str) -> None:
    """A date that has no counterpart in UTC is an error in the name of the DAG."""
    value: Any = moment.replace(tzinfo=zoneinfo.ZoneInfo(zone))
    with pytest.raises(DefinitionError, match=f"DAG 'orders': {argument}: "):
        DAG("orders", **{argument: value})


@pytest.mark.parametrize("schedule", ["@daily", "@hourly", "0 6 * * 1", timedelta(hours=1)])
def test_start_at_dawn_of_time_is_answered(schedule: Any) -> None:
    """Without catchup, the oldest start date there is means the same as none."""
    ancient, none = (
        DAG("orders", schedule=schedule, start_date=start, catchup=False) for start in (DAWN, None)
    )
    with runtime.using(clock=clock.FixedClock(utc(20))):
        assert ancient.next_dagrun_info() == none.next_dagrun_info()


@pytest.mark.parametrize("zone", ["UTC", "Europe/Zurich", "America/New_York"])
def test_end_at_end_of_time_is_for_ever(zone: str) -> None:
    """The last date of the calendar bounds nothing that anyone will see."""
    made = DAG(
        "orders",
        schedule="@daily",
        start_date=pendulum.datetime(2024, 1, 1, tz=zone),
        end_date=DUSK - timedelta(days=1),
    )
    assert made.next_dagrun_info() is not None


def test_end_before_start_is_refused() -> None:
    """A DAG cannot end before it starts."""
    with pytest.raises(DefinitionError, match="DAG 'orders': end_date: "):
        DAG("orders", start_date=day(2), end_date=day(1))


def test_end_equal_to_start_is_allowed() -> None:
    """A DAG may have a single logical date."""
    assert DAG("orders", start_date=day(2), end_date=day(2)).end_date == utc(2)


@pytest.mark.parametrize(
    ("argument", "advice"),
    [
        ("schedule_interval", "'schedule'"),
        ("timetable", "'schedule'"),
        ("concurrency", "'max_active_tasks'"),
        ("on_failure_callback", "callbacks"),
        ("on_success_callback", "callbacks"),
        ("sla_miss_callback", "callbacks"),
        ("default_view", "no such argument"),
        ("schedule_", "no such argument"),
    ],
)
def test_unknown_argument_of_dag_gives_advice(argument: str, advice: str) -> None:
    """An argument that does not exist is named, with what to write instead if there is any."""
    unused: Any = None
    with pytest.raises(DefinitionError, match=f"DAG 'orders': {argument}: .*{advice}"):
        DAG("orders", **{argument: unused})


@pytest.mark.parametrize("limit", [1, 16, 500])
def test_active_runs_within_limit_are_kept(limit: int) -> None:
    """Up to 500 runs may be active."""
    assert DAG("orders", max_active_runs=limit).max_active_runs == limit


def test_tags_of_dag_are_a_set() -> None:
    """Tags come in one order, each once, so that a definition does not change by itself."""
    assert DAG("orders", tags={"b", "a"}).tags == ("a", "b")
    assert DAG("orders", tags=["b", "a", "b"]).tags == ("a", "b")


def test_params_of_defaults_are_overridden() -> None:
    """Parameters in `default_args` are there, and the DAG's own win."""
    made = DAG("orders", default_args={"params": {"a": 1, "b": 1}}, params={"b": 2})
    assert made.params == {"a": 1, "b": 2}


def test_owner_of_defaults_is_taken() -> None:
    """The owner may stand in `default_args`; the DAG's own wins."""
    defaults = {"owner": "data"}
    assert DAG("orders", default_args=defaults).owner == "data"
    assert DAG("orders", default_args=defaults, owner="me").owner == "me"


def test_unknown_default_of_tasks_warns() -> None:
    """A default that no task has is named in a warning at the author's line."""
    with pytest.warns(UserWarning, match=r"DAG 'orders': default_args: 'email'") as caught:
        DAG("orders", default_args={"email": "a@b", "retries": 1})
    assert [warning.filename for warning in caught] == [__file__]


def test_known_defaults_of_tasks_are_silent() -> None:
    """Defaults that mean something do not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DAG("orders", default_args={"retries": 1, "owner": "me", "params": {}, "start_date": START})


class TestAssets:
    def test_assets_over_limit_are_refused(self) -> None:
        """A schedule waits for at most 90 assets."""
        assets = [Asset(f"a{number}") for number in range(91)]
        with pytest.raises(DefinitionError, match="DAG 'orders': schedule: 91 assets, at most 90"):
            DAG("orders", schedule=assets)

    def test_assets_at_limit_are_kept(self) -> None:
        """Ninety are allowed, and one that stands twice counts once."""
        assets = [Asset(f"a{number}") for number in range(90)]
        made = DAG("orders", schedule=[*assets, *assets])
        assert len(set(made.timetable.asset_condition.leaves())) == 90

    def test_aliases_and_references_count_too(self) -> None:
        """Aliases and references are waited for like assets."""
        leaves = [
            *(AssetAlias(f"a{number}") for number in range(46)),
            *(Asset.ref(name=f"a{number}") for number in range(45)),
        ]
        with pytest.raises(DefinitionError, match="91 assets"):
            DAG("orders", schedule=leaves)

    def test_assets_beside_time_count_too(self) -> None:
        """The limit holds for schedules on assets or time as well."""
        schedule = AssetOrTimeSchedule(
            timetable=CronTriggerTimetable("@daily", timezone="UTC"),
            assets=[Asset(f"a{number}") for number in range(91)],
        )
        with pytest.raises(DefinitionError, match="91 assets"):
            DAG("orders", schedule=schedule, start_date=START)


class TestTasks:
    def test_tasks_over_limit_are_refused(self) -> None:
        """A DAG has at most 500 tasks."""
        dag = DAG("orders")
        for number in range(500):
            task(f"t{number}", dag=dag)
        with pytest.raises(DefinitionError, match="DAG 'orders': tasks: more than 500"):
            task("one_more", dag=dag)
        assert len(dag.tasks) == 500

    def test_task_of_same_id_is_refused(self) -> None:
        """Two tasks of one id are an error that names the DAG and the id."""
        dag = DAG("orders")
        task("load", dag=dag)
        with pytest.raises(DefinitionError, match=r"DAG 'orders': tasks: .*'load'"):
            task("load", dag=dag)

    def test_task_of_same_id_elsewhere_is_fine(self) -> None:
        """Two DAGs may have a task of one id."""
        with DAG("orders"):
            task("load")
        with DAG("fx") as other:
            task("load")
        assert list(other.tasks) == ["load"]

    def test_task_without_dag_is_refused(self) -> None:
        """A task outside of any DAG is an error that names it."""
        with pytest.raises(DefinitionError, match="task 'load' belongs to no DAG"):
            task("load")

    def test_task_in_inner_block_joins_inner(self) -> None:
        """Blocks may be nested; a task joins the innermost DAG, and the outer one afterwards."""
        with DAG("outer") as outer:
            with DAG("inner") as inner:
                task("a")
            task("b")
        assert (list(outer.tasks), list(inner.tasks)) == (["b"], ["a"])

    def test_task_with_dag_prefers_it(self) -> None:
        """A DAG that is passed wins over the one whose block is open."""
        passed = DAG("passed")
        with DAG("open") as opened:
            task("a", dag=passed)
        assert (list(passed.tasks), list(opened.tasks)) == (["a"], [])

    def test_block_entered_again_goes_on(self) -> None:
        """A DAG can be opened twice, and a block inside its own block is no trouble."""
        with DAG("orders") as dag:
            task("a")
            with dag:
                task("b")
            task("c")
        with dag:
            task("d")
        assert list(dag.tasks) == ["a", "b", "c", "d"]

    def test_block_that_fails_keeps_error(self) -> None:
        """An error inside a block is not hidden by what else is wrong, and the block is closed."""
        dag = DAG("orders")
        made = task("a", dag=dag)
        made >> made
        with pytest.raises(KeyError, match="author"), dag:
            raise KeyError("author")
        with pytest.raises(DefinitionError, match="belongs to no DAG"):
            task("c")


class TestDefaults:
    def test_default_of_task_is_taken(self) -> None:
        """A task has what `default_args` say unless it says otherwise itself."""
        with DAG("orders", default_args={"retries": 3, "retry_delay": timedelta(seconds=9)}):
            plain, own = task("plain"), task("own", retries=1)
        assert (plain.retries, plain.retry_delay) == (3, timedelta(seconds=9))
        assert (own.retries, own.retry_delay) == (1, timedelta(seconds=9))

    @pytest.mark.parametrize(
        ("option", "default"),
        [
            ("execution_timeout", timedelta(hours=1)),
            ("max_retry_delay", timedelta(hours=1)),
            ("start_date", day(2)),
            ("end_date", day(3)),
            ("driver_memory", "4g"),
            ("max_executors", 5),
        ],
    )
    def test_default_undone_by_none_is_gone(self, option: str, default: object) -> None:
        """None is a value like any other: it undoes a default."""
        with DAG("orders", default_args={option: default}):
            made, undone = task("made"), task("undone", **{option: None})
        assert getattr(made, option) is not None
        assert getattr(undone, option) is None

    def test_default_program_gives_way_to_none(self) -> None:
        """A default script makes room for a job when the task says so."""
        with DAG("orders", default_args={"entry_point": "jobs/a.py"}):
            made = SparkTask("load", job=JOB, entry_point=None)
        assert (made.entry_point, made.job) == (None, JOB)

    def test_wrong_default_names_task(self) -> None:
        """A wrong default is named together with the first task that has it."""
        with (
            pytest.raises(DefinitionError, match="DAG 'orders': task 'load': retries: "),
            DAG("orders", default_args={"retries": "many"}),
        ):
            task("load")

    def test_defaults_of_author_are_not_kept(self) -> None:
        """Changing the mapping that was passed changes no later task, and it is left as it was."""
        defaults: dict[str, Any] = {"retries": 3}
        with DAG("orders", default_args=defaults):
            assert defaults == {"retries": 3}
            defaults["retries"] = 9
            made = task("load")
        assert made.retries == 3

    def test_default_lists_are_not_shared(self) -> None:
        """Tasks do not share what they hold."""
        with DAG("orders", default_args={"spark_conf": {"spark.a": "1"}}):
            one, other = task("one"), task("other")
        one.spark_conf["spark.a"] = "2"
        assert other.spark_conf == {"spark.a": "1"}
        assert task("third", dag=one.dag).spark_conf == {"spark.a": "1"}


BOUNDS = """
| DAG     | tasks          | earliest | latest |                               |
| -       | none           | -        | -      |                               |
| 5 .. 20 | none           | 5        | 20     |                               |
| 5 .. 20 | -              | 5        | 20     |                               |
| 5 .. -  | 3 .. -         | 5        | -      | a task wants to start earlier |
| 5 .. -  | 9 .. -         | 5        | -      | a task starts later           |
| - .. -  | 9 .. -, 7 .. - | 7        | -      | only tasks have dates         |
| - .. -  | 9 .. -, -      | 9        | -      | one task has a date           |
| 5 .. 20 | - .. 9         | 5        | 20     | the DAG ends later than all   |
| 5 .. 20 | - .. 25        | 5        | 20     | a task wants to end later     |
| 5 .. 20 | - .. 25, -     | 5        | 20     | one task has none             |
| 5 .. -  | - .. 8, - .. 9 | 5        | 9      | the last of all tasks' ends   |
| 5 .. -  | - .. 8, -      | 5        | -      | one task goes on for ever     |
"""


def dates(text: str) -> list[datetime | None]:
    """Return start and end as a cell gives them."""
    start, _, end = text.partition("..")
    return [None if bound.strip() in {"", "-"} else day(int(bound)) for bound in (start, end)]


@pytest.mark.parametrize(
    "row",
    [[cell.strip() for cell in line[1:-1].split("|")] for line in BOUNDS.strip().splitlines()[1:]],
    ids=lambda row: f"{row[0]} with {row[1]}",
)
def test_bounds_of_dag_include_tasks(row: list[str]) -> None:
    """The bounds of a DAG are its own; where it has none, its tasks give them."""
    start, end = dates(row[0])
    with DAG("orders", schedule="@daily", start_date=start, end_date=end, catchup=False) as dag:
        for number, cell in enumerate(row[1].split(",") if row[1] != "none" else []):
            first, last = dates(cell)
            task(f"t{number}", start_date=first, end_date=last)
    earliest, latest = (None if cell == "-" else utc(int(cell)) for cell in row[2:4])
    assert dag.restriction() == TimeRestriction(earliest, latest, False)


def test_start_date_of_a_task_is_enough_to_catch_up_from() -> None:
    """A DAG without one begins with the first of its tasks."""
    with DAG("orders", schedule="@daily", catchup=True) as dag:
        task("late", start_date=day(3))
        task("early", start_date=day(2))
        task("any")
    assert dag.next_dagrun_info() == DagRunInfo.interval(utc(2), utc(3))


def test_catchup_without_any_start_date_is_refused() -> None:
    """There is nothing to catch up from; known when the definition is complete."""
    with (
        pytest.raises(DefinitionError, match="DAG 'orders': start_date: is needed to catch up"),
        DAG("orders", schedule="@daily", catchup=True),
    ):
        task()


def test_bounds_asked_with_catchup_obey() -> None:
    """Whoever asks may say how missed runs are to be treated."""
    dag = DAG("orders", schedule="@daily", start_date=START, catchup=False)
    assert dag.restriction(catchup=True).catchup
    assert dag.next_dagrun_info(catchup=True) == DagRunInfo.interval(utc(1), utc(2))


def test_naive_dates_of_task_are_utc() -> None:
    """A naive date of a task is in UTC, an aware one is turned into UTC."""
    with DAG("orders"):
        made = task(start_date=day(5), end_date=pendulum.datetime(2024, 1, 9, tz="Asia/Tokyo"))
    assert made.start_date == utc(5)
    assert str(made.end_date) == "2024-01-08 15:00:00+00:00"


def test_runs_of_dag_end_with_it() -> None:
    """The end date is the last logical date, itself included."""
    dag = DAG("orders", schedule="@daily", start_date=day(1), end_date=day(2))
    first = dag.next_dagrun_info()
    second = dag.next_dagrun_info(first)
    assert second == DagRunInfo.interval(utc(2), utc(3))
    assert dag.next_dagrun_info(second) is None


def test_runs_between_instants_ignore_bounds() -> None:
    """A walk between two instants is bounded by them and not by the DAG."""
    dag = DAG("orders", schedule="@daily", start_date=day(10), end_date=day(11), catchup=False)
    runs = dag.iter_dagrun_infos_between(utc(1), utc(3))
    assert [run.logical_date for run in runs] == [utc(1), utc(2), utc(3)]


def test_equality_of_dags_is_by_content() -> None:
    """Two DAGs with the same definition are equal, and every part of it counts."""

    def build(**options: Any) -> DAG:
        usual: dict[str, Any] = {"schedule": "@daily", "start_date": START}
        with DAG("orders", **usual | options) as dag:
            task("a") >> task("b")
        return dag

    assert build() == build(start_date=START.replace(tzinfo=UTC))
    different = [
        build(schedule="@hourly"),
        build(start_date=day(2)),
        build(catchup=False),
        build(tags=["x"]),
        build(start_date=pendulum.datetime(2024, 1, 1, 1, tz="Europe/Zurich")),
        build(default_args={"retries": 1}),
    ]
    assert all(dag != build() for dag in different)
    assert build() != "orders"
