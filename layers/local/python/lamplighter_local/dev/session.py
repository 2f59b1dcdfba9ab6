"""A deployment that follows the real time: what `lamplighter dev` runs.

    with developing(Path("my_bundle")) as dev:
        while True:
            for news in dev.step():
                print(news)
            time.sleep(0.5)

Everything that touches the tables happens in `step`. Beside it there are threads for Spark, for
the endpoint, and for the file system.

Owns: the order in which all of it begins and ends, and that there is one at a time.
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
from lamplighter.clock import SystemClock
from lamplighter.dags.upcoming import MAX_OWED_COUNTED
from lamplighter.errors import DefinitionError, RefusedError
from lamplighter.identifiers import require_id
from lamplighter.scheduler.pending import pending_of, waited_for
from lamplighter.store.models import Dags
from lamplighter.zones import as_utc, iso
from lamplighter_local.deployment import LocalDeployment
from lamplighter_local.dev import state as dev_state
from lamplighter_local.dev.background_spark import BackgroundSpark
from lamplighter_local.dev.log import Heard, listening
from lamplighter_local.dev.news import Follower, LiveStep, News
from lamplighter_local.dev.server import Endpoint, serving
from lamplighter_local.dev.watch import Watch, watching
from lamplighter_local.emulator.guarded import AccessKey
from lamplighter_local.emulator.moto_memory import REGION
from lamplighter_local.spark.java import NO_JAVA, find_java_home

_LOCK = "dev.lock"
_JOBS = "dev-jobs"
_real_time = SystemClock()


@dataclass(frozen=True)
class Place:
    """Where a session can be reached, and where its jobs leave their files."""

    root: Path
    bundle: str
    endpoint_url: str
    jobs: Path | None


@dataclass(frozen=True)
class View:
    """How everything stands."""

    now: DateTime
    ticked_at: DateTime | None
    dags: list[Dags]
    # By DAG that waits for assets: how many have been updated, and of how many.
    updated: dict[str, tuple[int, int]]
    live: list[LiveStep]


class Dev:
    """A running session; `developing` makes one."""

    def __init__(
        self,
        lamp: LocalDeployment,
        place: Place,
        endpoint: Endpoint,
        heard: Heard,
        watch: Watch,
        *,
        catch_up: bool,
    ) -> None:
        self.place = place
        self._lamp = lamp
        self._endpoint = endpoint
        self._heard = heard
        self._watch = watch
        self._catch_up = catch_up
        self._version = ""
        self._ticked_at: DateTime | None = None
        self._follower = Follower()
        call = lamp.stack.call

        def call_and_tell(function: str, event: dict[str, Any]) -> Any:
            if function == "tick":
                # Also if it fails: the next one comes with the next minute.
                self._ticked_at = self._lamp.now
            try:
                answer = call(function, event)
            except Exception as error:  # noqa: BLE001 - as Lambda does: the others go on
                self._heard.say(f"function {function}", "error", f"{type(error).__name__}: {error}")
                return None
            if function == "tick" and answer is not None:
                self._tell_tick(answer)
            return answer

        lamp.stack.call = call_and_tell
        self._push()

    # Time.

    def step(self) -> list[News]:
        """Let the time be what it is, with all that happens until then; return what did."""
        if self._watch.take():
            self._push()
        with self._endpoint.busy():
            self._catch_up_with(as_utc(_real_time.now()))
        return [*self._heard.take(), *self._follower.look()]

    def _catch_up_with(self, real: DateTime) -> None:
        # A machine's clock is set back now and then.
        now = max(real, self._lamp.now)
        self._lamp.advance(to=now)
        minute = now.start_of("minute")
        # The deployment fires its timer only where it could act, and people look for it.
        if self._ticked_at is None or self._ticked_at < minute:
            self._lamp.stack.tick()
            self._lamp.run_until_idle()

    def _tell_tick(self, answer: Mapping[str, int]) -> None:
        told = [
            f"{answer[name]} {words}"
            for name, words in (("claimed_runs", "claimed"), ("sent_ahead", "sent ahead"))
            if answer[name]
        ]
        if told:
            self._heard.say("tick", "", ", ".join(told))

    # The bundle.

    def _push(self) -> None:
        """Register the bundle as it is on disk, unless nothing of it has changed."""
        try:
            version = build_archive(self.place.root).hash
            if version == self._version:
                return
            self._heard.owed.clear()
            self._lamp.push(self.place.root, name=self.place.bundle)
        except (DefinitionError, OSError) as error:
            # Its folder is being written, or is gone: what was registered stays.
            self._heard.say(f"bundle {self.place.bundle}", "error", str(error))
            return
        self._version = version
        if self._heard.owed and not self._catch_up:
            self._tell_owed(self._heard.owed)

    def _tell_owed(self, owed: Mapping[str, int]) -> None:
        least = "at least " if max(owed.values()) >= MAX_OWED_COUNTED else ""
        each = ", ".join(f"{dag_id} {count:,}" for dag_id, count in sorted(owed.items()))
        runs = f"{least}{sum(owed.values()):,} runs from before now are left out ({each})"
        self._heard.say("catch-up", "", f"{runs}; --catchup creates them")

    # What one sees.

    def view(self) -> View:
        """Return how everything stands."""
        rows = sorted(Dags.scan(consistent_read=True), key=lambda row: row.dag_id)
        waiting = [row for row in rows if row.asset_condition]
        pending = pending_of(waiting) if waiting else {}
        updated = {
            row.dag_id: (len(pending[row.dag_id].events), len(waited_for(row)))
            for row in waiting
            if row.dag_id in pending
        }
        return View(self._lamp.now, self._ticked_at, rows, updated, self._follower.live)


@contextmanager
def developing(
    root: Path,
    *,
    bundle: str = "",
    is_instant: bool = False,
    catch_up: bool = False,
    port: int = 0,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Dev]:
    """Run a deployment of a bundle in real time until the block ends; then nothing of it is left.

    Args:
        root: The folder of the bundle.
        bundle: Its name; that of the folder by default.
        is_instant: Steps do nothing and last a second, instead of running on Spark.
        catch_up: Create the runs that were due before now, too.
        port: Of the endpoint; any free one by default.
        variables: What templates and jobs see as the deployment's variables.
    """
    root = require_bundle(root)
    bundle = require_id(bundle or root.name, what="bundle")
    if not is_instant and find_java_home() is None:
        raise RefusedError(f"{NO_JAVA}; or start with --instant, which runs no jobs")
    with ExitStack() as until_the_end:
        enter = until_the_end.enter_context
        home = enter(_only_one())
        spark = None if is_instant else BackgroundSpark(_new_folder(home))
        lamp = enter(
            LocalDeployment(
                at=_real_time.now(),
                executor=spark or "instant",
                variables=variables,
                catch_up=catch_up,
            )
        )
        if spark is not None:
            enter(spark.working())
        endpoint = enter(serving(lamp.stack.lock, port=port))
        heard, watch = enter(listening()), enter(watching(root))
        place = Place(root, bundle, endpoint.url, spark.folder if spark else None)
        dev = Dev(lamp, place, endpoint, heard, watch, catch_up=catch_up)
        enter(_announced(place, lamp, endpoint.key))
        yield dev


@contextmanager
def _only_one() -> Iterator[Path]:
    """Refuse a second session; yield the folder for what this one keeps."""
    home = dev_state.path().parent
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (home / _LOCK).open("w")
    except OSError as error:
        raise RefusedError(
            f"{home} cannot be written: {error.strerror}; set LAMPLIGHTER_STATE_DIR to a folder"
            " that can"
        ) from error
    with lock:
        try:
            # The system lets go of it, however the process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RefusedError(
                "`lamplighter dev` runs already: end it first, or set LAMPLIGHTER_STATE_DIR to"
                " another folder"
            ) from error
        yield home


def _new_folder(home: Path) -> Path:
    """Return an empty folder for the files of jobs; those of the last session go."""
    jobs = home / _JOBS
    shutil.rmtree(jobs, ignore_errors=True)
    jobs.mkdir(exist_ok=True)
    return Path(tempfile.mkdtemp(dir=jobs, prefix="session-"))


@contextmanager
def _announced(place: Place, lamp: LocalDeployment, key: AccessKey) -> Iterator[None]:
    """Let other commands of the same user find this session until the block ends."""
    dev_state.write(
        dev_state.DevState(
            endpoint_url=place.endpoint_url,
            region=REGION,
            pid=os.getpid(),
            bundle=place.bundle,
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
