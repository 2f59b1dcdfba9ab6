"""What goes wrong in a deployment on purpose: functions that die, messages that come twice.

Owns: whose calls a fault strikes, which are those of a function while it runs, and what a death
leaves: its messages, which come again when their time is up.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.client import BaseClient

from lamplighter.errors import in_short
from lamplighter_local.emulator.method_override import api_calls
from lamplighter_local.faults.call_faults import CallFaults, Crash
from lamplighter_local.handlers import require_function

if TYPE_CHECKING:
    from lamplighter_local.stack import LocalStack

_by_function: ContextVar[bool] = ContextVar("_by_function", default=False)


class DeploymentFaults(CallFaults):
    """The faults of a deployment: those of `CallFaults`, on the calls that its functions make.

        lamp.faults.at(3, "crash-after", "TransactWriteItems")   # a function dies in the middle
        lamp.faults.at(1, "lost-answer", "StartJobRun")          # the job runs, and nobody knows
        lamp.faults.probability(throttle=0.05)                   # each call, with this chance
        lamp.faults.duplicate("ingest", times=2)                 # two batches come twice
        lamp.advance(hours=1)
        lamp.faults.stop()                                       # from here on nothing goes wrong
        assert lamp.faults.deaths == ["claim: crash-after TransactWriteItems"]

    A function that dies is not called again for its messages before their visibility has run out,
    three minutes later, and a timer not before its next time: `advance` brings both. Calls that the
    test makes itself (`trigger`, `push`, `emit`), that pollers make and that jobs make are spared.

    Attributes:
        deaths: The functions that crashed, each with the reason, in order.
        calls: The operations that functions called, in order.
        injected: The calls that met a fault, as in `3 PutItem crash-after`.
        pending: The planned faults that have not occurred yet.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.deaths: list[str] = []
        self._twice: Counter[str] = Counter()
        self._death: Crash | None = None

    def duplicate(self, function: str, *, times: int = 1) -> None:
        """Deliver the next batches of a function twice, one right after the other.

        Args:
            function: The folder of its handler: "ingest", "claim", "submit", "settle", "register";
                or "tick" and "sweep", whose timers then fire twice.
            times: How many batches.
        """
        require_function(function)
        self._twice[function] += times

    def stop(self) -> None:
        """Inject no more faults; planned ones are dropped."""
        with self._lock:
            self._plans.clear()
        self._twice.clear()

    @property
    def pending(self) -> list[str]:
        twice = [f"duplicate {function}" for function in self._twice.elements()]
        return [*super().pending, *twice]

    @contextmanager
    def injected_into(self, stack: "LocalStack") -> Iterator[None]:
        """Let the faults strike a deployment until the block ends."""

        def wrap(send: Callable[..., Any]) -> Callable[..., Any]:
            def pass_on(client: BaseClient, operation: str, request: Mapping[str, Any]) -> Any:
                if not _by_function.get():
                    return send(client, operation, request)
                return self._pass_on_alive(client, partial(send, client), operation, request)

            return pass_on

        stack.call = partial(self._call, stack.call)
        with api_calls.wrapped(stack.runtime.name, wrap):
            yield

    def _pass_on_alive(self, *call: Any) -> Any:
        # An event loop keeps for itself that one of its tasks has died: the others go on, but in a
        # process that is dead nobody calls anything.
        if self._death is not None:
            raise self._death
        try:
            return self.pass_on(*call)
        except Crash as crash:
            self._death = crash
            raise

    def _call(self, call: Callable[..., Any], function: str, event: dict[str, Any]) -> Any:
        answer = self._call_once(call, function, event)
        if answer is None or not self._twice[function]:
            return answer
        self._twice[function] -= 1
        return self._call_once(call, function, event)

    def _call_once(self, call: Callable[..., Any], function: str, event: dict[str, Any]) -> Any:
        token, struck = _by_function.set(True), len(self.injected)
        self._death = None
        try:
            answer = call(function, event)
        except Crash as crash:
            self._death = crash
        except Exception as error:
            # Lambda takes a function that raises for one that died. An error that no fault has
            # caused is one of ours, and for everybody to see.
            if len(self.injected) == struck:
                raise
            self.deaths.append(f"{function}: {in_short(error)}")
            return None
        finally:
            _by_function.reset(token)
        if self._death is not None:
            self.deaths.append(f"{function}: {self._death}")
            return None
        return answer


@contextmanager
def outside_functions() -> Iterator[None]:
    """Let calls be those of a job, or of a service of AWS, and not of our functions."""
    token = _by_function.set(False)
    try:
        yield
    finally:
        _by_function.reset(token)
