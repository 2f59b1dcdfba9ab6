"""A deployment on this machine: the contract that users' tests are written against."""

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient
from pendulum import DateTime, duration
from pendulum import datetime as instant

from lamplighter import DAG, Asset, SparkTask, clock, runtime
from lamplighter.errors import LamplighterError, RefusedError
from lamplighter.executors.base import Executor, Job, JobRequest, JobState, Submission
from lamplighter.store.models import AssetQueue, Dags, Runs
from lamplighter.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from lamplighter.topology import URL_SETTINGS
from lamplighter_job.errors import ReportError
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.tools.checked_deployment import LocalDeployment

START = instant(2026, 1, 1)
MADE = Asset("made")
WriteBundle = Callable[[dict[str, str]], Path]


def hourly(dag_id: str = "hourly", **more: Any) -> DAG:
    """Return a DAG of every hour with one task that makes an asset."""
    arguments: dict[str, Any] = {"schedule": "0 * * * *", "start_date": START, **more}
    with DAG(dag_id, **arguments) as dag:
        SparkTask("load", entry_point="jobs/load.py", outlets=[MADE])
    return dag


def consumer() -> DAG:
    """Return a DAG that uses the asset."""
    with DAG("use", schedule=[MADE]) as dag:
        SparkTask("read", entry_point="jobs/read.py")
    return dag


@pytest.fixture(name="lamp")
def open_deployment() -> Iterator[LocalDeployment]:
    """Return a deployment with both at the start of a year."""
    with LocalDeployment([hourly(), consumer()], at="2026-01-01T00:00:00Z") as lamp:
        yield lamp


def dates(lamp: LocalDeployment, dag_id: str = "hourly") -> list[int]:
    """Return the hours of the logical dates of a DAG's runs."""
    return [run.logical_date.hour for run in lamp.runs(dag_id) if run.logical_date]


# Time.


def test_advance_takes_every_kind_of_duration(lamp: LocalDeployment) -> None:
    """Durations add up, instants may be text or datetimes of any zone, and nothing is skipped."""
    lamp.advance(minutes=59, seconds=59)
    assert lamp.runs("hourly") == []
    lamp.advance(seconds=1)
    assert dates(lamp) == [0]
    lamp.advance(hours=1.5)
    lamp.advance(to="2026-01-01T04:00:00+01:00")
    assert dates(lamp) == [0, 1, 2]
    lamp.advance(to=datetime.datetime(2026, 1, 1, 4))  # without a zone it is UTC
    lamp.advance(to=instant(2026, 1, 1, 6, tz="Europe/Zurich"))
    assert lamp.now == instant(2026, 1, 1, 5)
    lamp.advance(to=lamp.now)
    lamp.advance(days=0.25, weeks=0)
    assert dates(lamp) == list(range(11))
    assert lamp.now == instant(2026, 1, 1, 11)


def test_outage_is_made_up_for_when_it_ends(lamp: LocalDeployment) -> None:
    """While nothing wakes nothing is created; afterwards every hour has its run, late."""
    lamp.emit("made", event_id="in-an-outage")
    lamp.advance(hours=5, deliver=False)
    assert lamp.runs("hourly") == lamp.runs("use") == []
    lamp.check_invariants()
    lamp.advance(minutes=1)
    assert dates(lamp) == [0, 1, 2, 3, 4]
    assert {run.created_at for run in lamp.runs("hourly")} == {instant(2026, 1, 1, 5, 1)}
    assert "in-an-outage" in {e.event_id for run in lamp.runs("use") for e in run.events}


def test_run_until_idle_does_not_move_the_clock(lamp: LocalDeployment) -> None:
    """A run by hand is claimed and its job started, and there it stays."""
    run = lamp.trigger("hourly")
    assert (run.state, run.steps) == ("queued", ())
    lamp.run_until_idle()
    (run,) = lamp.runs("hourly")
    assert (run.state, run.step("load").state, lamp.now) == ("running", "submitted", START)
    lamp.advance(seconds=1)
    (run,) = lamp.runs("hourly")
    step = run.step("load")
    assert (run.state, run.ended_at, step.ended_at) == ("success", lamp.now, lamp.now)
    assert (step.state, step.try_number, step.error) == ("success", 1, None)
    assert step.job_run_id


# What comes from outside.


def test_event_is_consumed_once_with_what_it_carries(lamp: LocalDeployment) -> None:
    """An id that came before is known; a run has its events with extra, number and time."""
    lamp.advance(seconds=30)
    assert lamp.emit("made", extra={"rows": 10}, event_id="e1") == "e1"
    lamp.run_until_idle()
    lamp.emit("made", extra={"rows": 11}, event_id="e1")
    made = lamp.emit("made")
    lamp.advance(minutes=1)
    first, second = lamp.runs("use")
    (event,) = first.events
    assert (event.asset, event.event_id, event.seq) == ("made", "e1", 1)
    assert (event.extra, event.timestamp) == ({"rows": 10}, START.add(seconds=30))
    assert [each.event_id for each in second.events] == [made]
    assert (first.run_type, first.logical_date) == ("asset_triggered", None)


def test_trigger_is_of_now_of_a_date_or_of_none(lamp: LocalDeployment) -> None:
    """Left out, the date is now; a conf and an interval go with the run."""
    lamp.advance(minutes=10)
    now = lamp.trigger("hourly")
    dated = lamp.trigger("hourly", logical_date="2025-05-05T05:00:00Z", conf={"full": True})
    undated = lamp.trigger("hourly", logical_date=None)
    of_a_day = lamp.trigger(
        "hourly", logical_date=instant(2025, 1, 1), data_interval=("2025-01-01", "2025-01-02")
    )
    assert now.logical_date == lamp.now
    assert (dated.run_id, dated.conf) == ("manual__2025-05-05T05:00:00+00:00", {"full": True})
    assert (undated.logical_date, undated.run_type) == (None, "manual")
    assert of_a_day.data_interval_end == instant(2025, 1, 2)
    lamp.advance(seconds=5)
    assert {run.state for run in lamp.runs("hourly")} == {"success"}


def test_pause_keeps_or_drops_what_is_missed(lamp: LocalDeployment) -> None:
    """With catchup all hours follow when it ends, without it the newest one only."""
    lamp.push([hourly("latest", catchup=False)], name="other")
    for dag_id in ("hourly", "latest"):
        lamp.pause(dag_id)
    lamp.advance(hours=5)
    assert lamp.runs("hourly") == lamp.runs("latest") == []
    assert lamp.dag("hourly").is_paused
    for dag_id in ("hourly", "latest"):
        lamp.unpause(dag_id)
    lamp.run_until_idle()
    assert (dates(lamp, "hourly"), dates(lamp, "latest")) == ([0, 1, 2, 3, 4], [4])
    lamp.check_invariants()


def test_push_of_another_version_changes_what_follows(lamp: LocalDeployment) -> None:
    """A new schedule goes on where the last interval ended; what left is stale."""
    lamp.advance(hours=2)
    version = lamp.dag("hourly").version
    lamp.push([hourly(schedule="30 * * * *")])
    assert lamp.dag("hourly").version != version
    assert lamp.dag("use").is_stale
    lamp.advance(hours=2)
    assert [str(run.logical_date)[11:16] for run in lamp.runs("hourly")] == [
        "00:00",
        "01:00",
        "02:00",
        "02:30",
    ]
    lamp.check_invariants()
    lamp.push(dag for dag in (hourly(), consumer()))
    assert not lamp.dag("use").is_stale
    assert [dag.dag_id for dag in lamp.dags()] == ["hourly", "use"]


def test_broken_file_breaks_its_own_dags_only(
    lamp: LocalDeployment, write_bundle: WriteBundle
) -> None:
    """A folder that is pushed after objects is a bundle of its own; its errors are told."""
    head = "import pendulum\nfrom lamplighter import DAG, SparkTask\n"
    good = head + "with DAG('b', schedule='@hourly', start_date=pendulum.datetime(2026, 1, 1)): 0"
    root = write_bundle({"dags/a.py": good.replace("'b'", "'a'"), "dags/b.py": good})
    lamp.push(root)
    write_bundle({"dags/a.py": "1 / 0"})
    lamp.push(str(root))
    states = {dag.dag_id: dag.has_import_errors for dag in lamp.dags()}
    assert states == {"a": True, "b": False, "hourly": False, "use": False}
    lamp.advance(hours=1, minutes=1)
    assert lamp.runs("a") == []
    assert len(lamp.runs("b")) == 1


class EveryPrime(Timetable):
    """An author's timetable: the first primes as hours of a day."""

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        if restriction.earliest is None:
            return None
        begin = restriction.earliest.start_of("day")
        after = last_automated_data_interval.end if last_automated_data_interval else begin
        for hour in (2, 3, 5, 7, 11):
            end = begin.add(hours=hour)
            if end > after:
                return DagRunInfo.interval(after, end)
        return None

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        return DataInterval(run_after.subtract(hours=7), clock.now())


class Spoilt(EveryPrime):
    """One that raises."""

    def infer_manual_data_interval(self, *, run_after: DateTime) -> DataInterval:
        raise ZeroDivisionError(f"of the author's, at {run_after}")

    def next_dagrun_info(self, **_: Any) -> DagRunInfo | None:
        raise ZeroDivisionError("of the author's")


def test_timetables_of_the_test_run_as_objects() -> None:
    """Whoever writes a timetable may hand it over with its DAG; one that raises says so."""
    dags = [hourly("primes", schedule=EveryPrime()), hourly("spoilt", schedule=Spoilt())]
    with LocalDeployment(dags, at=START) as lamp:
        lamp.advance(hours=12)
        ends = [run.data_interval_end for run in lamp.runs("primes")]
        assert [end.hour for end in ends if end] == [2, 3, 5, 7, 11]
        assert "of the author's" in (lamp.dag("spoilt").schedule_error or "")
        lamp.check_invariants()


def test_trigger_asks_a_timetable_of_the_test_for_the_interval() -> None:
    """It infers that of a manual run, by the deployment's clock; one that raises says so."""
    dags = [hourly("primes", schedule=EveryPrime()), hourly("spoilt", schedule=Spoilt())]
    with LocalDeployment(dags, at=START) as lamp:
        lamp.advance(hours=1)
        run = lamp.trigger("primes", logical_date=START)
        assert run.data_interval_start == START.subtract(hours=7)
        assert run.data_interval_end == START.add(hours=1)
        with pytest.raises(RefusedError, match=r"DAG 'spoilt' failed: .* with a data interval"):
            lamp.trigger("spoilt")
        assert lamp.runs("spoilt") == []
        lamp.check_invariants()


# Steps.


def test_outcomes_and_durations_are_as_told(lamp: LocalDeployment) -> None:
    """Attempts fail or are skipped as often as was said, and last as long."""
    with DAG("many", schedule=None) as dag:
        SparkTask("a", entry_point="a.py", retries=2, retry_delay=duration(minutes=1))
        SparkTask("b", entry_point="b.py")
    lamp.push([dag], name="other")
    lamp.fail_next("many", "a", times=2, error="no luck")
    lamp.skip_next("many", "b", reason="nothing new")
    lamp.takes("many", "a", minutes=30)
    lamp.trigger("many")
    lamp.advance(hours=1, minutes=1, seconds=30)
    (run,) = lamp.runs("many")
    assert (run.step("a").state, run.step("a").try_number) == ("up_for_retry", 2)
    assert run.step("b").state == "skipped"
    lamp.advance(minutes=32)
    (run,) = lamp.runs("many")
    assert (run.state, run.step("a").try_number) == ("success", 3)
    assert run.ended_at == START.add(minutes=92)
    lamp.fail_next("many", "a", times=3, error="no luck")
    lamp.trigger("many")
    lamp.advance(hours=2)
    failed = lamp.runs("many")[-1]
    assert (failed.state, failed.step("a").error) == ("failed", "no luck")


class OneByOne(Executor):
    """An executor of a user's: a job is over when it is asked about for the second time."""

    name = "one-by-one"

    def __init__(self) -> None:
        self.requests: dict[str, JobRequest] = {}
        self.asked: dict[str, int] = {}

    def start(self, request: JobRequest) -> str:
        """Note a job."""
        self.requests[request.token] = request
        return request.token

    def find(self, submission: Submission) -> str | None:
        """Return the job of a submission."""
        return submission.token if submission.token in self.requests else None

    def describe(self, job_run_id: str) -> Job | None:
        """Return a job, the second time as done."""
        request = self.requests[job_run_id]
        self.asked[job_run_id] = self.asked.get(job_run_id, 0) + 1
        state = JobState.RUNNING if self.asked[job_run_id] == 1 else JobState.SUCCESS
        return Job(job_run_id, state, request.context_uri, started_at=clock.now())

    def cancel(self, job_run_id: str) -> None:
        """Do nothing."""


def test_outputs_of_a_step_are_what_the_test_says() -> None:
    """From then on every success leaves them; later steps and the test read them."""
    with DAG("reading", schedule=None) as dag:
        load = SparkTask("load", job="jobs.x:load")
        load >> SparkTask("check", job="jobs.x:check", arguments=["{{ outputs.load.rows }}"])
    with LocalDeployment([dag], at=START) as lamp:
        lamp.leaves("reading", "load", rows=3, task_id="any name will do")
        for _ in range(2):
            lamp.trigger("reading")
            lamp.advance(minutes=1)
        lamp.leaves("reading", "load")
        lamp.trigger("reading")
        lamp.advance(minutes=1)

        *filled, empty = lamp.runs("reading")
        assert [run.state for run in filled] == ["success", "success"]
        for run in filled:
            assert lamp.outputs(run, "load") == {"rows": 3, "task_id": "any name will do"}
            assert lamp.outputs(run, "check") == {}
        assert (empty.state, lamp.outputs(empty, "load")) == ("failed", {})
        assert "outputs.load.rows" in str(empty.error)
        with pytest.raises(RefusedError, match="no step 'nope'"):
            lamp.outputs(empty, "nope")
        with pytest.raises(ReportError, match="outputs must hold JSON values only"):
            lamp.leaves("reading", "load", when=START)


def test_executor_of_the_user_runs_the_steps() -> None:
    """Whatever has the methods of an executor gets the jobs, and is asked what became of them."""
    executor = OneByOne()
    with LocalDeployment([hourly()], at=START, executor=executor) as lamp:
        lamp.advance(hours=2, minutes=5)
        assert [run.state for run in lamp.runs("hourly")] == ["success", "success"]
        with pytest.raises(RefusedError, match="only be set with executor='instant'"):
            lamp.takes("hourly", "load", minutes=1)
        lamp.check_invariants()
    assert len(executor.requests) == 2
    assert "start" not in vars(executor)


def test_instant_steps_may_be_short_of_workers() -> None:
    """A `FakeEmr` of one's own has a capacity; jobs beyond it wait."""
    emr = FakeEmr(capacity=1, takes_seconds=60)
    with LocalDeployment([hourly("a"), hourly("b")], at=START, executor=emr) as lamp:
        lamp.advance(hours=1, seconds=90)
        states = sorted(lamp.runs(dag_id)[0].state for dag_id in ("a", "b"))
        assert states == ["running", "success"]


# What one sees.


def test_dag_tells_what_comes_next(lamp: LocalDeployment) -> None:
    """Schedule, next run, slots and version are there for assertions."""
    dag = lamp.dag("hourly")
    assert (dag.schedule, dag.next_run, dag.next_run_after) == (
        "0 * * * *",
        START,
        START.add(hours=1),
    )
    assert (dag.is_paused, dag.active, dag.waiting, dag.bundle) == (False, (), (), "objects")
    with pytest.raises(AttributeError):
        dag.is_paused = True  # type: ignore[misc] # that it cannot be set is the point


def test_message_that_nobody_can_read_is_a_dead_letter(lamp: LocalDeployment) -> None:
    """It is told with its reason, as often as one looks; the good ones beside it are taken."""
    sqs = boto3.client("sqs")
    sqs.send_message(QueueUrl=lamp.queue_url("events"), MessageBody="poison")
    lamp.emit("made", event_id="good")
    lamp.emit("unheard_of")
    lamp.run_until_idle()
    assert [each.event_id for run in lamp.runs("use") for each in run.events] == ["good"]
    for _ in range(2):
        letters = {letter.body: letter.reason for letter in lamp.dead_letters()}
        assert len(letters) == 2
        assert "JSON" in letters["poison"]
    lamp.advance(hours=1)
    assert len(lamp.dead_letters()) == 2


def test_tables_and_queues_can_be_reached_by_name(lamp: LocalDeployment) -> None:
    """Names are those of the emulator that boto3 talks to."""
    table = boto3.client("dynamodb").describe_table(TableName=lamp.table_name("Runs"))["Table"]
    assert table["TableStatus"] == "ACTIVE"
    for queue in ("events", "events.fifo", "claims", "submits", "jobstates", "registers"):
        assert lamp.queue_url(queue).endswith(queue)


def test_damaged_rows_break_invariants(lamp: LocalDeployment) -> None:
    """Whatever someone else writes into the tables is noticed, each thing for itself."""
    lamp.advance(hours=1, seconds=5)
    lamp.check_invariants()
    (run,), dag = Runs.query("hourly"), Dags.get("hourly")
    (queue,) = AssetQueue.query("use")
    damages: dict[str, Callable[[], object]] = {
        "events": lambda: queue.update([AssetQueue.consumed_seq.set(0)]),
        "slots of no living run": lambda: dag.update([Dags.active.add({"gone"})]),
        "is running but is listed under": lambda: run.update([Runs.state.set("running")]),
        "its next run should be": lambda: dag.update([Dags.next_run_after.set(START)]),
        "no run for": run.delete,
    }
    for message, damage in damages.items():
        damage()
        with pytest.raises(AssertionError, match=message):
            lamp.check_invariants()


# Wrong use.


def test_wrong_calls_are_refused_in_one_clear_line(lamp: LocalDeployment) -> None:
    """Each names what is wrong and what would be right, and nothing has happened."""
    wrong: dict[str, Callable[[], object]] = {
        "give either to=": lamp.advance,
        "or a duration": lambda: lamp.advance(to="2026-01-02", hours=1),
        "hour=1 is not a duration": lambda: lamp.advance(hour=1),
        "hours=nan is not": lambda: lamp.advance(hours=float("nan")),
        "hours='1' is not": lambda: lamp.advance(hours="1"),  # type: ignore[arg-type] # is the point
        "it cannot go back": lambda: lamp.advance(hours=-1),
        "is not an instant": lambda: lamp.advance(to="soon"),
        "is not an instant: give": lambda: lamp.advance(to=datetime.date(2026, 1, 2)),  # type: ignore[arg-type] # is the point
        "give a duration such as": lambda: lamp.takes("hourly", "load"),
        "cannot take -1": lambda: lamp.takes("hourly", "load", seconds=-1),
        "has no task 'x' (there are: load)": lambda: lamp.takes("hourly", "x", seconds=1),
        "no DAG 'hurly'": lambda: lamp.fail_next("hurly", "load"),
        "no task 'loda'": lambda: lamp.leaves("hourly", "loda", rows=3),
        "use 1 or more": lambda: lamp.fail_next("hourly", "load", times=0),
        "there is no DAG 'none'": lambda: lamp.runs("none"),
        f"no queue 'evens' (there are: {', '.join(sorted(URL_SETTINGS))})": lambda: lamp.queue_url(
            "evens"
        ),
        "no table 'runs' (there are: Dags": lambda: lamp.table_name("runs"),
        "conf must be a mapping": lambda: lamp.trigger("hourly", conf=[1]),  # type: ignore[arg-type] # is the point
        "conf must hold JSON": lambda: lamp.trigger("hourly", conf={"a": object()}),
        "nowhere is not a bundle": lambda: lamp.push("nowhere"),
        "give a folder, or a list": lambda: lamp.push(hourly()),  # type: ignore[arg-type] # is the point
        "7 is not a DAG": lambda: lamp.push([7]),  # type: ignore[list-item] # is the point
        "duplicate DAG id": lambda: lamp.push([hourly(), hourly()]),
        "send exactly one of": lamp.emit,
        "has no step 'x'": lambda: lamp.trigger("use").step("x"),
        "already open": lamp.__enter__,
        "named 'local' is open": lambda: LocalDeployment(at=START).__enter__(),
    }
    for message, call in wrong.items():
        with pytest.raises(LamplighterError) as refused:
            call()
        assert message in str(refused.value)
        assert "\n" not in str(refused.value)
    assert lamp.runs("hourly") == []
    assert lamp.now == START


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"at": "soon"}, "'soon' is not an instant"),
        ({"at": None}, "None is not an instant"),
        (
            {"executor": "sparks"},
            "executor='sparks': use 'instant', 'emr', 'spark', or an Executor",
        ),
        ({"executor": object()}, "it has no start, find, describe, cancel"),
        ({"bundle": "nowhere"}, "nowhere is not a bundle"),
        ({"variables": {"a": 1}}, "variable 'a' must be a text, not int"),
        ({"settings": {"due_shard": 2}}, "there is no setting 'due_shard'; did you mean"),
        ({"settings": {"variables": {"a": "b"}}}, "there is no setting 'variables'"),
    ],
)
def test_wrong_arguments_are_refused_and_leave_nothing(
    arguments: dict[str, Any], message: str
) -> None:
    """A deployment that could not be opened has patched nothing, and the next one opens."""
    before = traces()
    with pytest.raises(LamplighterError, match=message):
        LocalDeployment(**{"at": START, **arguments}).__enter__()
    assert traces() == before


def traces() -> tuple[object, ...]:
    """Return everything that a deployment changes in its process."""
    return (
        BaseClient._make_api_call,
        dict(os.environ),
        runtime.current(),
        runtime.current().settings,
        set(runtime.current().clients),
        set(runtime.current().caches),
        type(clock.now()),
        abs(clock.now() - DateTime.now("UTC")) < duration(hours=1),
    )


def test_error_inside_leaves_nothing_patched_and_the_next_begins_anew() -> None:
    """Whatever a test raises, the process is as before; what is closed cannot be used."""
    before = traces()
    lamp = LocalDeployment([hourly()], at=START)
    with pytest.raises(ZeroDivisionError), lamp:
        raise ZeroDivisionError
    assert traces() == before
    calls: list[Callable[[], object]] = [
        lambda: lamp.now,
        lamp.dags,
        lambda: lamp.dag("hourly"),
        lambda: lamp.runs("hourly"),
        lambda: lamp.pause("hourly"),
        lambda: lamp.unpause("hourly"),
        lambda: lamp.trigger("hourly", logical_date="2026-01-01"),
        lambda: lamp.emit("made"),
        lambda: lamp.push([]),
        lambda: lamp.takes("hourly", "load", hours=1),
        lambda: lamp.fail_next("hourly", "load"),
        lamp.dead_letters,
        lambda: lamp.queue_url("events"),
        lambda: lamp.table_name("Runs"),
        lamp.run_until_idle,
        lamp.check_invariants,
    ]
    for call in calls:
        with pytest.raises(RefusedError, match="not open"):
            call()
    with pytest.raises(RefusedError, match="is closed: create"):
        lamp.__enter__()
    with LocalDeployment([hourly()], at="2027-01-01", catch_up=False) as second:
        second.advance(hours=1)
        assert [run.logical_date for run in second.runs("hourly")] == [instant(2027, 1, 1)]
    assert traces() == before


# Determinism.


def morning(seed: int) -> Any:
    """Return all runs of a simulated morning, and the faults in it."""
    with LocalDeployment([hourly(), consumer()], at=START, seed=seed) as lamp:
        lamp.faults.probability(conflict=0.1, throttle=0.05)
        lamp.fail_next("hourly", "load")
        lamp.emit("made")
        lamp.advance(hours=4)
        lamp.trigger("hourly", logical_date=None)
        lamp.advance(minutes=5)
        history = [repr(run) for dag in lamp.dags() for run in lamp.runs(dag.dag_id)]
        return [history, lamp.faults.injected]


def test_same_seed_gives_the_same_history() -> None:
    """Ids, times, faults and all, whatever order sets have in a process."""
    program = (
        f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r});"
        "from test_deployment import morning; print(json.dumps(morning(7)))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    first = morning(7)
    assert json.loads(told.stdout) == first
    assert len(first[0]) > 8
    assert first[1]
