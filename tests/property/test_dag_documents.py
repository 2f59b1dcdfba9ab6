"""Law: any DAG that can be defined is written down and read back exactly."""

import json
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pendulum
from hypothesis import given
from hypothesis import strategies as st

from lamplighter import DAG, Asset, AssetAlias, AssetAll, AssetAny, Param, SparkTask, TaskGroup
from lamplighter.assets import AssetCondition
from lamplighter.dags.arguments import TRIGGER_RULES
from lamplighter.identifiers import RUN_TYPES
from lamplighter.serialization import content_hash, decode_dag, encode_dag, to_json
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.events import EventsTimetable
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import (
    CronPartitionTimetable,
    CronTriggerTimetable,
    DeltaTriggerTimetable,
    MultipleCronTriggerTimetable,
)

ids = st.from_regex(r"[A-Za-z0-9._~-]{1,20}", fullmatch=True)
words = st.text(max_size=20)
settings_of_spark = st.from_regex(r"spark\.[a-z]{1,5}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
extras = st.dictionaries(words, json_values, max_size=3)
params = st.builds(Param, json_values, st.none() | words) | st.builds(
    Param, st.integers(), type=st.sampled_from(["integer", ["null", "number"]])
)
names = st.from_regex(r"[a-z]{1,8}( [a-z]{1,4})?", fullmatch=True)
zones = st.sampled_from(["UTC", "Europe/Zurich", "America/St_Johns", "Australia/Lord_Howe", 5400])
instants = st.builds(
    lambda seconds, zone: pendulum.from_timestamp(seconds).in_timezone(pendulum.timezone(zone)),
    st.integers(1_000_000_000, 2_500_000_000),
    zones,
)
durations = st.integers(1_000_000, 10**12).map(lambda n: timedelta(microseconds=n))
crons = st.sampled_from(["0 * * * *", "30 2 * * 1-5", "@daily", "0 0 1 */3 *", "5 4 * * sun"])

leaves: st.SearchStrategy[AssetCondition] = (
    st.builds(Asset, names, st.just("s3://lake/x") | st.none(), extra=extras)
    | st.builds(AssetAlias, names)
    | names.map(lambda name: Asset.ref(name=name))
    | st.just("s3://lake/y").map(lambda uri: Asset.ref(uri=uri))
)
conditions: st.SearchStrategy[AssetCondition] = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda items: AssetAll(*items))
        | st.lists(inner, min_size=1, max_size=3).map(lambda items: AssetAny(*items))
    ),
    max_leaves=5,
)
timed = (
    st.builds(CronDataIntervalTimetable, crons, zones)
    | st.builds(CronTriggerTimetable, crons, timezone=zones, interval=durations)
    | st.builds(DeltaTriggerTimetable, durations, interval=durations)
    | st.builds(MultipleCronTriggerTimetable, crons, crons, timezone=zones)
    | st.builds(CronPartitionTimetable, crons, timezone=zones, run_offset=st.integers(-3, 3))
    | st.builds(EventsTimetable, st.lists(instants, max_size=3))
)
schedules = (
    st.none()
    | st.just("@once")
    | crons
    | durations
    | timed
    | conditions
    | st.builds(AssetOrTimeSchedule, timetable=timed, assets=conditions)
)
programs = st.just({"entry_point": "jobs/a.py"}) | st.just({"job": "jobs.a:run"})
task_options = st.fixed_dictionaries(
    {},
    optional={
        "arguments": st.lists(words, max_size=3),
        "spark_conf": st.dictionaries(settings_of_spark, words.filter(str.strip), max_size=2),
        "retries": st.integers(0, 9),
        "retry_delay": durations,
        "retry_exponential_backoff": st.booleans() | st.floats(0, 10),
        "max_retry_delay": st.none() | durations,
        "execution_timeout": st.none() | durations,
        "trigger_rule": st.sampled_from(TRIGGER_RULES),
        "depends_on_past": st.booleans(),
        "inlets": st.lists(leaves, max_size=2),
        "start_date": st.none() | instants,
        "priority_weight": st.integers(-5, 100),
        "driver_memory": st.sampled_from(["1g", "512m"]),
        "max_executors": st.none() | st.integers(1, 100),
    },
)


@st.composite
def dags(draw: st.DrawFn) -> DAG:
    """Draw a DAG with up to four tasks and edges that only point forward."""
    start = draw(instants)
    dag = DAG(
        draw(ids),
        schedule=draw(schedules),
        start_date=start,
        end_date=draw(st.none() | durations.map(lambda length: start + length)),
        catchup=draw(st.booleans()),
        max_active_runs=draw(st.integers(1, 500)),
        dagrun_timeout=draw(st.none() | durations),
        params=draw(extras | st.dictionaries(words, params, max_size=3)),
        tags=draw(st.lists(words, max_size=3)),
        description=draw(st.none() | words),
        doc_md=draw(st.none() | words),
        is_paused_upon_creation=draw(st.booleans()),
        allowed_run_types=draw(st.none() | st.sets(st.sampled_from(sorted(RUN_TYPES)))),
    )
    tasks: list[SparkTask] = []
    for number in range(draw(st.integers(0, 4))):
        options: dict[str, Any] = {**draw(programs), **draw(task_options)}
        with ExitStack() as blocks:
            if draw(st.booleans()):
                blocks.enter_context(
                    TaskGroup(f"g{number}", dag=dag, prefix_group_id=draw(st.booleans()))
                )
            task = SparkTask(f"t{number}", dag=dag, **options)
        for upstream in draw(st.lists(st.sampled_from(tasks), max_size=2)) if tasks else []:
            upstream >> task
        tasks.append(task)
    return dag


@given(dags())
def test_any_dag_reads_back_exactly_equal(dag: DAG) -> None:
    """Writing, reading and writing again changes nothing, neither object nor text nor hash."""
    text = to_json(encode_dag(dag))
    copy = decode_dag(json.loads(text))
    assert copy == dag
    assert to_json(encode_dag(copy)) == text
    assert content_hash(encode_dag(copy)) == content_hash(json.loads(text))
