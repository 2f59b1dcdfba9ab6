"""From the previous release to this one and back, deployed, with work under way both times."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from lamplighter import aws
from lamplighter.events.emit import emit
from lamplighter.store.models import AssetEvents, Runs
from lamplighter_cli.deployment import Target, in_force
from lamplighter_local.emr.fake_emr import FakeEmr
from tests.deployed.conftest import STACK, Deployed
from tests.tools import emulated, previous_release
from tests.tools.emr_server import serving_emr
from tests.tools.invariants.tables import violations
from tests.tools.previous_release import PreviousRelease

pytestmark = [pytest.mark.full, pytest.mark.allow_hosts(["127.0.0.1"])]

_DAGS = """\
import pendulum
from lamplighter import DAG, Asset, SparkTask

START = pendulum.datetime(2026, 1, 1, tz="UTC")
sales, lake = Asset("sales"), Asset("lake")

with DAG("held", schedule=None, max_active_runs=2, start_date=START):
    first = SparkTask("first", job="jobs.work:run")
    first >> SparkTask("second", job="jobs.work:run", outlets=[lake])

with DAG("consumer", schedule=lake | sales, start_date=START):
    SparkTask("work", job="jobs.work:run")

with DAG("every_minute", schedule="* * * * *", start_date=START, catchup=False):
    SparkTask("work", job="jobs.work:run")
"""
_RUNS = 4
_DELAY_SECONDS = 45


@contextmanager
def _deployed(release: PreviousRelease, folder: Path) -> Iterator[Deployed]:
    """Yield a deployment of the previous release."""
    emr = FakeEmr()
    with (
        emulated.emulator(folder) as there,
        emulated.leading_to(there),
        serving_emr(emr) as address,
    ):
        made = Deployed(there, emr)
        made.flags = {
            "emr_endpoint": address,
            "concurrency": "2",
            "job_poll_seconds": "60",
            "job_starts_per_second": "0",
        }
        emulated.bootstrap(there)
        _deploy_previous(made, release)
        with in_force(Target(stack=STACK)):
            yield made


def _deploy_previous(made: Deployed, release: PreviousRelease) -> None:
    emulated.deploy(
        made.there,
        made.flags,
        tree=release.root,
        runtime=release.runtime(),
        variables=release.variables,
    )


def _begin(made: Deployed, name: str) -> None:
    """Leave runs with jobs under way, runs that wait for a slot, and messages that are delayed."""
    made.emr.capacity = 0  # jobs are in line until the other code is there
    for number in range(_RUNS):
        made.command("runs", "trigger", "held", "--run-id", f"{name}-{number}")
    made.soon(lambda: sum(job.dag == "held" for job in made.emr.live()) == 2)
    emit("sales", event_id=f"{name}-at-once")
    held = [["held", run.run_key] for run in Runs.query("held") if run.state == "running"]
    for queue, body in (
        ("events", {"asset": "sales", "event_id": f"{name}-delayed"}),
        ("submits", {"runs": held}),
        ("jobstates", {"runs": held}),
        ("claims", {"dag_ids": ["held", "consumer", "every_minute"]}),
    ):
        aws.client("sqs").send_message(
            QueueUrl=made.settings.queue_url(queue),
            MessageBody=json.dumps(body),
            DelaySeconds=_DELAY_SECONDS,
        )


def _finish(made: Deployed, name: str) -> None:
    """Let the jobs end, and everything of a name; nothing of it was lost or has happened twice."""
    made.emr.capacity = None

    def ended() -> bool:
        runs = [run for run in Runs.query("held", consistent_read=True) if name in run.run_id]
        assert all(run.state in {"queued", "running", "success"} for run in runs)
        return Counter(run.state for run in runs) == {"success": _RUNS}

    made.soon(ended, sweeps=True)
    made.soon(lambda: f"{name}-delayed" in _recorded("sales"))
    recorded = _recorded("sales")
    assert recorded.count(f"{name}-at-once") == recorded.count(f"{name}-delayed") == 1
    made.soon(_is_consumed, sweeps=True)
    made.soon(lambda: not violations(is_idle=False))
    assert made.emr.doubles() == []
    assert made.command("dlq", "list") == []


def _recorded(asset: str) -> list[str]:
    return [row.event_id for row in AssetEvents.query(asset, consistent_read=True)]


def _is_consumed() -> bool:
    """Return whether each event of both assets is in a range of one run of the consumer."""
    runs = [run for run in Runs.query("consumer", consistent_read=True) if run.events]
    for asset in ("sales", "lake"):
        ranges = sorted(run.events[asset] for run in runs if asset in run.events)
        numbers = [seq for after, until in ranges for seq in range(after + 1, until + 1)]
        if numbers != list(range(1, len(_recorded(asset)) + 1)):
            return False
    return all(run.state == "success" for run in runs)


def test_upgrade_and_rollback_lose_and_double_nothing() -> None:
    """Work that the previous release has begun ends with this one, and the other way round."""
    if (missing := emulated.why_not() or previous_release.why_not()) is not None:
        pytest.skip(missing)
    with TemporaryDirectory(prefix="lamplighter-upgrade-") as name:
        folder = Path(name)
        release = previous_release.check_out(folder / "previous")
        (folder / "emulator").mkdir()
        folder.chmod(0o755)
        with _deployed(release, folder / "emulator") as made:
            bundle = folder / "bundle"
            for path, text in (("dags/work.py", _DAGS), ("jobs/work.py", "def run(s, c): ...\n")):
                (bundle / path).parent.mkdir(parents=True)
                (bundle / path).write_text(text)
            made.command("push", str(bundle), "--yes")
            made.soon(lambda: len(made.command("dags", "list")) == 3)
            _begin(made, "up")
            said = made.deploy()
            assert "UPDATE_COMPLETE" in said
            _finish(made, "up")

            _begin(made, "back")
            _deploy_previous(made, release)
            _finish(made, "back")
