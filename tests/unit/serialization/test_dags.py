"""Documents of DAGs: exact both ways, stable, bounded, and never a way to run code."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest

from lamplighter import DAG, Asset, AssetAlias, AssetWatcher, Param, SparkTask, TaskGroup
from lamplighter.errors import DefinitionError, NewerFormError, SerializationError
from lamplighter.loading import author_code_allowed
from lamplighter.serialization import content_hash, decode_dag, encode_dag, to_json
from lamplighter.timetables.base import Timetable
from lamplighter.triggers.base import BaseEventTrigger


class InboxTrigger(BaseEventTrigger):
    """A trigger of an author's."""

    def __init__(self, *, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{__name__}.InboxTrigger", {"folder": self.folder}


class FullMoonTimetable(Timetable):
    """A timetable of an author's, with an argument."""

    def __init__(self, year: int) -> None:
        self.year = year

    def serialize(self) -> dict[str, Any]:
        return {"year": self.year}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "FullMoonTimetable":
        return cls(data["year"])


def rich_dag() -> DAG:
    """Return a DAG that uses every argument there is."""
    raw = Asset("raw", "s3://lake/raw", extra={"team": "orders"}, group="lake")
    with DAG(
        "rich",
        schedule="30 2 * * 1-5",
        start_date=pendulum.datetime(2026, 1, 1, 6, tz="Europe/Zurich"),
        end_date=datetime(2027, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=3,
        max_active_tasks=7,
        dagrun_timeout=timedelta(hours=5),
        max_consecutive_failed_dag_runs=4,
        default_args={"retries": 2, "owner": "data"},
        params={"limit": Param(10, "of rows", type="integer"), "names": ["a", "b"]},
        tags=["b", "a"],
        description="words",
        doc_md="# more words",
        is_paused_upon_creation=True,
        allowed_run_types=["scheduled", "backfill"],
    ) as dag:
        first = SparkTask(
            "first",
            entry_point="jobs/first.py",
            arguments=["--day", "{{ ds }}"],
            spark_conf={"spark.sql.shuffle.partitions": "8"},
            py_files=["lib/x.py"],
            archives=["s3://lake/env.tar.gz"],
            retry_delay=timedelta(seconds=90),
            retry_exponential_backoff=True,
            max_retry_delay=timedelta(hours=1),
            execution_timeout=timedelta(minutes=30),
            inlets=[raw, Asset.ref(name="rates")],
            outlets=[Asset("orders", "s3://lake/orders"), AssetAlias("any")],
            start_date=pendulum.datetime(2026, 2, 1),
            end_date=pendulum.datetime(2026, 12, 1),
            priority_weight=5,
            driver_cores=2,
            driver_memory="4g",
            executor_cores=4,
            executor_memory="16g",
            max_executors=10,
        )
        with TaskGroup("last", prefix_group_id=False) as last:
            SparkTask("second", job="jobs.x:run", trigger_rule="all_done", depends_on_past=True)
        first >> last
    return dag


def test_document_of_a_rich_dag_reads_back_equal() -> None:
    """A DAG that uses every argument comes back equal through JSON text."""
    dag = rich_dag()
    assert decode_dag(json.loads(to_json(encode_dag(dag)))) == dag


def test_dag_that_reads_back_keeps_zone_and_order() -> None:
    """The zone of the schedule and the order of the tasks survive."""
    dag = decode_dag(encode_dag(rich_dag()))
    assert dag.timezone.name == "Europe/Zurich"
    assert dag.tasks["second"].upstream_task_ids == {"first"}


def test_equality_of_dags_sees_every_task_option() -> None:
    """A DAG that differs in one option of one task is another DAG."""
    document = encode_dag(rich_dag())
    document["tasks"][1]["retries"] = 3
    assert decode_dag(document) != rich_dag()


def test_hash_of_equal_definitions_is_equal() -> None:
    """The hash depends on the content, not on the order in which tags were written."""
    one = DAG("x", tags=["a", "b"])
    other = DAG("x", tags=["b", "a", "b"])
    assert content_hash(encode_dag(one)) == content_hash(encode_dag(other))


def test_hash_of_a_changed_definition_differs() -> None:
    """Any change of the definition changes the hash."""
    document = encode_dag(rich_dag())
    changed = {**document, "catchup": True}
    assert content_hash(document) != content_hash(changed)


@pytest.mark.parametrize("version", [0, "4", None, 5.5])
def test_document_of_unknown_version_is_refused(version: object) -> None:
    """A document of no version that ever was is refused with all versions named."""
    document = {**encode_dag(DAG("x")), "schema": version}
    with pytest.raises(SerializationError, match="this library reads 1 to 4"):
        decode_dag(document)


@pytest.mark.parametrize("version", [5, 99])
def test_document_of_newer_version_waits_for_an_upgrade(version: int) -> None:
    """It is no mistake of its author: an upgrade may be under way, so the same call may succeed."""
    document = {**encode_dag(DAG("x")), "schema": version}
    expected = f"the document of DAG 'x' has version {version}, and this release reads 4: upgrade"
    with pytest.raises(NewerFormError, match=expected):
        decode_dag(document)


def test_document_of_the_first_version_is_read() -> None:
    """One that was stored before types of runs could be left out allows all of them."""
    document = {**encode_dag(DAG("x")), "schema": 1}
    del document["allowed_run_types"]
    assert decode_dag(document).allowed_run_types is None


@pytest.mark.parametrize("schema", [1, 2])
def test_document_from_before_cycles_were_refused_allows_none(schema: int) -> None:
    """It is read as it is, also if it is in a cycle; its next push is looked at."""
    document = {**encode_dag(DAG("x")), "schema": schema}
    del document["allow_cycle"]
    assert decode_dag(document).allow_cycle is False


def test_document_from_before_kinds_groups_and_schemas_has_none() -> None:
    """One of version 3 has tasks for Spark, in no group, and params as plain values."""
    with DAG("x", params={"a": 1}) as dag:
        SparkTask("load", job="jobs.a:run")
    document = {**encode_dag(dag), "schema": 3}
    del document["param_schemas"]
    for name in ("kind", "groups", "inputs"):
        del document["tasks"][0][name]
    assert decode_dag(document) == dag


def test_document_over_one_megabyte_is_refused() -> None:
    """A DAG whose document is over the limit is an error that names the DAG and the size."""
    dag = DAG("big", params={"text": "x" * 1_000_000})
    with pytest.raises(SerializationError, match=r"DAG 'big'.* at most 1,000,000"):
        encode_dag(dag)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"catchup": "yes"}, "catchup: must be True or False"),
        ({"max_active_runs": 501}, "max_active_runs: must be at most 500"),
        ({"timetable": {"type": "NullTimetable"}}, "damaged"),
        ({"timetable": 5}, "damaged"),
        ({"start_date": "soon"}, "not an instant"),
        ({"param_schemas": 5}, "damaged"),
        ({"param_schemas": {"a": 5}}, "its schema must be a mapping"),
        ({"surprise": 1}, r"unknown \['surprise'\]"),
    ],
)
def test_damaged_document_is_refused_with_reason(change: dict[str, Any], words: str) -> None:
    """A document is checked as if an author had written it."""
    with pytest.raises(DefinitionError, match=words):
        decode_dag({**encode_dag(DAG("x")), **change})


@pytest.mark.parametrize("groups", ["load", None, [5], [""], ["a b"], ["x" * 201]])
def test_groups_of_a_task_are_a_list_of_ids(groups: object) -> None:
    """Anything else is refused, with the task."""
    document = encode_dag(rich_dag())
    document["tasks"][0]["groups"] = groups
    with pytest.raises(DefinitionError, match="'rich'"):
        decode_dag(document)


def test_document_without_a_key_is_refused() -> None:
    """A missing key is named."""
    document = encode_dag(DAG("x"))
    del document["owner"]
    with pytest.raises(SerializationError, match=r"missing \['owner'\]"):
        decode_dag(document)


def test_document_with_cyclic_tasks_is_refused() -> None:
    """A forged document cannot bring in a cycle."""
    document = encode_dag(rich_dag())
    document["tasks"][1]["downstream"] = ["first"]
    with pytest.raises(DefinitionError, match="cycle"):
        decode_dag(document)


@pytest.mark.parametrize("path", ["os.system", "subprocess.Popen", f"{__name__}.FullMoonTimetable"])
def test_timetable_outside_the_list_needs_the_gate(path: str) -> None:
    """Nothing outside the library is imported where author code may not run."""
    document = {**encode_dag(DAG("x")), "timetable": {"type": path, "data": {"year": 2026}}}
    with pytest.raises(SerializationError, match="only where its bundle may run"):
        decode_dag(document)


def test_authors_timetable_reads_back_behind_the_gate() -> None:
    """Where author code may run, a custom timetable comes back with its arguments."""
    dag = DAG("moon", schedule=FullMoonTimetable(2026), catchup=False)
    with author_code_allowed():
        copy = decode_dag(encode_dag(dag))
    assert isinstance(copy.timetable, FullMoonTimetable)
    assert copy.timetable.year == 2026


def test_class_that_is_no_timetable_is_refused() -> None:
    """Even behind the gate only timetables are taken for timetables."""
    document = {**encode_dag(DAG("x")), "timetable": {"type": "os.path.join", "data": {}}}
    with author_code_allowed(), pytest.raises(SerializationError, match="not a subclass"):
        decode_dag(document)


def test_timetable_defined_in_a_function_is_refused() -> None:
    """A class that cannot be found again by name is an error when it is written down."""

    class Hidden(Timetable):
        """A local class."""

    with pytest.raises(SerializationError, match="top of a module"):
        encode_dag(DAG("x", schedule=Hidden(), catchup=False))


def test_watcher_of_an_asset_reads_back_equal() -> None:
    """Watchers travel with their asset."""
    watched = Asset("inbox", watchers=[AssetWatcher("w", InboxTrigger(folder="in"))])
    dag = DAG("x", schedule=watched)
    with author_code_allowed():
        assert decode_dag(encode_dag(dag)) == dag
