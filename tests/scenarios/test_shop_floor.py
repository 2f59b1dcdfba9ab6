"""The examples of watchers, as they are shipped: two share a log, two a scan, two a queue."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lamplighter import aws
from lamplighter.store.models import Catalog
from lamplighter.store.watchers import watcher_row_kind
from lamplighter.streams.watchers import by_stream, watchers_in
from lamplighter_local.emulator.moto_memory import queue_at
from tests.infra.permissions_file import Need
from tests.tools.checked_deployment import LocalDeployment

EXAMPLES = Path(__file__).parents[2] / "examples"
# Where the example keeps its files, which is not used here.
PLACE = 'Path(gettempdir()) / "shop"'


@pytest.fixture
def lamp(tmp_path: Path) -> Iterator[LocalDeployment]:
    """Yield a deployment with the example, which finds its files in a folder of the test."""
    bundle = shutil.copytree(EXAMPLES / "watchers", tmp_path / "bundle")
    for dags in (bundle / "dags").glob("*.py"):
        text = dags.read_text(encoding="utf-8")
        assert PLACE in text
        dags.write_text(text.replace(PLACE, f"Path({str(tmp_path)!r})"), encoding="utf-8")
    for folder in ("log", "inbox", "flags"):
        (tmp_path / folder).mkdir()
    with LocalDeployment(bundle, at="2026-01-05T12:00:00Z", poll_real_sources=True) as lamp:
        yield lamp


def write(folder: Path, name: str, *records: dict[str, Any]) -> None:
    """Append records to a partition."""
    with (folder / "log" / f"{name}.log").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


def runs(lamp: LocalDeployment) -> dict[str, int]:
    """Return how many runs each DAG has had, if any."""
    found = {dag.dag_id: len(lamp.runs(dag.dag_id)) for dag in lamp.dags()}
    return {dag_id: count for dag_id, count in found.items() if count}


def test_siblings_share_the_log_and_the_folder_stands_alone(lamp: LocalDeployment) -> None:
    """Five watchers make three streams, and all of them are polled."""
    rows = Catalog.query(watcher_row_kind(None), consistent_read=True)
    shared = by_stream(watchers_in(rows)).values()
    names = sorted(sorted(watcher.path for watcher in together) for together in shared)
    assert names == [
        ["north_ready/flag", "south_ready/flag"],
        ["price_lists/inbox"],
        ["shop_orders/log", "shop_returns/log"],
    ]


@pytest.mark.slow
def test_what_happens_in_the_shop_starts_its_runs(lamp: LocalDeployment, tmp_path: Path) -> None:
    """A line, a file or a flag starts the DAG that waits for it, once."""
    lamp.advance(minutes=1)
    assert runs(lamp) == {}
    write(tmp_path, "till-1", {"kind": "order", "amount": 120}, {"kind": "other"})
    (tmp_path / "inbox" / "prices-2026-01.csv").write_text("lamp;12\n")
    (tmp_path / "inbox" / "notes.txt").write_text("not a price list\n")
    (tmp_path / "flags" / "north.flag").touch()
    lamp.advance(minutes=2)
    assert runs(lamp) == {"count_orders": 1, "load_prices": 1, "load_north": 1}
    assert list((tmp_path / "flags").iterdir()) == []
    assert (tmp_path / "log" / "till-1.committed").read_text() == "2"
    write(tmp_path, "till-2", {"kind": "return"})
    lamp.advance(minutes=1)
    assert runs(lamp) == {
        "count_orders": 1,
        "count_returns": 1,
        "load_prices": 1,
        "load_north": 1,
    }
    lamp.check_invariants()


@pytest.mark.slow
def test_parcel_on_the_queue_starts_its_run_and_is_deleted(
    tmp_path: Path, forbidden: set[tuple[str, Need]]
) -> None:
    """One consumer serves both regions; Lambda takes nothing from the queue."""
    bundle = shutil.copytree(EXAMPLES / "watchers_queue", tmp_path / "bundle")
    with LocalDeployment(at="2026-01-05T12:00:00Z", poll_real_sources=True) as lamp:
        url = aws.client("sqs").create_queue(QueueName="own")["QueueUrl"]
        dags = bundle / "dags" / "parcels.py"
        text, count = re.subn(r'PARCELS = ".*"', f'PARCELS = "{url}"', dags.read_text("utf-8"))
        assert count == 1
        dags.write_text(text, encoding="utf-8")
        lamp.push(bundle)
        for region in ("north", "south", "east"):
            body = json.dumps({"region": region})
            aws.client("sqs").send_message(QueueUrl=url, MessageBody=body)
        lamp.advance(minutes=2)
        assert runs(lamp) == {"ship_north": 1, "ship_south": 1}
        assert queue_at(url)._messages == []
        lamp.check_invariants()
        aws.client("sqs").delete_queue(QueueUrl=url)
    # On AWS the trigger has the role of its bundle, and not that of the function.
    own = {each for each in forbidden if each[1].thing == "queue/own"}
    assert {(who, need.action) for who, need in own} == {
        ("watch", "sqs:DeleteMessage"),
        ("watch", "sqs:ReceiveMessage"),
    }
    forbidden -= own
