"""Timetables of authors: asked in the sandbox, precomputed in the catalog, claimed with no call."""

import inspect
import io
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends
from pendulum import DateTime, datetime

from lamplighter import aws, loading
from lamplighter.bundles.fork import Limits
from lamplighter.identifiers import bundle_key
from lamplighter.registry import custom_timetables
from lamplighter.registry.custom_timetables import refill
from lamplighter.store.models import AssetQueue, Catalog
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.handlers import handler_of
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.patience import with_patience
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

NOON = datetime(2026, 1, 5, 12, 0, 5)
HEAD = """
import pendulum
from lamplighter import DAG, Asset
from lamplighter.timetables.assets import AssetOrTimeSchedule
from lamplighter.timetables.base import DagRunInfo, DataInterval, Timetable
NINE = pendulum.datetime(2026, 1, 5, 9)

class Every(Timetable):
    def __init__(self, minutes=60):
        self.minutes = minutes
    def serialize(self):
        return {"minutes": self.minutes}
    @classmethod
    def deserialize(cls, data):
        return cls(data["minutes"])
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        last = last_automated_data_interval
        start = last.end if last else restriction.earliest
        return DagRunInfo.interval(start, start.add(minutes=self.minutes))
"""
OWN = "DAG('own', schedule=Every(), start_date=NINE, max_active_runs=500)\n"
PLAIN = "DAG('plain', schedule='0 * * * *', start_date=NINE)\n"


class Push(Protocol):
    """Pushes a DAG file as a bundle, and lets it be registered."""

    def __call__(self, text: str, *, other: str = "") -> None: ...


@pytest.fixture
def push(stack: LocalStack, tmp_path: Path) -> Push:
    """Return a function that pushes one DAG file, and another if there is one."""

    def push(text: str, *, other: str = "") -> None:
        shutil.rmtree(tmp_path / "dags", ignore_errors=True)
        (tmp_path / "dags").mkdir()
        (tmp_path / "dags" / "own.py").write_text(HEAD + text, encoding="utf-8")
        (tmp_path / "dags" / "z.py").write_text(HEAD + other, encoding="utf-8")
        stack.push(tmp_path)

    return push


@pytest.fixture(autouse=True)
def _nothing_of_an_author_is_loaded_here() -> Iterator[None]:
    """Fail if this process, where all functions but the sandbox's workers run, loads a class."""
    real = loading.load_class

    def load(path: str, base: type) -> type:
        assert path.startswith("lamplighter."), f"{path} was loaded outside the sandbox"
        return real(path, base)

    def refuse(*_: object) -> None:
        raise AssertionError("a DAG file was imported outside the sandbox")

    with (
        patch("lamplighter.timetables.base.load_class", load),
        patch("lamplighter.bundles.importer._run", refuse),
    ):
        yield


def precomputed(dag_id: str = "own") -> Catalog:
    """Return what is precomputed for a DAG."""
    return Catalog.get("runs", dag_id, consistent_read=True)


def columns(row: Any, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in names)


def hours(stack: LocalStack, dag_id: str = "own") -> list[int]:
    """Return the hours, counted from midnight of the first day, at which runs may begin."""
    first = NOON.start_of("day")
    return [int((run.run_after - first).total_hours()) for run in stack.runs(dag_id)]


def wake(stack: LocalStack, *, after: int) -> None:
    """Let hours pass in which no timer fires, and then tick."""
    stack.advance(minutes=2)  # what is left of a push
    stack.clock.move(to=NOON.add(hours=after))
    stack.tick()
    stack.run_until_idle()


def failing(stack: LocalStack) -> list[str]:
    """Return the messages on `registers` that were received and not acknowledged."""
    queue = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues["local-registers"]
    assert queue.name in stack.settings.queue_url("registers")
    return [message.body for message in queue._messages if message.approximate_receive_count]


# From the push to the claim.


def test_push_stores_the_next_64_runs(stack: LocalStack, push: Push) -> None:
    """A push asks for 64 runs from the start on, and the row has the first."""
    pause_at_creation = OWN.replace("max_active", "is_paused_upon_creation=True, max_active")
    push(pause_at_creation)
    row = precomputed()
    assert (len(row.runs), row.is_last, row.version) == (64, False, "000001")
    assert row.runs[0]["data_interval_start"] == "2026-01-05T09:00:00+00:00"
    assert stack.dag("own").next_run_after == datetime(2026, 1, 5, 10)


def test_row_has_the_words_of_the_timetable(stack: LocalStack, push: Push) -> None:
    """What a DAG's row says of its schedule is what the author's timetable calls itself."""
    push("Every.summary = property(lambda self: f'every {self.minutes} minutes')\n" + OWN)

    assert stack.dag("own").schedule == "every 60 minutes"


def test_more_than_64_runs_come_without_holes(stack: LocalStack, push: Push) -> None:
    """A clock that moves past all that was precomputed finds every run, each once."""
    push(OWN)
    asked: list[list[Any]] = []
    real = custom_timetables.query_sandbox

    def ask(where: Any, questions: Any) -> Any:
        asked.append(list(questions))
        return real(where, questions)

    with patch.object(custom_timetables, "query_sandbox", ask):
        for after in range(5, 80, 5):
            wake(stack, after=after)
    assert hours(stack) == list(range(10, 10 + 3 + 75))
    assert 1 <= len(asked) <= 6
    assert len(precomputed().runs) == 64


def test_refill_comes_when_half_is_used(stack: LocalStack, push: Push) -> None:
    """Up to the 32nd run nobody asks the author again, and after it someone does."""
    push(OWN)
    before = precomputed().updated_at
    wake(stack, after=29)
    assert (len(stack.runs("own")), precomputed().updated_at) == (32, before)
    wake(stack, after=30)
    assert precomputed().updated_at > before
    assert precomputed().runs[0]["run_after"] == "2026-01-06T19:00:00+00:00"


def test_long_outage_is_caught_up_wholly(stack: LocalStack, push: Push) -> None:
    """After an outage of 200 runs all of them are created, asking as often as it takes."""
    push(OWN)
    wake(stack, after=200)
    assert hours(stack) == list(range(10, 10 + 3 + 200))


def test_long_outage_without_catchup_gives_one(stack: LocalStack, push: Push) -> None:
    """Without catchup an outage longer than what was precomputed gives the newest run alone."""
    push(OWN.replace("start_date", "catchup=False, start_date"))
    first = len(stack.runs("own"))
    wake(stack, after=200)
    assert hours(stack)[first:] == [212]
    assert stack.dag("own").next_run_after == datetime(2026, 1, 5).add(hours=213)


def test_unpausing_without_catchup_gives_the_newest(stack: LocalStack, push: Push) -> None:
    """A pause beyond all that was precomputed ends with the newest run."""
    push(OWN.replace("start_date", "catchup=False, start_date"))
    first = len(stack.runs("own"))
    pause("own")
    stack.clock.move(to=NOON.add(hours=100))
    unpause("own")
    stack.run_until_idle()
    stack.tick()
    stack.run_until_idle()
    assert hours(stack)[first:] == [112]


def test_edited_code_is_followed_from_the_push_on(stack: LocalStack, push: Push) -> None:
    """Other code with the same arguments is the same version, and decides the next runs."""
    push(OWN)
    version = stack.dag("own").version
    faster = HEAD.partition("class Every")[2].replace(
        "start.add(minutes=self.minutes)", "start.add(minutes=15)"
    )
    push(f"class Every{faster}{OWN}")
    assert stack.dag("own").version == version
    assert stack.dag("own").next_run_after == datetime(2026, 1, 5, 12, 15)
    stack.advance(minutes=40)
    assert [run.run_after.minute for run in stack.runs("own")][-2:] == [15, 30]
    assert len(stack.runs("own")) == 5


def test_changed_arguments_are_a_new_version(stack: LocalStack, push: Push) -> None:
    """Other arguments are another version, precomputed anew from the position."""
    push(OWN)
    push(OWN.replace("Every()", "Every(30)"))
    assert precomputed().version == stack.dag("own").version == "000002"
    assert stack.dag("own").next_run_after == datetime(2026, 1, 5, 12, 30)


def test_custom_and_built_in_replace_each_other(stack: LocalStack, push: Push) -> None:
    """A schedule may become an author's own and back; nothing is repeated or left out."""
    push(OWN)
    push(OWN.replace("Every()", "'0 * * * *'"))
    stack.advance(hours=2)
    assert stack.dag("own").is_custom is None
    push(OWN)
    stack.advance(hours=2)
    assert hours(stack) == list(range(10, 17))


def test_end_date_ends_what_is_foretold(stack: LocalStack, push: Push) -> None:
    """A timetable that says that it is over is believed, and not asked again."""
    over = """
class Short(Every):
    def next_dagrun_info(self, **asked):
        info = super().next_dagrun_info(**asked)
        return info if info.run_after.hour < 15 else None
"""
    push(over + OWN.replace("Every", "Short"))
    assert precomputed().is_last is True
    stack.advance(hours=9)
    assert hours(stack) == [10, 11, 12, 13, 14]
    assert stack.dag("own").due_shard is None


# Timetables with fewer runs than they could have.

ONCE = """
class Once(Timetable):
    periodic = False
    def next_dagrun_info(self, *, last_automated_data_interval, restriction):
        return None if last_automated_data_interval else DagRunInfo.exact(NINE)
DAG('own', schedule=Once(), start_date=NINE)
"""


def test_custom_timetable_without_periods_runs_once(stack: LocalStack, push: Push) -> None:
    """An author's @once gives its one run, and does not keep the functions busy."""
    real = stack.call
    batches = 0

    def call(function: str, event: dict[str, Any]) -> Any:
        nonlocal batches
        batches += 1
        assert batches < 12, "messages go round in circles"
        return real(function, event)

    with patch.object(stack, "call", call):
        push(ONCE)
    assert len(stack.runs("own")) == 1
    assert stack.dag("own").due_shard is None


def test_slow_refill_does_not_stop_the_dag(stack: LocalStack, push: Push) -> None:
    """An answer that is older than all its runs is not the end of the schedule."""
    push(OWN)
    real = custom_timetables.query_sandbox
    is_slow = True

    def ask(where: Any, questions: Any) -> Any:
        nonlocal is_slow
        answer = real(where, questions)
        if is_slow:
            is_slow = False
            for _ in range(3):
                stack.clock.move(to=stack.clock.now().add(hours=40))
                stack.tick()
                stack.run_until_idle()
        return answer

    with patch.object(custom_timetables, "query_sandbox", ask):
        refill("own")
    stack.run_until_idle()
    assert stack.dag("own").next_run_after == datetime(2026, 1, 5).add(hours=133)


# Timetables that fail.

BAD = """
class Bad(Every):
    def next_dagrun_info(self, **asked):
        info = super().next_dagrun_info(**asked)
        if info.run_after < NINE.add(hours=3):
            return info
        {}
DAG('bad', schedule=Bad(), start_date=NINE)
"""
FAILURES = {
    "raises": ("raise LookupError('no calendar')", "LookupError: no calendar"),
    "exits": ("import sys; sys.exit(3)", "sys.exit(3)"),
    "dies": ("import os; os._exit(0)", "ended before it was done"),
    "hangs": ("while True: pass", "took longer than"),
    "hoards": ("bytearray(3 * 1024**3)", "memory"),
    "naive": ("return DagRunInfo.interval(info.run_after.naive(), info.run_after)", "time zone"),
    "backwards": ("return DagRunInfo.interval(NINE.subtract(days=9), NINE)", "went backwards"),
    "stands still": (
        "return DagRunInfo.interval(NINE.add(hours=1), NINE.add(hours=2))",
        "did not advance",
    ),
    "nonsense": ("return 'tomorrow'", "not a DagRunInfo"),
}


def test_failing_timetable_marks_only_its_dag(stack: LocalStack, push: Push) -> None:
    """Each way to fail is an error on its own DAG; the DAGs in the same file have their runs."""
    text = "".join(
        BAD.replace("Bad", f"Bad{at}").replace("'bad'", f"'bad{at}'").format(code)
        for at, (code, _) in enumerate(FAILURES.values())
    )

    def push_with_limit(seconds: float) -> int:
        limits = Limits(seconds=seconds, memory_bytes=700 * 1024**2, processes=1)
        with patch.object(
            inspect.getmodule(handler_of("sandbox")), "limits_within", lambda _: limits
        ):
            push(text + OWN, other=PLAIN)
        errors = (stack.dag(f"bad{at}").schedule_error or "" for at in range(len(FAILURES)))
        return sum("took longer than" in error for error in errors)

    with_patience(push_with_limit, lambda late: late != 1)
    for at, (_, words) in enumerate(FAILURES.values()):
        row = stack.dag(f"bad{at}")
        assert words in (row.schedule_error or "")
        assert columns(row, "next_run_after", "due_shard", "has_import_errors") == (
            None,
            None,
            False,
        )
        assert stack.runs(f"bad{at}") == []
    assert hours(stack) == hours(stack, "plain") == [10, 11, 12]
    problems = Catalog.get("problems#bundle", "dags/own.py").problems
    assert len(problems) == len(FAILURES)
    assert failing(stack) == []
    require_sound()


def test_mended_timetable_goes_on(stack: LocalStack, push: Push) -> None:
    """A timetable that failed and is mended, with the same arguments, has its runs."""
    push(BAD.format("raise LookupError('no calendar')"))
    assert stack.dag("bad").schedule_error is not None
    push(BAD.format("return info"))
    row = stack.dag("bad")
    assert columns(row, "schedule_error", "version") == (None, "000001")
    assert hours(stack, "bad") == [10, 11, 12]


MIXED = "AssetOrTimeSchedule(timetable=Every(), assets=Asset('a'))"


@pytest.mark.parametrize("schedule", ["Every()", MIXED], ids=["alone", "mixed"])
def test_end_date_is_kept_though_the_timetable_ignores_it(
    stack: LocalStack, push: Push, schedule: str
) -> None:
    """The last run is that of the end date, and the DAG leaves the index."""
    push(
        OWN.replace("Every()", schedule).replace(
            "start_date", "end_date=NINE.add(hours=4), start_date"
        )
    )
    assert precomputed().is_last
    wake(stack, after=9)
    assert hours(stack) == [10, 11, 12, 13, 14]
    assert columns(stack.dag("own"), "next_run_after", "due_shard", "schedule_error") == (
        None, None, None
    )  # fmt: skip
    require_sound()


def test_claim_keeps_the_end_date_whatever_is_precomputed(stack: LocalStack, push: Push) -> None:
    """Runs after the end date in the catalog, however they came there, are not created."""
    push(OWN)
    runs = precomputed().runs
    push(OWN.replace("start_date", "end_date=NINE.add(hours=4), start_date"))
    row = precomputed()
    row.update([Catalog.runs.set(runs), Catalog.is_last.set(False)])
    wake(stack, after=9)
    assert hours(stack) == [10, 11, 12, 13, 14]
    assert columns(stack.dag("own"), "next_run_after", "due_shard") == (None, None)
    require_sound()


EARLY = (
    "Every.next_dagrun_info = lambda self, **_: DagRunInfo.interval(NINE.subtract(hours=1), NINE)\n"
)


def test_interval_before_the_start_date_is_a_schedule_error(stack: LocalStack, push: Push) -> None:
    """It is refused for its DAG alone, with a sentence for the author, and no run is created."""
    push(EARLY + OWN, other=PLAIN)
    row = stack.dag("own")
    assert "from 2026-01-05T08:00:00+00:00, before the start date" in (row.schedule_error or "")
    assert columns(row, "next_run_after", "due_shard", "has_import_errors") == (None, None, False)
    assert (stack.runs("own"), hours(stack, "plain")) == ([], [10, 11, 12])
    (problem,) = Catalog.get("problems#bundle", "dags/own.py").problems
    assert "begin at restriction.earliest" in problem["message"]
    require_sound()


@pytest.mark.parametrize("schedule", ["Every()", "'0 * * * *'"], ids=["custom", "built-in"])
def test_start_dates_of_tasks_alone_are_where_it_begins(
    stack: LocalStack, push: Push, schedule: str
) -> None:
    """A DAG that has no start date catches up from that of its first task."""
    push(
        "from lamplighter import SparkTask\n"
        f"with DAG('own', schedule={schedule}, catchup=True):\n"
        "    SparkTask('late', entry_point='dags/z.py', start_date=NINE.add(hours=1))\n"
        "    SparkTask('early', entry_point='dags/z.py', start_date=NINE)\n"
    )
    assert stack.dag("own").earliest == datetime(2026, 1, 5, 9)
    assert hours(stack) == [10, 11, 12]
    require_sound()


def test_timetable_that_fails_later_keeps_its_runs(stack: LocalStack, push: Push) -> None:
    """An error in a refill is on the row, and what was created stays."""
    text = BAD.replace("hours=3", "days=3").replace("start_date", "max_active_runs=500, start_date")
    push(text.format("raise LookupError('no calendar')"))
    wake(stack, after=40)
    row = stack.dag("bad")
    assert "no calendar" in (row.schedule_error or "")
    assert row.due_shard is None
    assert len(stack.runs("bad")) == 43


def throttled(client: Any) -> Any:
    """Raise what Lambda raises when too much is asked of it."""
    code = "TooManyRequestsException"
    raise client.exceptions.from_code(code)({"Error": {"Code": code}}, "Invoke")


def broken(_: Any) -> dict[str, Any]:
    """Return what Lambda answers when a function ran out of time."""
    payload = io.BytesIO(b'{"errorMessage": "Task timed out after 900.00 seconds"}')
    return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": payload}


@pytest.mark.parametrize("fail", [throttled, broken])
def test_failing_sandbox_is_not_the_authors_error(
    stack: LocalStack, push: Push, fail: Callable[[Any], Any]
) -> None:
    """A refill that the sandbox cannot answer marks nothing and comes again."""
    push(OWN)
    client = aws.client("lambda", read_seconds=900.0)
    stack.clock.move(to=NOON.add(hours=40))
    with patch.object(client, "invoke", lambda **_: fail(client)):
        stack.tick()
        stack.run_until_idle()
    row = stack.dag("own")
    assert row.schedule_error is None
    assert len(stack.runs("own")) == 43
    assert row.next_run_after is not None
    assert failing(stack)
    before = precomputed().updated_at
    stack.advance(minutes=5)
    assert failing(stack) == []
    assert precomputed().updated_at > before


def test_refill_without_archive_is_an_error(stack: LocalStack, push: Push) -> None:
    """A bundle that is gone from the bucket is told on the row, and asked for once."""
    push(OWN)
    bucket, version = stack.settings.bucket, stack.dag("own").bundle_version
    aws.client("s3").delete_object(Bucket=bucket, Key=bundle_key("bundle", version))
    wake(stack, after=70)
    assert failing(stack) == []
    assert "push the bundle again" in (stack.dag("own").schedule_error or "")


def test_silent_sandbox_is_not_asked_each_minute(stack: LocalStack, push: Push) -> None:
    """While a refill is on its way, ticks do not send the same again and again."""
    push(OWN)
    client = aws.client("lambda", read_seconds=900.0)
    with patch.object(client, "invoke", lambda **_: throttled(client)):
        wake(stack, after=70)
        for _ in range(10):
            stack.clock.move(to=stack.clock.now().add(minutes=1))
            stack.tick()
            stack.run_until_idle()
    assert len(failing(stack)) <= 4


# Round other schedules.


def test_assets_or_own_time_has_both(stack: LocalStack, push: Push) -> None:
    """An author's timetable in an asset schedule is precomputed, and the assets are waited for."""
    either = "AssetOrTimeSchedule(timetable=Every(), assets=[Asset('a')])"
    push(OWN.replace("Every()", either))
    row = stack.dag("own")
    assert (row.is_custom, row.asset_condition) == (True, {"all": ["a"]})
    assert hours(stack) == [10, 11, 12]
    assert [item.asset_id for item in AssetQueue.query("own")] == ["a"]
    wake(stack, after=70)
    assert hours(stack) == list(range(10, 13 + 70))


def test_assets_or_own_time_fires_on_assets(stack: LocalStack, push: Push) -> None:
    """Events that wait beside an author's timetable become a run of their own."""
    push(OWN.replace("Every()", "AssetOrTimeSchedule(timetable=Every(), assets=[Asset('a')])"))
    for _ in range(2):
        stack.emit("a")
    stack.run_until_idle()
    runs = [run for run in stack.runs("own") if run.run_type == "asset_triggered"]
    assert [run.events for run in runs] == [{"a": [0, 2]}]
    assert len(stack.runs("own")) == 4


def test_continuous_goes_on_after_a_push(stack: LocalStack, push: Push) -> None:
    """@continuous needs no sandbox, and a push leaves it where it is."""
    text = "DAG('c', schedule='@continuous', start_date=NINE, max_active_runs=1)\n"
    push(text)
    (first,) = stack.runs("c")
    push(text + "DAG('other')\n")
    assert stack.dag("c").due_shard is None
    finish_run("c", first.run_key, state="success")
    stack.advance(minutes=5)
    second = stack.runs("c")[1]
    assert second.data_interval_start == first.data_interval_end
    assert list(Catalog.query("runs")) == []
    require_sound()


def at_least(instant: DateTime | None, other: DateTime) -> bool:
    """Return whether an instant is there and not before another."""
    return instant is not None and instant >= other


def test_import_error_keeps_what_is_foretold(stack: LocalStack, push: Push) -> None:
    """A file that breaks and mends goes on with runs precomputed from where it stood."""
    push(OWN)
    push(OWN + "1 / 0\n")
    assert stack.dag("own").due_shard is None
    with suppress(Catalog.DoesNotExist):
        refill("own")
    assert stack.dag("own").due_shard is None
    stack.clock.move(to=NOON.add(hours=2))
    push(OWN)
    assert hours(stack) == [10, 11, 12, 13, 14]
    assert at_least(stack.dag("own").next_run_after, datetime(2026, 1, 5, 15))
