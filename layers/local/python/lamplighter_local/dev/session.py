"""A deployment in real time: what `lamplighter dev` runs.

    with dev_session(Path("my_bundle")) as session:
        while True:
            for activity in session.step():
                print(activity)
            time.sleep(0.5)

Everything that touches the tables happens in `step`. Spark, the endpoint and the file system have
threads of their own.

Owns: the order in which all of it starts and ends, and that there is one session at a time.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pendulum import DateTime

from lamplighter.bundles.archive import build_archive
from lamplighter.bundles.layout import require_bundle
from lamplighter.bundles.parsing import check_bundle
from lamplighter.clock import SystemClock
from lamplighter.dags.kinds import SparkTask
from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter.errors import DefinitionError, RefusedError
from lamplighter.identifiers import require_id
from lamplighter.store.dags import all_dags
from lamplighter.zones import as_utc, iso
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.activity import Activity, ActivityFeed, RunningStep
from lamplighter_local.dev.background_spark import BackgroundSpark
from lamplighter_local.dev.file_watch import FileWatch, watching_files
from lamplighter_local.dev.log import LogCollector, collected_logs
from lamplighter_local.dev.server import Endpoint, serving
from lamplighter_local.emulator.guarded import AccessKey
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.spark.java import NO_JAVA, find_java_home, kinds_of
from lamplighter_operations.views import AssetProgress, Dag, asset_progress, view_dag

_LOCK = "dev.lock"
_JOBS = "dev-jobs"
_real_time = SystemClock()


@dataclass(frozen=True)
class SessionInfo:
    """The bundle and endpoint of a session, and the directory for the files of jobs."""

    root: Path
    bundle: str
    endpoint_url: str
    jobs: Path | None


@dataclass(frozen=True)
class Snapshot:
    """The state of all DAGs and running steps."""

    now: DateTime
    ticked_at: DateTime | None
    dags: list[Dag]
    # By DAG that waits for assets.
    assets: dict[str, AssetProgress]
    running: list[RunningStep]


class DevSession:
    """A running session, which `dev_session` opens."""

    def __init__(
        self,
        lamp: LocalDeployment,
        info: SessionInfo,
        endpoint: Endpoint,
        logs: LogCollector,
        files: FileWatch,
        *,
        catch_up: bool,
    ) -> None:
        self.info = info
        self._lamp = lamp
        self._endpoint = endpoint
        self._logs = logs
        self._files = files
        self._catch_up = catch_up
        self._version = ""
        self._ticked_at: DateTime | None = None
        self._feed = ActivityFeed()
        call = lamp.stack.call

        def call_and_report(function: str, event: dict[str, Any]) -> Any:
            if function == "tick":
                # Even if it fails: the next tick comes with the next minute.
                self._ticked_at = self._lamp.now
            try:
                answer = call(function, event)
            except Exception as error:  # noqa: BLE001 - as Lambda does: the others go on
                self._logs.add(f"function {function}", "error", f"{type(error).__name__}: {error}")
                return None
            if function == "tick" and answer is not None:
                self._report_tick(answer)
            return answer

        lamp.stack.call = call_and_report
        self._push()

    # Time.

    def step(self) -> list[Activity]:
        """Move the clock to the real time; return what has happened."""
        if self._files.take():
            self._push()
        with self._endpoint.busy():
            self._advance_to(as_utc(_real_time.now()))
        return [*self._logs.take(), *self._feed.poll()]

    def _advance_to(self, real: DateTime) -> None:
        # The clock of a machine may be set back.
        now = max(real, self._lamp.now)
        self._lamp.advance(to=now)
        minute = now.start_of("minute")
        # The deployment skips ticks that have nothing to do, but users expect to see them.
        if self._ticked_at is None or self._ticked_at < minute:
            self._lamp.stack.tick()
            self._lamp.run_until_idle()

    def _report_tick(self, answer: Mapping[str, int]) -> None:
        parts = [
            f"{answer[name]} {words}"
            for name, words in (("claimed_runs", "claimed"), ("sent_ahead", "sent ahead"))
            if answer[name]
        ]
        if parts:
            self._logs.add("tick", "", ", ".join(parts))

    # The bundle.

    def _push(self) -> None:
        """Register the bundle if its files have changed."""
        try:
            version = build_archive(self.info.root).hash
            if version == self._version:
                return
            self._logs.owed.clear()
            self._lamp.push(self.info.root, name=self.info.bundle)
        except (DefinitionError, OSError) as error:
            # The directory is being written, or is gone: the registered bundle stays.
            self._logs.add(f"bundle {self.info.bundle}", "error", str(error))
            return
        self._version = version
        if self._logs.owed and not self._catch_up:
            self._report_skipped(self._logs.owed)

    def _report_skipped(self, owed: Mapping[str, int]) -> None:
        at_least = "at least " if max(owed.values()) >= MAX_OWED_COUNTED else ""
        each = ", ".join(f"{dag_id} {count:,}" for dag_id, count in sorted(owed.items()))
        runs = f"{at_least}{sum(owed.values()):,} runs that are already due are skipped ({each})"
        self._logs.add("catch-up", "", f"{runs}; --catchup creates them")

    # State.

    def snapshot(self) -> Snapshot:
        """Return the state of all DAGs and running steps."""
        rows = sorted(all_dags(), key=lambda row: row.dag_id)
        return Snapshot(
            now=self._lamp.now,
            ticked_at=self._ticked_at,
            dags=[view_dag(row) for row in rows],
            assets=asset_progress(rows),
            running=self._feed.running,
        )


@contextmanager
def dev_session(
    root: Path,
    *,
    bundle: str = "",
    is_instant: bool = False,
    catch_up: bool = False,
    port: int = 0,
    variables: Mapping[str, str] = MappingProxyType({}),
    secrets: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[DevSession]:
    """Run a bundle in real time until the block ends; nothing of it remains after that.

    Args:
        root: The directory of the bundle.
        bundle: Its name; defaults to the name of the directory.
        is_instant: Steps do nothing and take a second, instead of running on Spark.
        catch_up: Also create the runs that are already due.
        port: The port of the endpoint; defaults to any free port.
        variables: The deployment's variables, for templates and jobs.
        secrets: What references of jobs lead to.
    """
    root = require_bundle(root)
    bundle = require_id(bundle or root.name, what="bundle")
    lacks_java = not is_instant and _lacks_java(root)
    with ExitStack() as until_the_end:
        enter = until_the_end.enter_context
        home = enter(_only_one())
        spark = None if is_instant else BackgroundSpark(_new_folder(home), secrets=secrets)
        lamp = enter(
            LocalDeployment(
                at=_real_time.now(),
                executor=spark or "instant",
                variables=variables,
                catch_up=catch_up,
                poll_real_sources=True,
            )
        )
        if spark is not None:
            enter(spark.working())
        sandbox = lamp.stack.settings.sandbox_function
        endpoint = enter(serving(lamp.stack.lock, sandbox=sandbox, port=port))
        logs, files = enter(collected_logs()), enter(watching_files(root))
        if lacks_java:
            logs.add("Spark", "missing", f"steps on Spark fail, others run: {NO_JAVA}")
        info = SessionInfo(root, bundle, endpoint.url, spark.folder if spark else None)
        session = DevSession(lamp, info, endpoint, logs, files, catch_up=catch_up)
        enter(_state_file(info, lamp, endpoint.key))
        yield session


def _lacks_java(root: Path) -> bool:
    """Return whether steps on Spark cannot run here; refuse a bundle that has no others."""
    if find_java_home() is not None:
        return False
    kinds = kinds_of(dag.document for dag in check_bundle(root).dags)
    if kinds == {SparkTask.kind}:
        raise RefusedError(f"{NO_JAVA}; or use --instant, which runs no jobs")
    return SparkTask.kind in kinds


@contextmanager
def _only_one() -> Iterator[Path]:
    """Refuse a second session; yield the directory for the files of this one."""
    home = dev_state.path().parent
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (home / _LOCK).open("w")
    except OSError as error:
        raise RefusedError(
            f"{home} cannot be written: {error.strerror}; set LAMPLIGHTER_STATE_DIR to a"
            " writable directory"
        ) from error
    with lock:
        try:
            # The operating system releases it, however the process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefusedError(
                "`lamplighter dev` is already running: stop it first, or set LAMPLIGHTER_STATE_DIR"
                " to another directory"
            ) from error
        yield home


def _new_folder(home: Path) -> Path:
    """Return an empty directory for the files of jobs; those of the last session are removed."""
    jobs = home / _JOBS
    shutil.rmtree(jobs, ignore_errors=True)
    jobs.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(dir=jobs, prefix="session-"))


@contextmanager
def _state_file(info: SessionInfo, lamp: LocalDeployment, key: AccessKey) -> Iterator[None]:
    """Keep the file by which other commands find this session until the block ends."""
    dev_state.write(
        dev_state.DevState(
            endpoint_url=info.endpoint_url,
            region=REGION,
            pid=os.getpid(),
            bundle=info.bundle,
            started_at=iso(lamp.now),
            access_key_id=key.id,
            secret_access_key=key.secret,
            settings=asdict(lamp.stack.settings),
        )
    )
    try:
        yield
    finally:
        dev_state.remove(pid=os.getpid())
