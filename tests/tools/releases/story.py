"""A story in which a deployment comes to hold something of every kind, stopped in the middle.

Owns: what has happened, and with which settings. Whoever loads it lets it go on.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lamplighter import aws
from lamplighter.bundles.archive import build_archive
from lamplighter.identifiers import bundle_key
from lamplighter.store.models import Dags
from lamplighter.zones import parse_instant
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_operations.runs import cancel_run, clear_run, mark_step
from tests.tools.checked_deployment import LocalDeployment
from tests.tools.releases import fixture, state

BEGIN = "2026-01-05T05:30:00Z"
NAME = "shop"
SETTINGS: Mapping[str, object] = {
    "job_poll_seconds": 300,
    "job_starts_per_second": 1,
    "spark_vcpus": 100,
    "spark_memory_gb": 400,
    "spark_disk_gb": 2_000,
}
_EDIT = ('DAG("edited", schedule="0 * * * *"', 'DAG("edited", schedule="20 */2 * * *"')


@contextmanager
def told() -> Iterator[tuple[LocalDeployment, list[dict[str, Any]]]]:
    """Yield the deployment at the end of the story, and a message of each kind that was handled."""
    with deployment(BEGIN) as lamp, TemporaryDirectory() as folder:
        samples = _samples(lamp)
        files = dict(fixture.bundle_files(fixture.BUNDLE))
        _make_others_resources()
        lamp.set_pool("lake", 3)
        for name, value in (("data_root", "s3://lake"), ("key", "ssm:/lake/key")):
            lamp.set_variable(name, value)
        lamp.push(fixture.write_bundle(files, Path(folder) / "first"), name=NAME)
        _night(lamp)
        _morning(lamp)
        lamp.push(fixture.write_bundle(edited(files), Path(folder) / "second"), name=NAME)
        _last_minutes(lamp)
        yield lamp, list(samples.values())


@contextmanager
def deployment(at: str) -> Iterator[LocalDeployment]:
    """Yield a deployment with the settings of the story."""
    emr = FakeEmr(takes_seconds=240)
    with (
        LocalDeployment(at=at, executor=emr, settings=SETTINGS) as lamp,
        lamp.in_own_runtime(),
    ):
        yield lamp


def edited(files: Mapping[str, str]) -> dict[str, str]:
    """Return the files of the bundle as they are after the second push."""
    text = files["dags/story.py"].replace(*_EDIT)
    return {**files, "dags/story.py": text}


def _make_others_resources() -> None:
    aws.client("s3").create_bucket(Bucket="landing")


def _night(lamp: LocalDeployment) -> None:
    """Let runs succeed, fail, be skipped and retried; let events come, also bad ones."""
    lamp.takes("edited", "step", minutes=100)
    lamp.leaves("kinds", "extract", rows=3)
    lamp.fail_next("hourly", "clean", times=2, error="no such table")
    lamp.takes("daily", "step", minutes=60)
    lamp.skip_next("chained", "step")
    lamp.fail_next("chained", "step")  # those after it wait for their past
    lamp.trigger("kinds", conf={"rows": 7}, logical_date="2026-01-04T00:00:00Z")
    lamp.backfill("daily", "2025-12-28", "2026-01-03", max_active_runs=2, conf={"why": "test"})
    lamp.advance(hours=1)
    lamp.emit("fx", extra={"rate": 1.1}, event_id="fx-1", partition_key="2026-01-05")
    lamp.emit("fx", extra={"rate": 1.1}, event_id="fx-1", partition_key="2026-01-05")
    lamp.send("web-orders", {"order": 1})
    lamp.send("sources", {"source": "shop.till", "detail-type": "Sale", "detail": {"n": 1}})
    aws.client("s3").put_object(Bucket="landing", Key="sales/1.csv", Body=b"1")
    url = lamp.queue_url("events")
    aws.client("sqs").send_message(QueueUrl=url, MessageBody='{"asset": "nobody_knows_it"}')
    lamp.advance(minutes=40)


def _morning(lamp: LocalDeployment) -> None:
    """Let operators act: mark, clear, cancel, pause."""
    (first, *_, last) = [run for run in lamp.runs("hourly") if run.state == "success"]
    clear_run("hourly", first.run_key, tasks=["clean"])
    marked = lamp.trigger("hourly", logical_date="2026-01-04T11:00:00Z")
    mark_step("hourly", marked.run_key, "clean", "success", why="checked by hand", by="someone")
    lamp.advance(minutes=35)
    cancelled = lamp.trigger("kinds", logical_date="2026-01-03T00:00:00Z")
    cancel_run("kinds", cancelled.run_key, reason="by mistake")
    lamp.pause("either")
    lamp.emit("orders", event_id="orders-1", aliases=["files"])
    lamp.advance(minutes=10)
    assert last.state == "success"


def _last_minutes(lamp: LocalDeployment) -> None:
    """Leave runs of all kinds under way, steps waiting, and messages on their way."""
    for dag, task in (("hourly", "load"), ("kinds", "checks.check"), ("revenue", "build")):
        lamp.takes(dag, task, minutes=50)
    lamp.takes("kinds", "checks.export", minutes=40)
    lamp.advance(minutes=4)
    for day in (1, 2, 3):
        lamp.trigger("kinds", conf={"rows": day}, logical_date=f"2026-01-0{day}T12:00:00Z")
    lamp.fail_next("kinds", "extract")  # it is tried again in 20 minutes
    # Both wait for the pool.
    lamp.trigger("hourly", logical_date="2026-01-02T11:00:00Z")
    lamp.trigger("hourly", logical_date="2026-01-02T12:00:00Z")
    lamp.advance(minutes=9)
    lamp.emit("fx", extra={"rate": 1.2}, event_id="fx-2")
    lamp.advance(minutes=1, seconds=30)
    # Nobody has received these.
    lamp.emit("orders", event_id="orders-2", extra={"rows": 9})
    lamp.emit("fx", event_id="fx-3", timestamp="2026-01-05T08:00:00Z")
    lamp.trigger("hourly", logical_date="2026-01-03T11:00:00Z")


def _samples(lamp: LocalDeployment) -> dict[tuple[str, str], dict[str, Any]]:
    """Collect, while the story is told, the first message of each queue and kind."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    call = lamp.stack.call

    def collecting(function: str, event: dict[str, Any]) -> Any:
        for record in event.get("Records", ()):
            queue = record["eventSourceARN"].rpartition(":")[2].removeprefix("local-")
            kind = state.shape(record["body"])
            found.setdefault(
                (queue, kind),
                {"queue": queue, "function": function, "kind": kind, "record": record},
            )
        return call(function, event)

    lamp.stack.call = collecting
    return found


@contextmanager
def put_back(folder: Path) -> Iterator[LocalDeployment]:
    """Yield a deployment of today's code that holds what a release has stored."""
    begun = fixture.read(folder, "story")
    with deployment(begun["begin"]) as lamp, TemporaryDirectory() as scratch:
        _make_others_resources()
        objects = fixture.read(folder, "objects")
        _put_archives(lamp, fixture.read(folder, "bundle"), Path(scratch))
        state.put_objects(lamp, objects)
        state.put_jobs(lamp, fixture.read(folder, "jobs"))
        lamp.stack.clock.move(to=parse_instant(begun["at"]))
        state.tell_of_jobs(lamp)
        # Jobs that were put back have written reports of their own.
        state.put_objects(lamp, objects)
        state.put_tables(lamp, fixture.read_tables(folder))
        state.put_messages(lamp, fixture.read(folder, "messages"))
        lamp.stack.watched_queue("web-orders")
        for row in Dags.scan():
            lamp._origins.note_skipped(row)
        yield lamp


def _put_archives(lamp: LocalDeployment, files: Mapping[str, str], scratch: Path) -> None:
    """Put the archives of both pushes; their names are hashes of the files, then as now."""
    for name, each in (("first", dict(files)), ("second", edited(files))):
        archive = build_archive(fixture.write_bundle(each, scratch / name))
        aws.client("s3").put_object(
            Bucket=lamp.stack.settings.bucket, Key=bundle_key(NAME, archive.hash), Body=archive.data
        )
