"""A deployment's hour with a healthy bundle, and perhaps with one that attacks it all the time.

    python -c 'from tests.hostile.two_bundles import tell; tell(...)'

It is told by a process of its own, which looks like Lambda's. Whatever belongs to no bundle, such
as the messages of a source that both watch, is the same with the attacker and without.
"""

import inspect
import json
import os
import sys
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pendulum import datetime

from lamplighter import aws
from lamplighter.bundles.fork import Limits
from lamplighter.runs.job_request import report_uri
from lamplighter.store.models import AssetEvents, Catalog, Steps
from lamplighter.store.watchers import read_parked
from lamplighter_local import handlers
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.handlers import LambdaContext, handler_of
from lamplighter_local.stack import LocalStack, local_stack
from tests.hostile.test_jobs import WRITE, forge, may
from tests.hostile.test_sandbox import DEAD, living
from tests.hostile.test_templates import HARMLESS, HOSTILE, store_hostile
from tests.hostile.test_watch import ATTACKS, DAEMON, DAG_FILE, QUEUE_TRIGGER
from tests.tools.invariants.tables import require_sound
from tests.tools.reports import secret_of

NOON = datetime(2026, 1, 5, 12)
# Long enough for a process to begin on a busy machine; what hangs takes all of it.
_WATCH_SECONDS = 30
_RUNS_PER_HOUR = 20
_EVENTS_PER_MINUTE = 150

HEALTHY_DAGS = ("downstream", "healthy", "ordered", "timed")
HEALTHY_ASSETS = ("built_in_healthy", "healthy", "made", "orders")
_HEALTHY_FILE = """
import pendulum
from lamplighter import DAG, Asset, SparkTask
made = Asset("made", "s3://lake/made")
start = pendulum.datetime(2026, 1, 5, 12)
with DAG("timed", schedule="*/10 * * * *", start_date=start, description="{description}"):
    first = SparkTask("first", job="jobs.x:main", arguments=["{{{{ ts }}}}"])
    first >> SparkTask("second", job="jobs.x:main", outlets=[made])
with DAG("downstream", schedule=made):
    SparkTask("t", job="jobs.x:main")
with DAG("ordered", schedule=Asset("orders")):
    SparkTask("t", job="jobs.x:main")
"""

# The attacker.

_TEMPLATES = ("loop in loop", "tower of powers", "center", "list of lists", "macro")
_DAG_FILES = ("kills the worker", "exits", "floods a line", "says garbage", "says no number")
_ENDLESS = """
import pendulum
from lamplighter import DAG, Asset, SparkTask
start = pendulum.datetime(2026, 1, 5, 12)
x, y, noise = Asset("x"), Asset("y"), Asset("noise")
with DAG("refused", schedule=x, start_date=start):
    SparkTask("t", job="jobs.x:main", outlets=[x])
with DAG("endless", schedule=y, allow_cycle=True, max_active_runs=100):
    SparkTask("t", job="jobs.x:main", outlets=[y])
with DAG("flooded", schedule=noise, max_active_runs=100):
    SparkTask("t", job="jobs.x:main")
for number in range({templates}):
    with DAG(f"template_{{number}}", schedule="*/10 * * * *", start_date=start):
        SparkTask("t", job="jobs.x:main", arguments=["{harmless}"])
"""
_FIRES = "fires too often"
# What the attacker's watcher does, one after the other.
_ACTS = {
    "exits": ATTACKS["exits"],
    "kills the process above": ATTACKS["kills the process above"],
    "floods": ATTACKS["floods"],
    "speaks for others": ATTACKS["speaks for others"].replace("good/own/0", "healthy/own/0"),
    "leaves a daemon": DAEMON.format(path="{daemons}", then="os._exit(1)"),
    _FIRES: "for number in range(100): yield str(number)",
    "hangs": ATTACKS["hangs"],
}


def tell(root: str, *, is_attacked: bool) -> None:
    """Print as JSON what became of the healthy bundle, and of the attacks if there were any."""
    emr = FakeEmr()
    with local_stack(at=NOON, on=emr) as stack:
        # The emulator has cleared the environment.
        os.environ["AWS_LAMBDA_RUNTIME_API"] = "127.0.0.1:9"
        stack.runtime.isolates_watchers = True
        stack.settings = replace(
            stack.settings,
            due_shards=1,
            asset_runs_per_hour=_RUNS_PER_HOUR,
            watcher_events_per_minute=_EVENTS_PER_MINUTE,
        )
        stack.call = _call
        attacker = _Attacker(stack, emr, Path(root)) if is_attacked else None
        _live(stack, emr, Path(root), attacker)
        stack.advance(hours=1)
        require_sound()
        told = {"history": _history(stack, emr)}
        if attacker is not None:
            told["attacks"] = attacker.outcome()
    sys.stdout.write(f"\n{json.dumps(told, default=str)}\n")


def _call(function: str, event: dict[str, Any]) -> Any:
    seconds = _WATCH_SECONDS if function == "watch" else 60
    return handlers.call(function, event, LambdaContext(seconds * 1000))


def _live(stack: LocalStack, emr: FakeEmr, root: Path, attacker: "_Attacker | None") -> None:
    """Push the healthy bundle, let its sources speak, and push it again."""
    for task in ("first", "second"):
        emr.takes("timed", task, seconds=30)
    if attacker is not None:
        attacker.push()
    _push_healthy(stack, root, "as it was")
    for number, kind in enumerate(_ACTS):
        stack.advance(minutes=10)
        url = stack.watched_queue("raw")
        said = {"name": "attack", "how": kind}
        for _ in range(2):
            aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(said))
        stack.emit("orders", event_id=f"order-{number}", extra={"number": number})
        stack.run_until_idle()
        if attacker is not None:
            attacker.forge_events(number)
            attacker.flood()
        stack.advance(seconds=15)  # a job is at work
        if attacker is not None:
            attacker.forge_reports()
        if number == 2:
            if attacker is not None:
                attacker.push()
            _push_healthy(stack, root, "as it is")


def _push_healthy(stack: LocalStack, root: Path, description: str) -> None:
    files = {
        "dags/watched.py": DAG_FILE.format(bundle="healthy"),
        "dags/others.py": _HEALTHY_FILE.format(description=description),
        "triggers/healthy.py": QUEUE_TRIGGER.format(bundle="healthy", act=_indented("pass")),
    }
    _push(stack, root, "healthy", files)


def _push(stack: LocalStack, root: Path, bundle: str, files: dict[str, str]) -> None:
    for name, text in {**files, "jobs/x.py": "def main(): pass\n"}.items():
        path = root / bundle / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    stack.push(root / bundle, bundle=bundle)


def _indented(act: str) -> str:
    return "\n".join(f"            {line}" for line in act.strip().splitlines())


class _Attacker:
    """The owner of the other bundle."""

    def __init__(self, stack: LocalStack, emr: FakeEmr, root: Path) -> None:
        self._stack, self._emr, self._root = stack, emr, root
        self._daemons = root / "daemons"
        self._forged_reports = 0

    def push(self) -> None:
        """Push files that attack whoever imports them, DAGs without end, and hostile templates."""
        files = {f"dags/dead_{at}.py": DEAD[kind] for at, kind in enumerate(_DAG_FILES)}
        files |= {
            "dags/watched.py": DAG_FILE.format(bundle="hostile"),
            "dags/endless.py": _ENDLESS.format(templates=len(_TEMPLATES), harmless=HARMLESS),
            "dags/hangs.py": "while True: pass\n",
            "triggers/hostile.py": QUEUE_TRIGGER.format(
                bundle="hostile", act=_indented(self._acts())
            ),
        }
        # What hangs does so for as long as it may.
        limits = Limits(seconds=5)
        sandbox = inspect.getmodule(handler_of("sandbox"))
        with patch.object(sandbox, "limits_within", lambda _: limits):
            _push(self._stack, self._root, "hostile", files)
        for number, kind in enumerate(_TEMPLATES):
            store_hostile(HOSTILE[kind], f"template_{number}")
        self._stack.emit("y")

    def _acts(self) -> str:
        """Return what its watcher does at a message; processes it ends, or stops, only once."""
        lines = [
            "how = message.content['how']",
            f"mark = {str(self._root / 'done-')!r} + how",
            "is_new = not os.path.exists(mark)",
            "open(mark, 'w').close()",
        ]
        for kind, act in _ACTS.items():
            when = "True" if kind == _FIRES else "is_new"
            lines.append(f"if how == {kind!r} and {when}:")
            filled = act.replace("{daemons}", str(self._daemons))
            lines += [f"    {line}" for line in filled.strip().splitlines()]
        return "\n".join(lines)

    def forge_events(self, number: int) -> None:
        """Speak for outlets of others, and with the ids of others."""
        source = {"dag_id": "timed", "run_id": "x", "task_id": "second", "try_number": 1}
        forged: list[dict[str, Any]] = [
            {"asset": "made", "event_id": f"outlet-{number:032x}", "extra": {"rows": 0}},
            {"asset": "made", "event_id": f"x-{number}", "source": source},
            {"asset": "orders", "event_id": f"order-{number}", "extra": {"number": -1}},
            *(
                {"asset": "made", "event_id": row.event_id, "extra": {"rows": -1}}
                for row in AssetEvents.query("made", consistent_read=True)
            ),
        ]
        self._send(forged)

    def flood(self) -> None:
        """Send a hundred events."""
        self._send({"asset": "noise"} for _ in range(100))

    def _send(self, events: Iterable[dict[str, Any]]) -> None:
        url = self._stack.settings.queue_url("events")
        for event in events:
            aws.client("sqs").send_message(QueueUrl=url, MessageBody=json.dumps(event))

    def forge_reports(self) -> None:
        """Say for all jobs at work that they had nothing to do, with a secret of one's own."""
        own = [job for job in self._emr.jobs if job.dag not in HEALTHY_DAGS]
        for job in self._emr.live():
            if job.dag in HEALTHY_DAGS:
                # Its policy keeps it from that; so does the secret of the other one.
                assert not may(own[-1], WRITE, report_uri(job.context_uri))
                forge(job, secret_of(own[-1].context_uri))
                self._forged_reports += 1

    def outcome(self) -> dict[str, Any]:
        """Return what shows that the attacks took place, and what stopped them."""
        floods = {name: len(self._stack.runs(name)) for name in ("endless", "flooded")}
        templates = [f"template_{number}" for number in range(len(_TEMPLATES))]
        noted = [
            row
            for asset in ("made", "orders")
            for row in AssetEvents.query(asset, consistent_read=True)
            if row.conflict is not None
        ]
        return {
            "acts": sorted(path.name.removeprefix("done-") for path in self._root.glob("done-*")),
            "daemons alive": living(self._daemons),
            "files with problems": [row.id for row in Catalog.query("problems#hostile")],
            "runs": floods,
            "paused": sorted(name for name in floods if self._stack.dag(name).is_paused),
            "parked": sorted(read_parked()),
            "states of templates": sorted({step.state for step in _steps(self._stack, *templates)}),
            "reports": {
                "forged": self._forged_reports,
                "refused": sum(
                    "was refused" in (step.error or "")
                    for step in _steps(self._stack, *HEALTHY_DAGS)
                ),
            },
            "conflicts": len(noted),
        }


def _steps(stack: LocalStack, *dag_ids: str) -> list[Steps]:
    """Return the steps of some DAGs in the order of their runs."""
    return [
        step
        for dag_id in dag_ids
        for run in stack.runs(dag_id)
        for _, step in sorted(stack.steps(run).items())
    ]


# What differs between any two deployments, by chance or by the number of jobs there are.
_BY_CHANCE = {"claim_id", "job_run_id", "report_secret"}
# Where it is noted what was attempted against the healthy bundle.
_NOTES = {"conflict", "error"}


def _history(stack: LocalStack, emr: FakeEmr) -> dict[str, Any]:
    """Return all rows of the healthy bundle, and its jobs."""
    found: dict[str, Any] = {
        "dags": [_told(stack.dag(dag_id)) for dag_id in HEALTHY_DAGS],
        "runs": [_told(run) for dag_id in HEALTHY_DAGS for run in stack.runs(dag_id)],
        "steps": [_told(step) for step in _steps(stack, *HEALTHY_DAGS)],
        "jobs": [
            [job.dag, job.task, job.submission, job.state]
            for job in emr.jobs
            if job.dag in HEALTHY_DAGS
        ],
        "problems": [row.id for row in Catalog.query("problems#healthy")],
    }
    for asset in HEALTHY_ASSETS:
        events = AssetEvents.query(asset, consistent_read=True)
        found[f"events of {asset}"] = [
            # The ids of watchers' events are made from those of messages.
            _without(_told(row), {"event_id"} if "watcher" in (row.source or {}) else set())
            for row in sorted(events, key=lambda row: row.seq)
        ]
    return found


def _told(row: Any) -> Any:
    return _without(row.attribute_values, _BY_CHANCE | _NOTES)


def _without(value: Any, names: AbstractSet[str]) -> Any:
    """Return a value of a row, in which nothing has one of some names."""
    if isinstance(value, dict):
        return {key: _without(each, names) for key, each in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(each, names) for each in value]
    return sorted(value) if isinstance(value, set) else value
