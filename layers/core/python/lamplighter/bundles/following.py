"""Questions to the timetables of DAGs: which runs follow the last one; and their answers, as JSON.

Only ever answered in a process of its own (see `worker`), because the timetable is an author's.
"""

from collections.abc import Mapping
from typing import TypedDict

from lamplighter.dags.dag import DAG
from lamplighter.dags.owed import following_runs
from lamplighter.dags.upcoming import run_as_json
from lamplighter.errors import DefinitionError, InvalidTimetableError
from lamplighter.timetables.base import DagRunInfo, DataInterval
from lamplighter.zones import iso, parse_instant


class LastRun(TypedDict):
    """The run that a schedule has come to, instants as ISO text."""

    run_after: str
    data_interval_start: str | None
    data_interval_end: str | None
    partition_date: str | None
    partition_key: str | None


class Question(TypedDict):
    """Which runs of a DAG follow `last`, seen from the instant `at`?"""

    file: str
    dag_id: str
    last: LastRun | None
    count: int
    at: str


class Answer(TypedDict):
    """The runs that follow; with an error there are none."""

    dag_id: str
    runs: list[dict[str, str | None]]
    is_last: bool
    owed: int
    error: str | None


def answer_to(question: Question, dags: Mapping[str, DAG]) -> Answer:
    """Return what the timetable of the DAG answers; whatever it raises is raised."""
    dag = dags.get(question["dag_id"])
    if dag is None:
        raise DefinitionError(f"there is no DAG {question['dag_id']!r} in {question['file']}")
    following = following_runs(
        dag,
        _run_of(question["last"]),
        count=question["count"],
        at=parse_instant(question["at"]),
    )
    return Answer(
        dag_id=dag.dag_id,
        runs=[_as_json(dag, info) for info in following.runs],
        is_last=following.is_last,
        owed=following.owed,
        error=None,
    )


def failure(question: Question, why: str) -> Answer:
    """Return the answer of a timetable that has none."""
    return Answer(dag_id=question["dag_id"], runs=[], is_last=False, owed=0, error=why)


def _run_of(last: LastRun | None) -> DagRunInfo | None:
    if last is None:
        return None
    start, end = last["data_interval_start"], last["data_interval_end"]
    interval = None
    if start is not None and end is not None:
        interval = DataInterval(parse_instant(start), parse_instant(end))
    day = last["partition_date"]
    return DagRunInfo(
        run_after=parse_instant(last["run_after"]),
        data_interval=interval,
        partition_date=None if day is None else parse_instant(day),
        partition_key=last["partition_key"],
    )


def _as_json(dag: DAG, info: DagRunInfo) -> dict[str, str | None]:
    run = {
        **run_as_json(dag, info),
        "partition_key": info.partition_key,
        "partition_date": None if info.partition_date is None else iso(info.partition_date),
    }
    for field in ("run_id", "partition_key"):
        value = run[field]
        if not isinstance(value, str) and (field == "run_id" or value is not None):
            raise InvalidTimetableError(
                f"DAG {dag.dag_id!r}: schedule: {field}={value!r} must be text"
            )
    return run
