"""What the sandbox says is not believed: nonsense is refused DAG by DAG, and stops nobody else."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from pendulum import datetime

from lamplighter import DAG
from lamplighter.bundles.importer import ImportProblem, ParsedFile
from lamplighter.errors import NewerFormError
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import RegisterReport, register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.serialization import encode_dag
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import Catalog, Dags, DagVersions
from lamplighter_local.stack import LocalStack

Register = Callable[..., RegisterReport]

DOCUMENT = encode_dag(DAG("evil"))


def found(document: Any = None, **other: Any) -> dict[str, Any]:
    """Return what the sandbox says about one DAG, some of it changed."""
    said = {"dag_id": "evil", "line": 1, "hash": "0", "schedule": "", "description": ""}
    return {**said, "document": DOCUMENT if document is None else document, **other}


def timetable(name: Any, data: Any) -> dict[str, Any]:
    """Return a document with such a timetable."""
    return DOCUMENT | {"timetable": {"type": name, "data": data}}


def nested(depth: int) -> dict[str, Any]:
    """Return a condition within a condition within a condition."""
    asset = {"name": "a", "uri": "a", "group": "g", "extra": {}, "watchers": []}
    condition: dict[str, Any] = {"asset": asset}
    for _ in range(depth):
        condition = {"all": [condition]}
    return timetable("AssetTriggeredTimetable", {"asset_condition": condition})


REFUSED = {
    "id is a number": found(dag_id=5),
    "id is none": found(dag_id=None),
    "id is empty": found(dag_id=""),
    "id has a slash": found(dag_id="a/b"),
    "id has a hash sign": found(dag_id="a#b"),
    "id is long": found(dag_id="x" * 5000),
    "id has half a character": found(dag_id="\ud800"),
    "schema is text": found(DOCUMENT | {"schema": "1"}),
    "document is empty": found({"schema": 1}),
    "unknown key": found(DOCUMENT | {"more": 1}),
    "type is a number": found(timetable(5, {})),
    "type is a list": found(timetable(["a"], {})),
    "type is no timetable": found(timetable("lamplighter.aws.client", {})),
    "type is missing": found(timetable("lamplighter.no.such.Timetable", {})),
    "type has no module": found(timetable("system", {})),
    "timetable is none": found(DOCUMENT | {"timetable": None}),
    "cron is a list": found(
        timetable("CronDataIntervalTimetable", {"expression": ["0"], "timezone": "UTC"})
    ),
    "limit is huge": found(DOCUMENT | {"max_active_runs": 10**40}),
    "limit is a fraction": found(DOCUMENT | {"max_active_runs": 1.5}),
    "catchup is text": found(DOCUMENT | {"catchup": "yes"}),
    "tasks are text": found(DOCUMENT | {"tasks": "abc"}),
    "tasks are none": found(DOCUMENT | {"tasks": None}),
    "start is text": found(DOCUMENT | {"start_date": "tomorrow"}),
    "document is none": found() | {"document": None},
    "document is a list": found([]),
    "id is a list": found(dag_id=["evil"]),
    "key too many": found(more=1),
    "keys missing": {"dag_id": "evil"},
    "not an object": 5,
    "not a number": found(timetable("NullTimetable", {"x": float("nan")})),
    "half a character": found(DOCUMENT | {"description": "\ud800"}),
    "very large": found(DOCUMENT | {"doc_md": "x" * 2_000_000}),
    "very deep": found(nested(3_000)),
    "start before all time": found(DOCUMENT | {"start_date": "0001-01-01T00:00:00+14:00"}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nonsense_about_a_dag_is_refused_alone(register_dags: Register, name: str) -> None:
    """One thing that is no DAG is one error on its file; the DAG beside it is registered."""
    report = register_dags(REFUSED[name], DAG("good"))
    assert report.new == ["good"]
    assert [problem.file for problem in report.errors] == ["dags/a.py"]
    assert [row.dag_id for row in Dags.scan()] == ["good"]
    assert [row.dag_id for row in DagVersions.scan()] == ["good"]
    assert Catalog.get("problems#bundle", "dags/a.py").has_errors is True
    assert Catalog.get("bundle", "bundle").registered == 1


def test_definition_of_a_newer_release_waits_for_the_upgrade(register_dags: Register) -> None:
    """A newer sandbox has answered: the push is late, and none of its DAGs is broken."""
    with pytest.raises(NewerFormError, match="has version 99, and this release reads"):
        register_dags(found(DOCUMENT | {"schema": 99}), DAG("good"))
    assert list(Dags.scan()) == []


def test_hash_of_the_sandbox_is_not_used(register_dags: Register, stack: LocalStack) -> None:
    """A sandbox that gives every definition the same hash hides no change."""
    register_dags(found(hash="same"))
    register_dags(found(DOCUMENT | {"description": "new"}, hash="same"))
    assert stack.dag("evil").version == "000002"


def test_id_of_the_document_is_not_used(register_dags: Register) -> None:
    """The id in a document that differs from the one it is announced under counts for nothing."""
    register_dags(found(DOCUMENT | {"dag_id": "other"}))
    assert [row.dag_id for row in Dags.scan()] == ["evil"]


# Runs that are precomputed.

OWN = found(
    encode_dag(DAG("evil", start_date=datetime(2026, 1, 5), catchup=False))
    | {"timetable": {"type": "os.system", "data": {"command": "true"}}}
)
RUN = {
    "run_after": "2026-01-05T13:00:00+00:00",
    "data_interval_start": "2026-01-05T12:00:00+00:00",
    "data_interval_end": "2026-01-05T13:00:00+00:00",
    "partition_key": None,
}


def answer(**other: Any) -> dict[str, Any]:
    """Return what the sandbox answers about a timetable."""
    said = {"dag_id": "evil", "runs": [RUN], "is_last": False, "owed": 0, "error": None}
    return {"evil": {**said, **other}}


def test_class_of_an_author_is_only_a_name(register_dags: Register, stack: LocalStack) -> None:
    """A timetable called os.system is never looked up here; the sandbox answers for it."""
    report = register_dags(OWN, runs=answer())
    assert report.errors == []
    row = stack.dag("evil")
    assert (row.is_custom, row.next_run_after) == (True, datetime(2026, 1, 5, 13))


MARKED = {
    "no answer": {},
    "a run is a number": answer(runs=[5]),
    "a run is empty": answer(runs=[{}]),
    "an instant is text": answer(runs=[RUN | {"run_after": "soon"}]),
    "an instant is none": answer(runs=[RUN | {"run_after": None}]),
    "an end is missing": answer(runs=[RUN | {"data_interval_end": None}]),
    "an error is given": answer(runs=[], error="LookupError: no calendar"),
    "runs are a number": answer(runs=5),
    "runs are none": answer(runs=None),
    "owed is text": answer(owed="many"),
    "a key is missing": {"evil": {"dag_id": "evil"}},
    "an answer is a number": {"evil": 5},
    "an error is long": answer(runs=[], error="x" * 500_000),
    "an instant overflows": answer(runs=[RUN | {"run_after": "0001-01-01T00:00:00+14:00"}]),
    "a key is a number": answer(runs=[RUN | {"partition_key": 5}]),
}


@pytest.mark.parametrize("name", MARKED)
def test_nonsense_about_runs_marks_its_dag(
    register_dags: Register, stack: LocalStack, name: str
) -> None:
    """An answer that is none is an error on that DAG, which waits; the others are registered."""
    report = register_dags(OWN, DAG("good"), runs=MARKED[name])
    assert report.new == ["evil", "good"]
    row = stack.dag("evil")
    assert row.schedule_error
    assert row.next_run_after is None
    assert row.due_shard is None
    assert len(report.errors) == 1
    assert Catalog.get("bundle", "bundle").registered == 1


def test_foreign_dag_in_answers_is_ignored(register_dags: Register, stack: LocalStack) -> None:
    """Runs precomputed for a DAG that was not asked about go nowhere."""
    other = {"good": answer()["evil"] | {"dag_id": "good"}}
    register_dags(OWN, DAG("good"), runs=answer() | other)
    assert stack.dag("good").next_run_after is None
    assert [row.id for row in Catalog.query("runs")] == ["evil"]


def test_only_what_is_known_of_a_run_is_stored(register_dags: Register) -> None:
    """Whatever else the sandbox puts into a run, or however many there are, is left out."""
    register_dags(OWN, runs=answer(runs=[RUN | {"more": "x" * 500_000}] * 1000))
    row = Catalog.get("runs", "evil")
    assert len(row.runs) == 64
    assert row.runs[0] == RUN


@pytest.mark.parametrize("length", [1_500, 10_000])
def test_long_partition_key_is_refused_alone(
    register_dags: Register, stack: LocalStack, length: int
) -> None:
    """A key that no table takes, which only a forger sends, keeps no other DAG from its runs."""
    long = RUN | {"data_interval_start": None, "data_interval_end": None}
    long |= {"run_after": "2026-01-05T11:00:00+00:00", "partition_key": "x" * length}
    runs = answer(runs=[long | {"run_after": f"2026-01-05T11:{n:02}:00+00:00"} for n in range(60)])
    good = DAG("good", schedule="0 * * * *", start_date=datetime(2026, 1, 5, 11))
    register_dags(OWN, good, runs=runs)
    stack.tick()
    stack.run_until_idle()
    assert len(stack.runs("good")) == 1
    assert stack.runs("evil") == []


# Whole files.

EVIL = "dags/evil.py"
FILES: dict[str, dict[str, Any]] = {
    "dags are a number": {"dags": 5},
    "dags are none": {"dags": None},
    "name is a number": {"file": 5},
    "name is a list": {"file": [EVIL]},
    "error in no file": {"errors": [ImportProblem("", None, "x")]},
    "error in a long file": {"errors": [ImportProblem("x" * 5000, None, "x")]},
    "error in a list": {"errors": [ImportProblem([EVIL], None, "x")]},  # type: ignore[arg-type]
    "message is a number": {"errors": [ImportProblem(EVIL, 1, 5)]},  # type: ignore[arg-type]
    "message is half": {"errors": [ImportProblem(EVIL, 1, "\ud800")]},
    "line is text": {"errors": [ImportProblem(EVIL, "one", "x")]},  # type: ignore[arg-type]
    "another file's error": {"errors": [ImportProblem("dags/good.py", 1, "x")]},
}


@pytest.mark.parametrize("said", FILES.values(), ids=FILES)
def test_nonsense_about_a_file_is_refused_alone(stack: LocalStack, said: dict[str, Any]) -> None:
    """An answer that is no description of a file stops no other file's DAGs."""
    evil = ParsedFile(**{"file": EVIL, **said})
    good = ParsedFile("dags/good.py", dags=[found(dag_id="good")])
    source = Push("bundle", "0" * 64, next_push_number("bundle"))
    with patch.object(Sandbox, "parse", lambda _: iter([evil, good])):
        register(source)
    assert stack.dag("good").push == 1
    assert Catalog.get("bundle", "bundle").registered == 1
