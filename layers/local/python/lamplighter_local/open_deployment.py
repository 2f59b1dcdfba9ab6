"""The life of a deployment on this machine: how it is opened, and that nothing of it is left.

Owns: that one is open at a time, and that one which is not open is not used: its calls would go to
AWS, or to another one. Refuses: to be opened a second time, because a history begins once.
"""

import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from moto.moto_api._internal import mock_random

from lamplighter.errors import RefusedError
from lamplighter.executors.job import Executor
from lamplighter_local.arguments import Instant, as_instant, require_executor
from lamplighter_local.emr.fake_emr import FakeEmr
from lamplighter_local.faults.deployment_faults import DeploymentFaults
from lamplighter_local.spark.executor import LocalSparkExecutor
from lamplighter_local.stack import LocalStack, local_stack

_one_at_a_time = threading.Lock()


class OpenDeployment:
    """What can be opened once, and closed; `LocalDeployment` says what each argument is."""

    def __init__(
        self,
        *,
        at: Instant,
        executor: str | Executor | FakeEmr,
        variables: Mapping[str, str],
        seed: int,
        folder: Path | str | None,
    ) -> None:
        self._at = as_instant(at)
        self._executor_named = executor
        self._variables = variables
        self._chance_begins = seed
        self._folder = folder
        self._until_the_end = ExitStack()
        self._stack: LocalStack | None = None
        self._has_begun = False
        self.faults = DeploymentFaults(seed)

    def __enter__(self) -> Self:
        if self.is_open:
            raise RefusedError("this deployment is open already: use it without `with`")
        if self._has_begun:
            raise RefusedError("this deployment was closed: make another one")
        with ExitStack() as making:
            making.enter_context(_alone())
            self._has_begun = True
            mock_random.seed(self._chance_begins)
            self.executor = self._make_executor(making)
            making.callback(self._forget_stack)
            self._stack = stack = making.enter_context(
                local_stack(at=self._at, on=self.executor, variables=self._variables)
            )
            # Timers read each shard, and a source is listened to in real time.
            made = replace(stack.settings, due_shards=1, run_shards=1, watch_session_seconds=1)
            stack.settings = made
            stack.runtime.random = Random(self._chance_begins)  # noqa: S311 - it must be repeatable
            making.enter_context(self.faults.striking(stack))
            self._begin()
            self._until_the_end = making.pop_all()
        return self

    def _begin(self) -> None:
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
        self._until_the_end.close()

    def _forget_stack(self) -> None:
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

    def _require_open(self) -> None:
        """Refuse what would otherwise be asked of AWS, or of another deployment."""
        assert self.stack is not None

    def _make_executor(self, making: ExitStack) -> FakeEmr | Executor:
        named = self._executor_named
        if isinstance(named, FakeEmr):
            return named
        if not isinstance(named, str):
            return require_executor(named)
        if named == "instant":
            return FakeEmr()
        if named == "spark":
            temporary = tempfile.TemporaryDirectory(
                prefix="lamplighter-", ignore_cleanup_errors=True
            )
            folder = self._folder or making.enter_context(temporary)
            return making.enter_context(LocalSparkExecutor(Path(folder)))
        raise RefusedError(f"executor={named!r}: use 'instant', 'spark', or an Executor")


@contextmanager
def _alone() -> Iterator[None]:
    """Refuse to begin while another deployment is open: clock, settings and moto are one each."""
    if not _one_at_a_time.acquire(blocking=False):
        raise RefusedError("another LocalDeployment is open in this process: close it first")
    try:
        yield
    finally:
        _one_at_a_time.release()
