"""Changed inputs at every edge: each is refused by name, and what is valid beside it is recorded.

A canary is a valid input of somebody else, sent among the hostile ones.
"""

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pendulum
import pytest

from lamplighter import DAG, Asset, AssetAlias, AssetWatcher, SparkTask, aws
from lamplighter.assets.asset import normalize_uri
from lamplighter.bundles.archive import build_archive, open_archive
from lamplighter.bundles.importer import ParsedFile
from lamplighter.dags.templates import MACROS, MAX_RENDERED, dated, render
from lamplighter.errors import DefinitionError
from lamplighter.registry.pushes import Push
from lamplighter.registry.register import register
from lamplighter.registry.sandbox import Sandbox
from lamplighter.serialization import encode_dag
from lamplighter.store.bundles import next_push_number
from lamplighter.store.models import AssetEvents, Dags
from lamplighter.timetables.base import TimeRestriction
from lamplighter.timetables.interval import CronDataIntervalTimetable
from lamplighter.timetables.trigger import CronTriggerTimetable
from lamplighter.triggers import SqsTrigger
from lamplighter_local import LocalDeployment
from lamplighter_local.emr.fake_emr import FakeEmr, Outcome
from tests.hostile.conftest import Fuzz
from tests.hostile.mutations import NASTY, broken, damaged, message_of, mutated

NOON = pendulum.datetime(2026, 1, 5, 12)
_BATCH = 9

PLAIN = {
    "asset": "orders",
    "event_id": "e1",
    "extra": {"rows": 3},
    "timestamp": "2026-01-05T11:59:00Z",
    "source": {"kind": "test"},
    "partition_key": "2026-01-05",
}
S3_RECORD = {
    "eventSource": "aws:s3",
    "eventName": "ObjectCreated:Put",
    "eventTime": "2026-01-05T11:59:00.000Z",
    "s3": {
        "bucket": {"name": "lake"},
        "object": {"key": "orders/a%2B1.csv", "size": 3, "eTag": "0", "sequencer": "00A"},
    },
}
S3_DETAIL = {
    "source": "aws.s3",
    "detail-type": "Object Created",
    "time": "2026-01-05T11:59:00Z",
    "id": "5c7d",
    "detail": {"bucket": {"name": "lake"}, "object": {"key": "orders/b.csv", "sequencer": "00B"}},
}
EVENTS: tuple[Any, ...] = (
    PLAIN,
    {"uri": "s3://lake/orders", "aliases": ["any"]},
    {"Type": "Notification", "MessageId": "m1", "Message": json.dumps(PLAIN)},
    {"detail-type": "Asset Event", "detail": PLAIN, "id": "i1", "source": "shop"},
    {"Records": [S3_RECORD]},
    S3_DETAIL,
)
# Of a queue that watchers read.
WATCHED: tuple[Any, ...] = (
    {"amount": 3},
    {"Records": [S3_RECORD, S3_RECORD]},
    S3_DETAIL,
    {"Type": "Notification", "MessageId": "m1", "Message": json.dumps({"Records": [S3_RECORD]})},
    {"source": "shop", "detail-type": "Sale", "id": "i1", "detail": {"amount": 3}},
)
JOB_STATE = {
    "source": "aws.emr-serverless",
    "detail-type": "EMR Serverless Job Run State Change",
    "detail": {"applicationId": "a", "jobRunId": "j", "state": "SUCCESS", "jobRunName": "n"},
}
RUN = ["victim", "2026-01-05T10:00:00+00:00"]
INTERNAL: dict[str, tuple[Any, ...]] = {
    "claims": ({"dag_ids": ["victim", "consumer"]}, {"backfill_ids": ["victim/1"]}),
    "submits": ({"runs": [RUN]}, {"limit": "starts", "at": "2026-01-05T12:00:00Z"}),
    "jobstates": (JOB_STATE, {"runs": [RUN]}, {"job": "j", "executor": "emr-serverless"}),
    "registers": (
        {"Records": [{"s3": {"bucket": {"name": "b"}, "object": {"key": "pushes/b/1.json"}}}]},
        {"refill": "victim"},
        {"retire": "another", "push": 1},
    ),
}


def victim() -> list[DAG]:
    """Return the DAGs of somebody who has nothing to do with all this."""
    orders = Asset("orders", "s3://lake/orders")
    with DAG("victim", schedule="0 * * * *", start_date=NOON.subtract(hours=1)) as timed:
        SparkTask("only", entry_point="jobs/a.py")
    with DAG("consumer", schedule=orders, start_date=NOON.subtract(hours=1)) as consumer:
        SparkTask("only", entry_point="jobs/a.py")
    return [timed, consumer]


def send(url: str, bodies: list[str]) -> None:
    """Send messages together, so that hostile ones are in one batch with others."""
    entries = [{"Id": str(at), "MessageBody": body} for at, body in enumerate(bodies)]
    refused = aws.client("sqs").send_message_batch(QueueUrl=url, Entries=entries).get("Failed")
    assert not refused


def sendable(text: str) -> str:
    """Return a text that SQS takes: not empty, and without characters that XML forbids."""
    kept = text.encode("utf-8", "replace").decode()
    return "".join(c for c in kept if c in "\t\n\r" or " " <= c <= "\ufffd") or "x"


def test_fuzz_of_event_messages_records_every_canary(fuzz: Fuzz) -> None:
    """Plain events and all envelopes, changed: each is recorded or a dead letter, canaries are."""
    with LocalDeployment(victim(), at=NOON) as lamp:
        url, canaries = lamp.queue_url("events"), []
        for at in range(fuzz.rounds // _BATCH):
            made = [message_of(fuzz.random.choice(EVENTS), fuzz.random) for _ in range(_BATCH)]
            canaries.append(f"canary-{at}")
            canary = json.dumps({"asset": "orders", "event_id": canaries[-1]})
            send(url, [*map(sendable, made[:4]), canary, *map(sendable, made[4:])])
            fuzz.tried["event messages"] += _BATCH
            lamp.run_until_idle()
        stored = {row.event_id for row in AssetEvents.scan() if row.seq is not None}
        assert set(canaries) <= stored
        lamp.advance(minutes=10)
        assert lamp.stack.is_idle()
        assert all(letter.reason for letter in lamp.dead_letters())
        assert {run.state for run in lamp.runs("consumer")} == {"success"}


@pytest.mark.parametrize("queue", INTERNAL)
def test_fuzz_of_messages_between_functions_stops_no_schedule(fuzz: Fuzz, queue: str) -> None:
    """Whatever is on a queue between functions, schedules and events go on as if it was not."""
    with LocalDeployment(victim(), at=NOON) as lamp:
        url = lamp.queue_url(queue)
        for _ in range(fuzz.rounds // (4 * _BATCH)):
            valid = [fuzz.random.choice(INTERNAL[queue]) for _ in range(_BATCH)]
            made = [message_of(each, fuzz.random) for each in valid]
            send(url, [sendable(each) for each in made])
            fuzz.tried[f"messages on {queue}"] += len(made)
        lamp.emit("orders", event_id="canary")
        lamp.advance(hours=3, minutes=10)
        runs = [*lamp.runs("victim"), *lamp.runs("consumer")]
        assert len(runs) == 4 + 1
        assert {run.state for run in runs} == {"success"}


def test_fuzz_of_watched_messages_fires_every_canary(fuzz: Fuzz) -> None:
    """Whatever is on a queue of others, its watchers go on with the messages beside it."""
    told = Asset("told", watchers=[AssetWatcher("any", SqsTrigger("raw"))])
    with DAG("watching", schedule=told, max_active_runs=100) as watching:
        SparkTask("only", entry_point="jobs/a.py")
    with LocalDeployment([*victim(), watching], at=NOON) as lamp:
        url, canaries = lamp.stack.watched_queue("raw"), 0
        for at in range(fuzz.rounds // _BATCH):
            made = [message_of(fuzz.random.choice(WATCHED), fuzz.random) for _ in range(_BATCH)]
            canary = json.dumps({"canary": at})
            send(url, [*map(sendable, made[:4]), canary, *map(sendable, made[4:])])
            fuzz.tried["messages of a watched queue"] += _BATCH
            canaries += 1
            lamp.run_until_idle()
        rows = AssetEvents.query("told", consistent_read=True)
        payloads = [(row.extra or {}).get("payload") for row in rows if row.seq is not None]
        found = {each["canary"] for each in payloads if isinstance(each, dict) and "canary" in each}
        assert found == set(range(canaries))
        lamp.advance(minutes=10)
        assert lamp.stack.is_idle()


def test_fuzz_of_archives_writes_nothing_outside(fuzz: Fuzz, tmp_path: Path) -> None:
    """A damaged archive is opened or refused; nothing is ever written beside its folder."""
    files = {"dags/a.py": "x = 1\n" * 50, "jobs/b.py": "pass\n", "lib/c/d.py": "y = 2\n"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    packed = build_archive(tmp_path).data
    with tempfile.TemporaryDirectory() as folder:
        for at in range(fuzz.rounds):
            inside = Path(folder) / "inside"
            inside.mkdir()
            try:
                open_archive(damaged(packed, fuzz.random), inside / str(at))
                fuzz.tried["archives, opened"] += 1
            except DefinitionError:
                fuzz.tried["archives, refused"] += 1
            assert [path.name for path in Path(folder).iterdir()] == ["inside"]
            assert {path.name for path in inside.iterdir()} <= {str(at)}
            inside.rename(Path(folder).with_name(f"{Path(folder).name}-{at}"))
            _remove(Path(folder).with_name(f"{Path(folder).name}-{at}"))


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_fuzz_of_documents_registers_every_canary(fuzz: Fuzz) -> None:
    """A document that the sandbox garbles is an error of its file; the DAG beside it is there."""
    document = encode_dag(victim()[1]) | {"dag_id": "evil"}
    entry = {"dag_id": "evil", "line": 1, "hash": "0", "schedule": "", "description": ""}
    with LocalDeployment(at=NOON) as lamp:
        for at in range(fuzz.rounds // _BATCH):
            hostile = [
                ParsedFile(f"dags/{number}.py", [found], [], [])
                for number in range(_BATCH)
                for found in [_garbled({**entry, "document": document}, number, fuzz)]
            ]
            canary = _entry_of(DAG(f"canary_{at}"))
            parsed = [*hostile[:4], ParsedFile("dags/z.py", [canary], [], []), *hostile[4:]]
            push = Push(f"bundle{at}", "0" * 64, next_push_number(f"bundle{at}"))
            with (
                patch.object(Sandbox, "parse", lambda _, parsed=parsed: iter(parsed)),
                patch.object(Sandbox, "upcoming_runs", lambda *_: {}),
            ):
                register(push)
            fuzz.tried["documents"] += _BATCH
            assert f"canary_{at}" in {row.dag_id for row in Dags.scan()}
        lamp.advance(minutes=2)
        assert lamp.stack.is_idle()


def _garbled(entry: dict[str, Any], number: int, fuzz: Fuzz) -> dict[str, Any]:
    changed: dict[str, Any] = mutated(entry, fuzz.random)
    if isinstance(changed, dict) and changed.get("dag_id") == "evil":
        changed["dag_id"] = f"evil_{number}"
    return changed


def _entry_of(dag: DAG) -> dict[str, Any]:
    entry = {"dag_id": dag.dag_id, "line": 1, "hash": "0", "schedule": "", "description": ""}
    return {**entry, "document": encode_dag(dag)}


CRONS = ("0 * * * *", "*/5 6-18 * * mon-fri", "0 0 29 2 *", "@daily", "30 2 L * 5#2", "* * * * * *")
ZONES = ("UTC", "Europe/Zurich", "Australia/Lord_Howe", "../../etc/passwd", "")


def test_fuzz_of_cron_expressions_is_refused_or_has_a_next_run(fuzz: Fuzz) -> None:
    """A text is no expression, or its next run is found, or there is none; it never hangs."""
    between = TimeRestriction(NOON, NOON.add(years=50), catchup=True)
    for _ in range(fuzz.rounds):
        text, zone = fuzz.random.choice(CRONS), fuzz.random.choice(ZONES)
        text = fuzz.random.choice([text, broken(text, fuzz.random)])
        for kind in (CronDataIntervalTimetable, CronTriggerTimetable):
            try:
                timetable = kind(text, timezone=zone)
                timetable.validate()
                found = timetable.next_dagrun_info(
                    last_automated_data_interval=None, restriction=between
                )
            except DefinitionError:
                fuzz.tried["cron expressions, refused"] += 1
            else:
                fuzz.tried["cron expressions, valid"] += 1
                assert found is None or found.run_after >= NOON


REPORT: dict[str, Any] = {
    "state": "success",
    "reason": "all is well",
    "outlets": {"reports": {"rows": 3}},
    "aliases": {"any": [{"name": "found", "uri": "s3://lake/found", "extra": {"rows": 1}}]},
    "outputs": {"rows": 3, "files": ["s3://lake/a", {"größe": 0.5}]},
}


def test_fuzz_of_reports_ends_every_run_and_records_every_canary(fuzz: Fuzz) -> None:
    """Whatever a job reports, its run ends, and the runs and events of others are theirs."""
    with DAG("evil", schedule=None) as evil:
        reports, found = Asset("reports", "s3://lake/reports"), AssetAlias("any")
        only = SparkTask("only", entry_point="jobs/a.py", outlets=[reports, found])
        arguments = ["{{ outputs.only | tojson }}", "{{ outputs.only.rows }}"]
        only >> SparkTask("reader", job="jobs.a:run", inputs=[only], arguments=arguments)
    with LocalDeployment([*victim(), evil], at=NOON) as lamp:
        assert isinstance(lamp.executor, FakeEmr)
        for at in range(fuzz.rounds // 5):
            said = mutated(REPORT, fuzz.random)
            report = said if isinstance(said, dict) else {"outlets": said}
            lamp.executor.next_outcome("evil", "only", Outcome(report=report))
            lamp.trigger("evil")
            lamp.emit("orders", event_id=f"canary-{at}")
            lamp.advance(seconds=10)
            fuzz.tried["reports"] += 1
        lamp.advance(hours=2)
        assert len(lamp.runs("evil")) == fuzz.rounds // 5
        assert {run.state for run in lamp.runs("evil")} <= {"success", "failed"}
        assert {run.state for run in lamp.runs("victim")} == {"success"}
        stored = {row.event_id for row in AssetEvents.scan() if row.seq is not None}
        assert {f"canary-{at}" for at in range(fuzz.rounds // 5)} <= stored
        assert lamp.stack.is_idle()


TEMPLATES = (
    "{% for day in params.days %}{{ day | upper }},{% endfor %}{{ ds }}",
    "{{ macros.ds_add(ds, 7) }} {% if params.n > 1 %}{{ params.text[:9] }}{% else %}-{% endif %}",
    "{{ params.days | join(', ') | replace('a', params.text) }} {{ params.days | tojson }}",
    "{% set a = params.n * 2 %}{{ '%s-%02d' % (run_id, a) }}{{ data_interval_end.add(days=1) }}",
    "{{ (logical_date | ts_nodash) ~ conf.get('x', 'none') }}{{ range(9) | sum }}",
)


def test_fuzz_of_templates_is_refused_or_rendered_within_limits(fuzz: Fuzz) -> None:
    """A changed template is an error in one line or a text of limited length; valid ones render."""
    start = pendulum.datetime(2026, 1, 5)
    names = {**dated(start, start, start.add(days=1)), "macros": MACROS, "run_id": "run"}
    params: dict[str, Any] = {"days": ["mon", "tue"], "n": 2, "text": "text"}
    names |= {"params": params, "conf": {}}
    for _ in range(fuzz.rounds):
        text = fuzz.random.choice(TEMPLATES)
        text = fuzz.random.choice([text, broken(text, fuzz.random)])
        given = names | {"params": fuzz.random.choice([params, mutated(params, fuzz.random)])}
        problem = None
        try:
            rendered = render(text, given, what="task 't': arguments")
        except DefinitionError as error:
            rendered, problem = "", str(error)
        fuzz.tried[f"templates, {'refused' if problem else 'rendered'}"] += 1
        assert "\n" not in (problem or "")
        assert len(rendered.encode("utf-8", "surrogatepass")) <= MAX_RENDERED
        assert render("{{ ds }}", names, what="canary") == "2026-01-05"


URIS = ("s3://lake/orders", "https://example.com/a?b=c#d", "file:///a/b", "x-shop:orders", "orders")


@pytest.mark.filterwarnings("ignore")
def test_fuzz_of_uris_is_refused_or_has_one_normal_form(fuzz: Fuzz) -> None:
    """The normal form of a URI is its own normal form, and never holds a password."""
    for _ in range(fuzz.rounds):
        given = _hostile_uri(fuzz.random)
        try:
            uri = Asset("orders", given).uri
        except DefinitionError:
            fuzz.tried["URIs, refused"] += 1
            continue
        fuzz.tried["URIs, valid"] += 1
        assert normalize_uri(uri) == uri
        assert "hunter2@" not in uri


def _hostile_uri(random: Random) -> str:
    uri = random.choice(URIS)
    match random.randrange(3):
        case 0:
            return broken(uri, random)
        case 1:
            return uri.replace("//", "//user:hunter2@")
        case _:
            return uri + str(random.choice(NASTY))
