"""The example of a producer: a log in partitions, committed lane by lane."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lamplighter.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamManager
from triggers import partition_log
from triggers.partition_log import PartitionLog, PartitionLogTrigger, Record

TAKEN, FAILED, REFUSED = AdvanceOutcome(2, 0), AdvanceOutcome(1, 1), AdvanceOutcome(1, 0, 1)
NOBODY = AdvanceOutcome(0, 0)
Payload = dict[str, Any]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody wait for new lines."""
    monkeypatch.setattr(partition_log, "PAUSE_SECONDS", 0)


def append(folder: Path, partition: str, *kinds: str) -> None:
    """Append a record of each kind to a partition."""
    with (folder / f"{partition}.log").open("a") as file:
        file.writelines(json.dumps({"kind": kind}) + "\n" for kind in kinds)


def committed(folder: Path) -> dict[str, int]:
    """Return how many records of each partition are done with."""
    return {path.stem: int(path.read_text()) for path in folder.glob("*.committed")}


def read(
    folder: Path, *kinds: str, until: dict[str, int], loses: Callable[[Payload], bool] | None = None
) -> list[list[Payload]]:
    """Return what triggers make of a log until so much of it is committed.

    What a predicate picks is made, but never persisted.
    """
    return asyncio.run(_read(folder, kinds, until, loses or (lambda _: False)))


async def _read(
    folder: Path,
    kinds: tuple[str, ...],
    until: dict[str, int],
    loses: Callable[[Payload], bool],
) -> list[list[Payload]]:
    manager = SharedStreamManager()
    triggers = [PartitionLogTrigger(folder=str(folder), kind=kind) for kind in kinds]
    key = triggers[0].shared_stream_key()
    found: list[list[Payload]] = [[] for _ in triggers]
    streams = [
        manager.subscribe(trigger_id=number, trigger=trigger, key=trigger.shared_stream_key())
        for number, trigger in enumerate(triggers)
    ]

    async def work(number: int) -> None:
        async for event in triggers[number].filter_shared_stream(streams[number]):
            bound = manager.bind_pending_event(trigger_id=number, key=key)
            found[number].append(event.payload)
            if bound is not None and not loses(event.payload):
                manager.confirm_persisted([bound])

    working = [asyncio.create_task(work(number)) for number in range(len(triggers))]
    for _ in range(10_000):
        if committed(folder) == until:
            break
        await asyncio.sleep(0)
    # So that more than is expected would be seen too.
    for _ in range(100):
        await asyncio.sleep(0)
    assert committed(folder) == until
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)
    await manager.stop_all()
    return found


def places(payloads: list[Payload]) -> list[str]:
    """Return where records stood."""
    return [f"{payload['partition']}:{payload['offset']}" for payload in payloads]


def test_siblings_read_each_record_once_and_commit_it(tmp_path: Path) -> None:
    """Each gets its kind, in the order of the partition; everything is committed."""
    append(tmp_path, "a", "order", "return", "order")
    append(tmp_path, "b", "return")
    orders, returns = read(tmp_path, "order", "return", until={"a": 3, "b": 1})
    assert orders[0] == {"kind": "order", "partition": "a", "offset": 0}
    assert places(orders) == ["a:0", "a:2"]
    assert places(returns) == ["a:1", "b:0"]


def test_record_that_is_lost_holds_back_its_partition_alone(tmp_path: Path) -> None:
    """What lies before it is committed, what lies behind it is not; others go on to their end."""
    append(tmp_path, "a", "order", "order", "return", "order")
    append(tmp_path, "b", "order", "order")
    read(
        tmp_path,
        "order",
        "return",
        until={"a": 1, "b": 2},
        loses=lambda payload: (payload["partition"], payload["offset"]) == ("a", 1),
    )


def test_reading_after_a_loss_begins_where_it_was_lost(tmp_path: Path) -> None:
    """The next reading gives everyone the held records again, and nothing that was committed."""
    append(tmp_path, "a", "order", "order", "return")
    append(tmp_path, "b", "order")
    read(tmp_path, "order", "return", until={"b": 1}, loses=lambda one: one["partition"] == "a")
    orders, returns = read(tmp_path, "order", "return", until={"a": 3, "b": 1})
    assert places(orders) == ["a:0", "a:1"]
    assert places(returns) == ["a:2"]


def test_records_that_come_later_are_read_too(tmp_path: Path) -> None:
    """A reading goes on with what is appended, in portions, and a line counts when it has ended."""
    append(tmp_path, "a", *["order"] * (partition_log.AT_ONCE + 1))
    with (tmp_path / "a.log").open("a") as file:
        file.write('{"kind": "order"')
    (orders,) = read(tmp_path, "order", until={"a": partition_log.AT_ONCE + 1})
    assert len(orders) == partition_log.AT_ONCE + 1
    with (tmp_path / "a.log").open("a") as file:
        file.write("}\n")
    (orders,) = read(tmp_path, "order", until={"a": partition_log.AT_ONCE + 2})
    assert places(orders) == [f"a:{partition_log.AT_ONCE + 1}"]


def test_line_that_makes_no_sense_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All refuse it, so that it is committed, and one line says where it was."""
    (tmp_path / "a.log").write_text("nonsense\n[]\n")
    append(tmp_path, "a", "order")
    (orders,) = read(tmp_path, "order", until={"a": 3})
    assert places(orders) == ["a:2"]
    assert [line for line in caplog.messages if "of no use" in line] == [
        "a:0 is of no use to anyone: nonsense",
        "a:1 is of no use to anyone: []",
    ]


def test_folder_that_is_missing_has_no_records(tmp_path: Path) -> None:
    """Nobody has told anything yet."""
    assert read(tmp_path / "later", "order", until={}) == [[]]


@pytest.mark.parametrize(
    ("outcomes", "failed"),
    [
        ([TAKEN, TAKEN], ""),
        ([TAKEN, FAILED, TAKEN], "1 {}\n"),
        ([REFUSED, TAKEN], ""),
        ([TAKEN, NOBODY, FAILED], "1 {}\n2 {}\n"),
    ],
    ids=repr,
)
def test_record_that_was_not_taken_is_kept_and_committed(
    tmp_path: Path, outcomes: list[AdvanceOutcome], failed: str
) -> None:
    """A commit says everything before it is done with; so a failure is written down before."""
    batch = [
        AdvanceItem(Record("a", offset, "{}"), outcome) for offset, outcome in enumerate(outcomes)
    ]
    asyncio.run(PartitionLog(tmp_path).advance(batch))
    assert committed(tmp_path) == {"a": len(outcomes)}
    kept = tmp_path / "a.failed"
    assert (kept.read_text() if kept.exists() else "") == failed
