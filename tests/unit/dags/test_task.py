"""Tasks as authors write them: every option, right and wrong."""

import enum
from datetime import timedelta
from typing import Any

import pytest

from lamplighter import DAG, Asset, AssetAlias, SparkTask
from lamplighter.errors import DefinitionError

JOB = "jobs.orders:load"
A = Asset("a")


def task(**options: Any) -> SparkTask:
    """Return a task of a new DAG."""
    return SparkTask("load", dag=DAG("orders"), **{"job": JOB} | options)


DEFAULTS: dict[str, Any] = {
    "entry_point": None,
    "job": JOB,
    "arguments": (),
    "inputs": (),
    "spark_conf": {},
    "py_files": (),
    "archives": (),
    "retries": 0,
    "retry_delay": timedelta(minutes=5),
    "retry_exponential_backoff": 0.0,
    "max_retry_delay": None,
    "execution_timeout": None,
    "trigger_rule": "all_success",
    "depends_on_past": False,
    "inlets": (),
    "outlets": (),
    "restrict_data": False,
    "start_date": None,
    "end_date": None,
    "priority_weight": 1,
    "pool": None,
    "pool_slots": 1,
    "driver_cores": None,
    "driver_memory": None,
    "executor_cores": None,
    "executor_memory": None,
    "max_executors": None,
}


def test_task_that_says_nothing_has_defaults() -> None:
    """Every option has the agreed default, and there are no others."""
    assert task().options() == DEFAULTS


WRONG = [
    ("arguments", "--all"),
    ("arguments", ["--n", 5]),
    ("arguments", None),
    ("arguments", {"--n": "5"}),
    ("arguments", b"--n"),
    ("inputs", "load"),
    ("inputs", [5]),
    ("inputs", None),
    ("inputs", {"load": 1}),
    ("spark_conf", {"spark.cores": 4}),
    ("spark_conf", {4: "x"}),
    ("spark_conf", [("a", "b")]),
    ("spark_conf", "a=b"),
    ("spark_conf", {"spark.executor.memory": "8g"}),  # an option of its own
    ("py_files", "lib.zip"),
    ("archives", "env.tar.gz"),
    ("retries", -1),
    ("retries", 1.0),
    ("retries", True),
    ("retries", None),
    ("retry_delay", "5m"),
    ("retry_delay", -1),
    ("retry_delay", None),
    ("retry_delay", float("inf")),
    ("retry_delay", float("nan")),
    ("retry_exponential_backoff", -1),
    ("retry_exponential_backoff", "2"),
    ("retry_exponential_backoff", float("nan")),
    ("retry_exponential_backoff", float("inf")),
    ("max_retry_delay", "1h"),
    ("execution_timeout", "1h"),
    ("execution_timeout", -timedelta(hours=1)),
    ("trigger_rule", "sometimes"),
    ("trigger_rule", "all_done_setup_success"),
    ("trigger_rule", None),
    ("depends_on_past", "yes"),
    ("depends_on_past", 1),
    ("inlets", A),
    ("inlets", "a"),
    ("inlets", ["a"]),
    ("inlets", [A & Asset("b")]),
    ("outlets", A),
    ("outlets", ["s3://lake/a"]),
    ("outlets", [Asset.ref(name="a")]),
    ("outlets", [Asset(f"a{number}") for number in range(91)]),
    ("start_date", "2024-01-01"),
    ("end_date", 5),
    ("priority_weight", "high"),
    ("pool", ""),
    ("pool", "two words"),
    ("pool_slots", 0),
    ("driver_cores", 0),
    ("driver_cores", "4"),
    ("executor_cores", 1.5),
    ("max_executors", 0),
    ("driver_memory", 4),
    ("driver_memory", "4"),
    ("driver_memory", "4 g"),
    ("driver_memory", "0g"),
    ("driver_memory", "-4g"),
    ("executor_memory", "much"),
    ("job", "orders"),
    ("job", "jobs.orders"),
    ("job", "jobs/orders.py:load"),
    ("job", "jobs.orders:load:now"),
    ("job", ":load"),
    ("job", "jobs.orders:"),
    ("job", "jobs.orders:load()"),
    ("job", "jobs..orders:load"),
    ("job", "jobs.orders:load\n"),
    ("job", print),
]


@pytest.mark.parametrize(("option", "value"), WRONG, ids=lambda value: repr(value)[:24])
def test_wrong_option_of_task_is_named(option: str, value: Any) -> None:
    """A wrong option is one error that names the DAG, the task and the option."""
    with pytest.raises(DefinitionError, match=f"DAG 'orders': task 'load': {option}: "):
        task(**{option: value})


OUTSIDE = [
    "../load.py",
    "jobs/../../load.py",
    "/etc/load.py",
    "//etc/load.py",
    "s3://bucket/load.py",
    "s3:/bucket/load.py",
    "file:///etc/load.py",
    "file:/etc/load.py",
    "C:/jobs/load.py",
    "C:\\jobs\\load.py",
    "..\\load.py",
    "~/load.py",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_script_outside_the_bundle_is_refused(path: str) -> None:
    """A script that is not below the bundle's root is named."""
    with pytest.raises(DefinitionError, match=r"task 'load': entry_point: .*outside the bundle"):
        task(job=None, entry_point=path)


@pytest.mark.parametrize("path", ["", "jobs", "jobs/load", "jobs/load.sh", "load.pyc", "jobs/.py"])
def test_script_of_other_kind_is_refused(path: str) -> None:
    """A script is a Python file."""
    with pytest.raises(DefinitionError, match=r"task 'load': entry_point: .*not a Python file"):
        task(job=None, entry_point=path)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("load.py", "load.py"),
        ("jobs/orders/load.py", "jobs/orders/load.py"),
        ("./jobs/load.py", "jobs/load.py"),
        ("jobs//load.py", "jobs/load.py"),
        ("jobs/load.v2.py", "jobs/load.v2.py"),
        ("jobs/..load.py", "jobs/..load.py"),
    ],
)
def test_script_inside_the_bundle_is_kept(path: str, kept: str) -> None:
    """A script below the bundle's root is kept in its one spelling."""
    assert task(job=None, entry_point=path).entry_point == kept


@pytest.mark.parametrize("programs", [{"job": None}, {"entry_point": "jobs/load.py"}], ids=repr)
def test_program_of_task_is_one(programs: dict[str, Any]) -> None:
    """A task has a script or a job, not both and not neither."""
    with pytest.raises(DefinitionError, match=r"task 'load': .*exactly one of entry_point and job"):
        task(**programs)


def test_task_that_is_wrong_stays_out() -> None:
    """A task that is refused leaves nothing behind in its DAG."""
    dag = DAG("orders")
    with pytest.raises(DefinitionError):
        SparkTask("load", dag=dag, job=JOB, retries=-1)
    assert dag.tasks == {}
    assert SparkTask("load", dag=dag, job=JOB).dag is dag


@pytest.mark.parametrize("option", ["pool", "on_failure_callback", "task_id2", "retires"])
def test_unknown_option_of_task_is_named(option: str) -> None:
    """An option that does not exist is an error that names it."""
    with pytest.raises(DefinitionError, match=f"DAG 'orders': task 'load': {option}: "):
        task(**{option: 1})


RULES = [
    "all_success",
    "all_failed",
    "all_done",
    "all_done_min_one_success",
    "one_success",
    "one_failed",
    "one_done",
    "none_failed",
    "none_failed_min_one_success",
    "none_skipped",
    "all_skipped",
    "always",
]


@pytest.mark.parametrize("rule", RULES)
def test_trigger_rule_by_name_is_kept(rule: str) -> None:
    """Twelve trigger rules are known by name."""
    assert task(trigger_rule=rule).trigger_rule == rule


def test_trigger_rule_by_member_is_kept() -> None:
    """A member of an enumeration counts by its value, as moved files write it."""

    class TriggerRule(enum.Enum):
        ALL_DONE = "all_done"

    assert task(trigger_rule=TriggerRule.ALL_DONE).trigger_rule == "all_done"


@pytest.mark.parametrize(
    ("given", "kept"), [(False, 0.0), (True, 2.0), (0, 0.0), (1, 1.0), (2, 2.0), (1.5, 1.5)]
)
def test_backoff_of_retries_is_a_factor(given: float, kept: float) -> None:
    """Back-off is a factor; True means doubling."""
    assert task(retry_exponential_backoff=given).retry_exponential_backoff == kept


@pytest.mark.parametrize("delay", [300, 300.0, timedelta(minutes=5)])
def test_delay_of_retries_may_be_seconds(delay: Any) -> None:
    """A delay is a timedelta or a number of seconds."""
    assert task(retry_delay=delay).retry_delay == timedelta(minutes=5)


@pytest.mark.parametrize("memory", ["4g", "4G", "512m", "4gb", "1t", "100k"])
def test_memory_as_spark_writes_is_kept(memory: str) -> None:
    """Memory is written as Spark writes it."""
    made = task(driver_memory=memory, executor_memory=memory)
    assert (made.driver_memory, made.executor_memory) == (memory, memory)


def test_lists_of_task_are_its_own() -> None:
    """Changing a list that was passed changes nothing about the task."""
    arguments, outlets = ["--all"], [A]
    made = task(arguments=arguments, outlets=outlets, inlets=[AssetAlias("x"), Asset.ref(name="r")])
    arguments.append("--more")
    outlets.clear()
    assert made.arguments == ("--all",)
    assert made.outlets == (A,)
    assert made.inlets == (AssetAlias("x"), Asset.ref(name="r"))


def test_outlets_at_limit_are_kept() -> None:
    """A task may produce ninety assets."""
    outlets = [Asset(f"a{number}") for number in range(90)]
    assert task(outlets=outlets).outlets == tuple(outlets)
