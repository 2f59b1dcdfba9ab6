"""Pushes, from the archive in the bucket to rows: what they change and what they leave alone."""

import gzip
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from unittest.mock import patch

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.sqs.models import sqs_backends

from lamplighter import aws
from lamplighter.bundles.archive import build_archive
from lamplighter.errors import RefusedError
from lamplighter.identifiers import bundle_key
from lamplighter.registry import assets, import_problems, pushes
from lamplighter.registry import register as register_module
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import register
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetQueue, Assets, Catalog, Dags, DagVersions
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.stack import LocalStack
from lamplighter_operations.pause import pause, unpause
from tests.tools.finish_run import finish_run
from tests.tools.invariants.tables import require_sound

HEAD = """
import pendulum
from datetime import timedelta
from lamplighter import DAG, Asset, SparkTask
from lamplighter.timetables.trigger import CronPartitionTimetable, CronTriggerTimetable
NINE = pendulum.datetime(2026, 1, 5, 9)
"""
HOURLY = "DAG('hourly', schedule='0 * * * *', start_date=NINE)\n"


class PushFiles(Protocol):
    """Pushes DAG files, given by name, as a bundle, and lets them be registered."""

    def __call__(self, files: dict[str, str], *, bundle: str = "bundle") -> None: ...


Upload = Callable[[dict[str, str]], Push]


def write(root: Path, files: dict[str, str]) -> Path:
    """Let a bundle have exactly these DAG files, and one job."""
    shutil.rmtree(root, ignore_errors=True)
    for name, text in {**files, "../jobs/job.py": ""}.items():
        path = root / "dags" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + text, encoding="utf-8")
    return root


@pytest.fixture
def push(stack: LocalStack, tmp_path: Path) -> PushFiles:
    """Return a function that pushes a bundle of these DAG files and no others."""

    def push(files: dict[str, str], *, bundle: str = "bundle") -> None:
        (tmp_path / bundle / "dags").mkdir(parents=True, exist_ok=True)
        stack.push(write(tmp_path / bundle, files), bundle=bundle)

    return push


@pytest.fixture
def upload(stack: LocalStack, tmp_path: Path) -> Upload:
    """Return a function that uploads and numbers a push, and tells nobody."""

    def upload(files: dict[str, str]) -> Push:
        (tmp_path / "quiet" / "dags").mkdir(parents=True, exist_ok=True)
        archive = build_archive(write(tmp_path / "quiet", files))
        aws.client("s3").put_object(
            Bucket=stack.settings.bucket,
            Key=bundle_key("bundle", archive.hash),
            Body=archive.data,
        )
        return Push("bundle", archive.hash, next_push_number("bundle"))

    return upload


def failing(stack: LocalStack) -> list[str]:
    """Return the messages on `registers` that were received and not acknowledged."""
    queue = sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues["local-registers"]
    assert queue.name in stack.settings.queue_url("registers")
    return [message.body for message in queue._messages if message.approximate_receive_count]


def troubles(bundle: str = "bundle") -> dict[str, list[str]]:
    """Return what the catalog says is wrong with a bundle, by file."""
    rows = Catalog.query(f"problems#{bundle}", consistent_read=True)
    return {row.id: [item["message"] for item in row.problems] for row in rows}


def columns(row: Dags | Catalog, *names: str) -> tuple[Any, ...]:
    """Return some columns of a row."""
    return tuple(getattr(row, name) for name in names)


POSITION = ("last_run_after", "last_interval_start", "last_interval_end")
NEXT = ("next_run", "next_interval_start", "next_interval_end", "next_run_after")


def claimed(stack: LocalStack, push: PushFiles, text: str = HOURLY) -> LocalStack:
    """Return the deployment with three runs of an hourly DAG."""
    push({"a.py": text})
    stack.tick()
    stack.run_until_idle()
    assert len(stack.runs("hourly")) == 3
    return stack


# A DAG that comes, stays, and changes.


def test_new_dag_gets_row_and_version(stack: LocalStack, push: PushFiles) -> None:
    """A push writes the row, its first version and the next run, and closes itself."""
    push({"a.py": HOURLY})
    row = stack.dag("hourly")
    assert columns(row, "rev", "push", "version", "bundle", "source_key") == (
        row.rev,
        1,
        "000001",
        "bundle",
        "dags/a.py#hourly",
    )
    version = DagVersions.get("hourly", "000001")
    assert version.hash == row.hash
    assert json.loads(version.document)["dag_id"] == "hourly"
    bundle = Catalog.get("bundle", "bundle")
    assert columns(bundle, "pushed", "registering", "registered") == (1, 1, 1)
    assert bundle.bundle_version == row.bundle_version
    assert failing(stack) == []


def test_new_dag_is_claimed_without_tick(stack: LocalStack, push: PushFiles) -> None:
    """What a push owes is claimed by the message that the push sends."""
    push({"a.py": HOURLY})
    assert [run.run_after.hour for run in stack.runs("hourly")] == [10, 11, 12]
    require_sound()


def test_same_push_again_changes_only_numbers(stack: LocalStack, push: PushFiles) -> None:
    """An unchanged definition keeps position and next run and gets no second version."""
    claimed(stack, push)
    before = stack.dag("hourly")
    push({"a.py": HOURLY, "b.py": "DAG('other')\n"})
    after = stack.dag("hourly")
    kept = (*POSITION, *NEXT, "version", "hash", "timetable", "active", "due_shard")
    assert columns(after, *kept) == columns(before, *kept)
    assert (before.push, after.push) == (1, 2)
    assert before.bundle_version != after.bundle_version
    assert [item.version for item in DagVersions.query("hourly")] == ["000001"]


def test_unchanged_push_keeps_an_overdue_run(stack: LocalStack, push: PushFiles) -> None:
    """The stored next run of a DAG without catchup survives a push, however old it is."""
    push({"a.py": "DAG('d', schedule='0 * * * *', start_date=NINE, catchup=False)\n"})
    pause("d")
    before = stack.dag("d")
    stack.clock.advance(timedelta(hours=9))
    push({"a.py": "\n\nDAG('d', schedule='0 * * * *', start_date=NINE, catchup=False)\n"})
    assert columns(stack.dag("d"), *NEXT) == columns(before, *NEXT)


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ("DAG('hourly', schedule='*/30 * * * *', start_date=NINE)", (12, 30)),
        ("DAG('hourly', schedule='0 0 * * *', start_date=NINE)", (0, 0)),
        ("DAG('hourly', schedule='0 * * * *', start_date=NINE.subtract(days=3))", (13, 0)),
        ("DAG('hourly', schedule='0 * * * *', start_date=NINE, catchup=False)", (13, 0)),
        ("DAG('hourly', schedule='0 * * * *', start_date=NINE.add(hours=6))", (16, 0)),
    ],
    ids=["shorter", "longer", "earlier start", "no catchup", "later start"],
)
def test_changed_schedule_goes_on_from_its_position(
    stack: LocalStack, push: PushFiles, again: str, expected: tuple[int, int]
) -> None:
    """A new schedule, start or catchup repeats no history and follows the last run."""
    claimed(stack, push)
    before = stack.dag("hourly")
    push({"a.py": again})
    after = stack.dag("hourly")
    assert columns(after, *POSITION) == columns(before, *POSITION)
    assert (after.next_run_after.hour, after.next_run_after.minute) == expected
    assert len(stack.runs("hourly")) == 3
    assert after.version == "000002"


def test_end_date_that_has_passed_ends_it(stack: LocalStack, push: PushFiles) -> None:
    """With bounds that leave no more runs there is no next run, and the DAG leaves the index."""
    claimed(stack, push)
    push({"a.py": "DAG('hourly', schedule='0 * * * *', start_date=NINE, end_date=NINE)\n"})
    assert columns(stack.dag("hourly"), "next_run_after", "due_shard") == (None, None)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("CronPartitionTimetable('0 * * * *', timezone='UTC')", "'0 * * * *'"),
        ("CronTriggerTimetable('0 * * * *', timezone='UTC')", "'@continuous'"),
        (
            "'0 * * * *'",
            "CronTriggerTimetable('0 * * * *', timezone='UTC', interval=timedelta(hours=5))",
        ),
    ],
    ids=["partitions to intervals", "trigger to continuous", "trigger with interval"],
)
def test_any_schedule_may_replace_any_other(
    stack: LocalStack, push: PushFiles, first: str, then: str
) -> None:
    """A push that replaces a schedule is registered to its end, whatever the old position was."""
    text = "DAG('d', schedule={}, start_date=NINE, max_active_runs=1)\n"
    push({"a.py": text.format(first)})
    assert stack.runs("d")
    push({"a.py": text.format(then)})
    assert failing(stack) == []
    assert Catalog.get("bundle", "bundle").registered == 2


def test_changed_tasks_make_a_new_version(stack: LocalStack, push: PushFiles) -> None:
    """Other tasks are another version; the old one stays as it was, and old runs keep it."""
    task = "    SparkTask('{}', entry_point='jobs/job.py')\n"
    push({"a.py": f"with {HOURLY.strip()}:\n{task.format('one')}"})
    first = DagVersions.get("hourly", "000001").document
    stack.clock.advance(timedelta(hours=1))
    push({"a.py": f"with {HOURLY.strip()}:\n{task.format('two')}"})
    assert DagVersions.get("hourly", "000001").document == first
    assert "two" in DagVersions.get("hourly", "000002").document
    assert [run.dag_version for run in stack.runs("hourly")] == ["000001"] * 3 + ["000002"]


def test_long_document_is_stored_compressed(stack: LocalStack, push: PushFiles) -> None:
    """A definition that is too long to read in the table is compressed and stays whole."""
    push({"a.py": "DAG('long', doc_md='word ' * 20_000)\n"})
    version = DagVersions.get("long", "000001")
    assert version.document is None
    assert len(json.loads(gzip.decompress(version.document_gzip))["doc_md"]) == 100_000


def test_paused_upon_creation_counts_only_once(stack: LocalStack, push: PushFiles) -> None:
    """The flag decides when the DAG is new, and never again."""
    text = "DAG('d', schedule='0 * * * *', start_date=NINE, is_paused_upon_creation={})\n"
    push({"a.py": text.format(True), "b.py": text.format(False).replace("'d'", "'e'")})
    assert columns(stack.dag("d"), "is_paused", "due_shard") == (True, None)
    unpause("d")
    push({"a.py": text.format(True), "b.py": text.format(True).replace("'d'", "'e'")})
    assert (stack.dag("d").is_paused, stack.dag("e").is_paused) == (False, False)


def test_limit_moves_a_dag_in_and_out(stack: LocalStack, push: PushFiles) -> None:
    """A higher limit puts a full DAG back into the index and to work, a lower one takes it out."""
    text = "DAG('d', schedule='0 * * * *', start_date=NINE, max_active_runs={})\n"
    push({"a.py": text.format(1)})
    assert len(stack.runs("d")) == 1
    assert stack.dag("d").due_shard is None
    push({"a.py": text.format(2)})
    assert len(stack.runs("d")) == 2
    push({"a.py": text.format(5)})
    assert (len(stack.runs("d")), stack.dag("d").due_shard) == (3, 0)
    push({"a.py": text.format(1)})
    assert stack.dag("d").due_shard is None
    for run in stack.runs("d"):
        finish_run("d", run.run_key, state="success")
    assert stack.dag("d").due_shard == 0


# Files that break and mend.


def test_broken_file_takes_its_dags_out(stack: LocalStack, push: PushFiles) -> None:
    """An import error marks the DAGs of that file only, and the catalog says why."""
    push({"a.py": HOURLY, "b.py": HOURLY.replace("hourly", "other")})
    push({"a.py": HOURLY + "1 / 0\n", "b.py": HOURLY.replace("hourly", "other")})
    row = stack.dag("hourly")
    assert columns(row, "has_import_errors", "is_stale", "due_shard", "push") == (
        True,
        False,
        None,
        1,
    )
    assert stack.dag("other").due_shard == 0
    assert troubles() == {"dags/a.py": ["ZeroDivisionError: division by zero"]}


def test_mended_file_brings_its_dags_back(stack: LocalStack, push: PushFiles) -> None:
    """A clean parse clears the mark and the catalog, and what was missed is made up for."""
    claimed(stack, push)
    push({"a.py": HOURLY + "1 / 0\n"})
    stack.advance(hours=2)
    assert len(stack.runs("hourly")) == 3
    push({"a.py": HOURLY})
    assert columns(stack.dag("hourly"), "has_import_errors", "due_shard") == (False, 0)
    assert len(stack.runs("hourly")) == 5
    assert troubles() == {}
    require_sound()


def test_broken_dag_that_left_becomes_stale(stack: LocalStack, push: PushFiles) -> None:
    """A file that is mended without one of its DAGs leaves that one stale, not broken."""
    push({"a.py": HOURLY + "DAG('left')\n"})
    push({"a.py": "1 / 0\n"})
    push({"a.py": HOURLY})
    assert columns(stack.dag("left"), "has_import_errors", "is_stale") == (False, True)


def test_stale_dag_stays_so_when_file_breaks(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that was removed on purpose does not come back as one that waits to be mended."""
    push({"a.py": HOURLY + "DAG('left')\n"})
    push({"a.py": HOURLY})
    push({"a.py": "1 / 0\n"})
    assert columns(stack.dag("left"), "has_import_errors", "is_stale") == (False, True)


def test_new_broken_file_writes_nothing(stack: LocalStack, push: PushFiles) -> None:
    """A file that never worked has a problem and no rows."""
    push({"a.py": HOURLY, "b.py": "DAG('never')\nimport nothing_like_this\n"})
    assert [row.dag_id for row in Dags.scan()] == ["hourly"]
    assert list(troubles()) == ["dags/b.py"]


def test_warnings_are_stored_without_marking(stack: LocalStack, push: PushFiles) -> None:
    """A warning is a problem that takes no DAG out of the index."""
    push({"a.py": HOURLY + "import warnings\nwarnings.warn('careful')\n"})
    row = Catalog.get("problems#bundle", "dags/a.py")
    assert (row.has_errors, row.problems[0]["message"]) == (False, "careful")
    assert stack.dag("hourly").due_shard == 0


# DAGs that leave and return, and whose they are.


def test_dag_that_left_keeps_all_it_had(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that is gone from its bundle is stale, and its runs and position stay."""
    claimed(stack, push)
    before = stack.dag("hourly")
    push({"b.py": "DAG('other')\n"})
    row = stack.dag("hourly")
    assert columns(row, "is_stale", "due_shard") == (True, None)
    assert columns(row, *POSITION, "version") == columns(before, *POSITION, "version")
    assert len(stack.runs("hourly")) == 3


def test_dag_that_returns_goes_on(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that comes back, in another file, is as paused and as far as it was."""
    claimed(stack, push)
    pause("hourly")
    push({"b.py": "DAG('other')\n"})
    stack.clock.advance(timedelta(hours=2))
    push({"c.py": HOURLY})
    row = stack.dag("hourly")
    assert columns(row, "is_stale", "is_paused", "source_key") == (False, True, "dags/c.py#hourly")
    unpause("hourly")
    stack.run_until_idle()
    assert len(stack.runs("hourly")) == 5
    require_sound()


def test_dag_that_moves_files_is_not_stale(stack: LocalStack, push: PushFiles) -> None:
    """A DAG in another file of the same bundle is the same DAG."""
    push({"a.py": HOURLY})
    push({"z/b.py": HOURLY})
    assert columns(stack.dag("hourly"), "is_stale", "source_key", "version") == (
        False,
        "dags/z/b.py#hourly",
        "000001",
    )


def test_duplicate_id_is_a_warning(stack: LocalStack, push: PushFiles) -> None:
    """Of two files that define one id the first by path is used, and the other is warned."""
    push({"b.py": HOURLY.replace("0 * * * *", "5 * * * *"), "a.py": HOURLY})
    assert columns(stack.dag("hourly"), "schedule", "source_key") == (
        "0 * * * *",
        "dags/a.py#hourly",
    )
    assert list(troubles()) == ["dags/b.py"]
    assert Catalog.get("problems#bundle", "dags/b.py").has_errors is False
    push({"b.py": HOURLY.replace("hourly", "mine"), "a.py": HOURLY})
    assert troubles() == {}


def test_id_of_another_bundle_is_refused(stack: LocalStack, push: PushFiles) -> None:
    """The first bundle keeps its DAG; the other is told on that file, and keeps its own DAGs."""
    push({"a.py": HOURLY}, bundle="first")
    before = stack.dag("hourly")
    push(
        {"b.py": HOURLY.replace("0 *", "7 *") + "DAG('own')\n", "c.py": "DAG('third')\n"},
        bundle="second",
    )
    assert stack.dag("hourly").rev == before.rev
    assert [row.dag_id for row in Dags.by_file.query("second")] == ["own", "third"]
    assert list(troubles("second")) == ["dags/b.py"]
    assert "belongs to bundle 'first'" in troubles("second")["dags/b.py"][0]
    assert troubles("first") == {}


def test_stale_id_may_be_taken_over(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that its bundle gave up belongs to the next that defines it, history included."""
    claimed(stack, push)
    for _ in range(3):
        push({"a.py": "DAG('other')\n"})
    push({"x.py": HOURLY}, bundle="second")
    row = stack.dag("hourly")
    assert columns(row, "bundle", "push", "is_stale", "version") == ("second", 1, False, "000001")
    push({"a.py": HOURLY})
    assert stack.dag("hourly").bundle == "second"
    stack.advance(minutes=5)
    assert columns(stack.dag("hourly"), "bundle", "is_stale") == ("second", False)


# Pushes out of order, twice, and side by side.


def test_older_push_that_comes_later_is_refused(stack: LocalStack, upload: Upload) -> None:
    """The second push is announced first; the first changes nothing and is acknowledged."""
    first = upload({"a.py": "DAG('old')\n"})
    second = upload({"a.py": HOURLY})
    pushes.announce(second)
    stack.run_until_idle()
    pushes.announce(first)
    stack.run_until_idle()
    assert [row.dag_id for row in Dags.scan()] == ["hourly"]
    assert Catalog.get("bundle", "bundle").bundle_version == second.version
    assert failing(stack) == []
    with pytest.raises(RefusedError, match="older than what is registered"):
        register(first)


def test_push_delivered_twice_is_harmless(stack: LocalStack, upload: Upload) -> None:
    """The same message once more leaves every row what it was, apart from its revision."""
    source = upload({"a.py": HOURLY, "b.py": "DAG('c', schedule=[Asset('a')])\n1\n"})
    for _ in range(2):
        pushes.announce(source)
        stack.run_until_idle()
    row = stack.dag("hourly")
    assert columns(row, "push", "version", "is_stale") == (1, "000001", False)
    assert len(stack.runs("hourly")) == 3
    assert [item.asset_id for item in AssetQueue.query("c")] == ["a"]
    assert Assets.get("a", "#").refs_rev == 1
    require_sound()


class Between:
    """Does something once, just before the first call of a function."""

    def __init__(self, module: Any, name: str, act: Callable[[], object]) -> None:
        self._real = getattr(module, name)
        self._act: Callable[[], object] | None = act
        self._patch = patch.object(module, name, self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        act, self._act = self._act, None
        if act is not None:
            act()
        return self._real(*arguments, **named)

    def __enter__(self) -> None:
        self._patch.start()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        assert self._act is None


STEPS = [
    (assets, "register_assets"),
    (assets, "add_consumers"),
    (register_module, "query_definitions"),
    (register_module, "dag_write"),
    (assets, "drop_consumers"),
    (import_problems, "replace_problems"),
    (register_module, "retire"),
    (pushes, "end"),
]


@pytest.mark.parametrize(("module", "name"), STEPS, ids=[name for _, name in STEPS])
def test_overtaken_push_leaves_the_newer_state(
    stack: LocalStack, push: PushFiles, upload: Upload, module: Any, name: str
) -> None:
    """A push that another overtakes at any of its steps ends in the state of that other one."""
    push({"a.py": "DAG('c', schedule=[Asset('zero')])\n", "b.py": HOURLY})
    older = upload(
        {"a.py": "DAG('c', schedule=[Asset('one')])\n", "b.py": "1 / 0\n", "c.py": "DAG('x')\n"}
    )
    newer = upload({"a.py": "DAG('c', schedule=[Asset('two')])\n", "b.py": HOURLY})
    with Between(module, name, lambda: register(newer)), suppress(RefusedError):
        register(older)
    stack.advance(minutes=2)
    row = stack.dag("c")
    assert columns(row, "push", "asset_condition") == (3, {"all": ["two"]})
    assert [item.asset_id for item in AssetQueue.query("c")] == ["two"]
    assert [item.asset_id for item in Assets.scan() if item.ref == "dag#c"] == ["two"]
    assert columns(stack.dag("hourly"), "push", "has_import_errors", "is_stale") == (
        3,
        False,
        False,
    )
    assert all(row.is_stale for row in Dags.scan() if row.dag_id == "x")
    assert troubles() == {}
    assert columns(Catalog.get("bundle", "bundle"), "registered", "bundle_version") == (
        3,
        newer.version,
    )
    require_sound()


def test_overtaken_push_that_is_slow_leaves_nothing(stack: LocalStack, upload: Upload) -> None:
    """A DAG that only the overtaken push has is retired, however late it was written."""
    older = upload({"a.py": HOURLY, "b.py": HOURLY.replace("hourly", "only_old")})
    newer = upload({"a.py": HOURLY})

    def overtake() -> None:
        register(newer)
        stack.advance(minutes=5)

    with Between(register_module, "dag_write", overtake), suppress(RefusedError):
        register(older)
    stack.advance(minutes=10)
    assert all(row.is_stale for row in Dags.scan() if row.dag_id == "only_old")


def test_delayed_message_retires_what_index_hid(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that the lagging index hid from a push is retired a minute later."""
    push({"a.py": HOURLY + "DAG('left')\n"})
    with patch.object(Dags.by_file, "query", lambda _: iter(())):
        push({"a.py": HOURLY})
    assert stack.dag("left").is_stale is False
    stack.advance(seconds=61)
    assert stack.dag("left").is_stale is True
    assert stack.dag("hourly").is_stale is False


def test_late_retire_spares_a_newer_push(stack: LocalStack, push: PushFiles) -> None:
    """The delayed message of an old push does not touch what came back since."""
    push({"a.py": HOURLY})
    push({"a.py": "DAG('other')\n"})
    push({"a.py": HOURLY})
    stack.advance(minutes=3)
    assert stack.dag("hourly").is_stale is False
    assert stack.dag("other").is_stale is True


def test_deleted_row_may_be_pushed_again(stack: LocalStack, push: PushFiles) -> None:
    """A DAG whose row someone deleted in the console is registered like a new one."""
    push({"a.py": HOURLY})
    stack.dag("hourly").delete()
    push({"a.py": HOURLY})
    assert stack.dag("hourly").push == 2


# What nobody may do to others, or to themselves.


def test_refused_definition_is_broken_not_stale(stack: LocalStack, push: PushFiles) -> None:
    """A DAG that is there, but in a form that cannot be stored, waits to be mended."""
    push({"a.py": "DAG('d', schedule='0 * * * *', start_date=NINE)\n" + HOURLY})
    push(
        {"a.py": "import random\nDAG('d', doc_md='%x' % random.getrandbits(3_600_000))\n" + HOURLY}
    )
    assert columns(stack.dag("d"), "is_stale", "has_import_errors", "due_shard") == (
        False,
        True,
        None,
    )
    assert stack.dag("hourly").push == 2


def test_long_partition_key_harms_only_itself(stack: LocalStack, push: PushFiles) -> None:
    """A DAG whose run keys no table takes gets no run, and every other DAG does."""
    long = "CronPartitionTimetable('0 * * * *', timezone='UTC', key_format='x' * 2000)"
    push({"a.py": HOURLY, "b.py": f"DAG('long', schedule={long}, start_date=NINE)\n"})
    stack.tick()
    stack.run_until_idle()
    assert len(stack.runs("hourly")) == 3
    assert stack.runs("long") == []
