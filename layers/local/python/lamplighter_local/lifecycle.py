"""The life of a deployment on this machine: how it is opened, and that nothing of it is left.

Owns: that a deployment is used only while it is open, and in its own runtime: its calls would go to
AWS, or to another one. Refuses: to be opened a second time, because a history begins once.
"""

import functools
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from lamplighter import runtime
from lamplighter.errors import RefusedError
from lamplighter.executors.base import Executor
from lamplighter.settings import ChosenSettings
from lamplighter_local.arguments import Instant, as_instant, require_executor
from lamplighter_local.emr.behaviour import Resources
from lamplighter_local.emr.fake_emr import EmrBehaviour, FakeEmr
from lamplighter_local.emulator.shared_moto import MotoRandom, require_free
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.given_sources import GivenSources
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.stack import LocalStack, local_stack

F = TypeVar("F", bound=Callable[..., Any])
_NAME = re.compile("[a-z][a-z0-9-]{0,30}[a-z0-9]")
# Timers read each shard, and a source is listened to in real time.
_DEFAULTS: Mapping[str, object] = {
    "due_shards": 1,
    "run_shards": 1,
    "watch_session_seconds": 1,
    "job_starts_per_second": 0,  # nothing is shared with others
}
# Those of a fake EMR Serverless: the account is new, and the application that of the stage dev.
_EMR_DEFAULTS: Mapping[str, object] = {
    "job_starts_per_second": 1,
    "spark_vcpus": 16,
    "spark_memory_gb": 64,
    "spark_disk_gb": 400,
}
_NEW_ACCOUNT_VCPUS = 16
# How long a job of it takes once it has an executor.
_EMR_JOB_SECONDS = 60


class DeploymentLifecycle:
    """What can be opened once, and closed; `LocalDeployment` says what each argument is."""

    def __init__(
        self,
        *,
        name: str,
        at: Instant,
        executor: str | Executor | FakeEmr,
        variables: Mapping[str, str],
        secrets: Mapping[str, str],
        settings: Mapping[str, object],
        seed: int,
        folder: Path | str | None,
        poll_real_sources: bool,
    ) -> None:
        self.name = _require_name(name)
        self._at = as_instant(at)
        self._executor_named = executor
        self._settings = _chosen(settings, executor)
        self._variables = dict(variables)
        self._secrets = dict(secrets)
        if secrets and not isinstance(executor, str | FakeEmr):
            raise RefusedError("secrets are for executor='spark': give them to your own executor")
        self._seed = seed
        self._moto_random = MotoRandom(seed)
        self._folder = folder
        self._sources = None if poll_real_sources else GivenSources()
        self._open_resources = ExitStack()
        self._stack: LocalStack | None = None
        self._was_opened = False
        self.faults = DeploymentFaults(seed)

    def __enter__(self) -> Self:
        if self.is_open:
            raise RefusedError("this deployment is already open: use it without `with`")
        if self._was_opened:
            raise RefusedError("this deployment is closed: create a new one")
        with ExitStack() as opening:
            require_free(self.name)
            self._was_opened = True
            self._moto_random.use()
            self.executor = self._make_executor(opening)
            opening.callback(self._drop_stack)
            self._stack = stack = opening.enter_context(
                local_stack(
                    at=self._at,
                    name=self.name,
                    on=self.executor,
                    variables=self._variables,
                    sources=self._sources,
                )
            )
            stack.settings = replace(stack.settings, **vars(self._settings))
            stack.runtime.random = Random(self._seed)  # noqa: S311 - it must be repeatable
            opening.enter_context(self.faults.injected_into(stack))
            self._on_open()
            self._open_resources = opening.pop_all()
        return self

    def _on_open(self) -> None:
        """Do what comes before anyone uses it."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the deployment, as the end of its `with` block does; nothing of it is left."""
        if self.is_open:
            with self.in_own_runtime():
                self._open_resources.close()

    @contextmanager
    def in_own_runtime(self) -> Iterator[None]:
        """Let its runtime be current until the block ends; refuse if it is not open."""
        stack = self.stack
        self._moto_random.use()
        if runtime.current().name == self.name:
            # Its own already, perhaps with other settings for a while.
            yield
            return
        with runtime.activate(stack.runtime):
            yield

    def _drop_stack(self) -> None:
        self._stack = None

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._stack is not None

    @property
    def stack(self) -> LocalStack:
        """The machinery below, which only an open deployment has."""
        if self._stack is None:
            raise RefusedError("this deployment is not open: use it inside its `with` block")
        return self._stack

    def _make_executor(self, opening: ExitStack) -> FakeEmr | Executor:
        named = self._executor_named
        if isinstance(named, FakeEmr):
            return named
        if not isinstance(named, str):
            return require_executor(named)
        if named == "instant":
            return FakeEmr()
        if named == "emr":
            return FakeEmr(
                takes_seconds=_EMR_JOB_SECONDS, behaviour=_emr_of(self._settings, self._seed)
            )
        if named == "spark":
            folder = self._folder or opening.enter_context(
                tempfile.TemporaryDirectory(prefix="lamplighter-", ignore_cleanup_errors=True)
            )
            return opening.enter_context(LocalSparkExecutor(Path(folder), secrets=self._secrets))
        raise RefusedError(f"executor={named!r}: use 'instant', 'emr', 'spark', or an Executor")


def _emr_of(given: ChosenSettings, seed: int) -> EmrBehaviour:
    """Return an application as large as the settings say, in an account that allows it."""
    capacity = Resources(
        given.spark_vcpus or math.inf,
        given.spark_memory_gb or math.inf,
        given.spark_disk_gb or math.inf,
    )
    return EmrBehaviour(
        account_vcpus=max(_NEW_ACCOUNT_VCPUS, capacity.vcpus), maximum_capacity=capacity, seed=seed
    )


def _chosen(given: Mapping[str, object], executor: object) -> ChosenSettings:
    """Return the settings of a local deployment, of which some have other defaults."""
    defaults = {**_DEFAULTS, **(_EMR_DEFAULTS if executor == "emr" else {})}
    return ChosenSettings.named({**defaults, **given})


def _require_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RefusedError(
            f"name={name!r}: use 2 to 32 lower-case letters, digits and hyphens, a letter first"
        )
    return name


def when_open(method: F) -> F:
    """Let a method of a deployment run in its own runtime; refuse it unless that is open."""

    @functools.wraps(method)
    def call(self: DeploymentLifecycle, *args: Any, **kwargs: Any) -> Any:
        with self.in_own_runtime():
            return method(self, *args, **kwargs)

    return cast("F", call)
