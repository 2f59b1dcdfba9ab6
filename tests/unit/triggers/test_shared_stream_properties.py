"""Whatever readers do, in any order, a stream comes to what a naive model of it comes to."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.parity.shared_stream_kit import Kit, Reader, VirtualLoop
from tests.parity.shared_stream_source import settle
from tests.unit.triggers.stream_model import Model

T = TypeVar("T")
_LIMIT = 3
_TIMEOUT = 20.0
_READERS = st.integers(min_value=0, max_value=2)
# One of those who are there.
_ONE = st.runner().flatmap(lambda machine: st.sampled_from(sorted(machine.readers)))


class SharedStream(RuleBasedStateMachine):
    """Readers who come, leave, take, skip, refuse, fall behind and hang, on lanes of one source."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._kit = self._run(self._made())
        self._manager = self._run(self._managed())
        self.readers: dict[int, Reader] = {}
        self._model: Model | None = None
        self._unconfirmed: list[int] = []
        self._events = 0

    def _run(self, step: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(step)

    async def _made(self) -> Kit:
        return Kit("lamplighter")

    async def _managed(self) -> Any:
        return self._kit.manager(max_subscriber_queue=_LIMIT, ack_timeout=_TIMEOUT)

    @property
    def _now(self) -> float:
        return self._runner.get_loop().time()

    @initialize()
    def begin(self) -> None:
        """Two are there at first, and something to read."""
        self.come(0)
        self.come(1)
        self.feed(["A", "B", "A"])

    @rule(number=_READERS)
    def come(self, number: int) -> None:
        """Someone subscribes; the first one starts a group."""
        if number not in self.readers:
            self._model = self._model or Model(_LIMIT, _TIMEOUT, self._now)
            self._model.readers.add(number)
            self.readers[number] = self._run(self._subscribed(number))

    async def _subscribed(self, number: int) -> Reader:
        reader = self._kit.reader(self._manager, number)
        await settle()
        return reader

    @precondition(lambda self: self._model is not None)
    @rule(lanes=st.lists(st.sampled_from("AB"), min_size=1, max_size=5))
    def feed(self, lanes: list[str]) -> None:
        """The source yields a burst."""
        names = [f"{lane}-{self._events + n}" for n, lane in enumerate(lanes)]
        self._events += len(names)
        self._model_now.feed(names, self._now)
        self._run(self._fed(names))

    async def _fed(self, names: list[str]) -> None:
        self._kit.source.feed(*names)
        await settle()

    @precondition(lambda self: self.readers)
    @rule(number=_ONE)
    def pull(self, number: int) -> None:
        """A reader moves on; it has taken, or skipped, what it had open."""
        if self._can_act(number):
            assert self._run(self.readers[number].pull()) == self._model_now.pull(number)

    @precondition(lambda self: self.readers)
    @rule(number=_ONE)
    def derive(self, number: int) -> None:
        """A reader makes something of what it has open; otherwise there is nothing to bind."""
        seq = self.readers[number].bind()
        assert self._model_now.bind(number, seq) == (seq is not None)
        if seq is not None:
            self._unconfirmed.append(seq)

    @precondition(lambda self: self.readers)
    @rule(number=_ONE, times=st.integers(min_value=1, max_value=2))
    def take(self, number: int, times: int) -> None:
        """A reader makes something of what it has open, and moves on."""
        for _ in range(times):
            self.derive(number)
        self.pull(number)

    @precondition(lambda self: self._unconfirmed)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        """Some of what was made is persisted, in any order."""
        chosen = data.draw(st.lists(st.sampled_from(self._unconfirmed), min_size=1, unique=True))
        for seq in chosen:
            self._unconfirmed.remove(seq)
            if self._model is not None:
                self._model.confirm(seq)
        self._run(self._confirmed(chosen))

    async def _confirmed(self, seqs: list[int]) -> None:
        self._manager.confirm_persisted(seqs)
        await settle()

    @precondition(lambda self: self.readers)
    @rule(number=_ONE)
    def reject(self, number: int) -> None:
        """A reader refuses what it has open."""
        if self._can_act(number):
            self._model_now.reject(number)
            self._run(self.readers[number].call(self._kit.reject))

    @precondition(lambda self: self.readers)
    @rule(number=_ONE)
    def leave(self, number: int) -> None:
        """A reader leaves, as when its filter raises; the last one ends the group."""
        self._model_now.leave(number)
        self._run(self.readers.pop(number).leave())
        self.advances_are_those_of_the_model()
        if not self.readers:
            self._model = None
            self._kit.trace.clear()

    @precondition(lambda self: self._model is not None)
    @rule(seconds=st.sampled_from([2, 10, 20]))
    def wait(self, seconds: int) -> None:
        """Time passes; whoever holds an event up for too long fails."""
        self._run(self._kit.pass_time(seconds))
        self._model_now.time_passed(self._now)

    @invariant()
    def advances_are_those_of_the_model(self) -> None:
        """Each lane has given its resolved prefix: once, in order, with counts of the snapshot."""
        if self._model is None:
            return
        given: dict[str, list[str]] = {}
        for batch in self._kit.advances():
            items = batch.split()
            [lane] = {item.partition("-")[0] for item in items}
            given.setdefault(lane, []).extend(items)
        assert given == self._model.advanced()
        assert self._kit.source.most_at_once <= 1

    def teardown(self) -> None:
        """End the group and the loop."""
        self._run(self._kit.close())
        self._runner.close()

    @property
    def _model_now(self) -> Model:
        assert self._model is not None
        return self._model

    def _can_act(self, number: int) -> bool:
        """Whether the reader is there, has not failed, and does not wait."""
        model = self._model_now
        return number in model.live and number not in model.waiting


TestSharedStream = SharedStream.TestCase
TestSharedStream.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
