"""A Step Functions that runs no state machine: its executions last and end by the one clock.

Owns: its answers to the calls that the library makes, and its events. Refuses: to forget an
execution, so that `executions` is the whole history.
"""

import copy
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn
from unittest.mock import patch

import botocore.session
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from pendulum import DateTime

from lamplighter import clock, settings
from lamplighter.zones import as_utc
from lamplighter_local.emr.events import EventFaults, JobEvents
from lamplighter_local.emr.fake_emr import send_as_aws
from lamplighter_local.emr.jobs import doubles
from lamplighter_local.emr.lives import after
from lamplighter_local.emr.requests import mistakes, refuse
from lamplighter_local.emr.scripts import JobScripts, Outcome
from lamplighter_local.faults.deployment_faults import outside_functions
from lamplighter_local.step_functions.executions import (
    End,
    FakeExecution,
    Function,
    step_named_by,
)

SERVICE = "stepfunctions"
# For how long a name is taken, and an execution known, after its end.
_KEPT_DAYS = 90


class FakeStepFunctions:
    """The Step Functions of an account, and the rule that sends its events to a queue of ours.

    There is a state machine of every name. An execution lasts `takes_seconds`; then the function of
    its state machine, if there is one, says how it ends. What `next_outcome` and `leaves` say comes
    first.
    Events are sent by `emit`, which someone must call when `next_change` has come.
    """

    def __init__(self, *, takes_seconds: float = 1.0) -> None:
        # By name of the state machine.
        self.functions: dict[str, Function] = {}
        # How often each operation was called.
        self.calls: Counter[str] = Counter()
        self._takes_seconds = takes_seconds
        self._scripts = JobScripts()
        self._events = JobEvents()
        self._refusals: dict[str, list[str]] = {}
        # The newest of each ARN: names are free again some day.
        self._by_arn: dict[str, FakeExecution] = {}
        self._earlier: list[FakeExecution] = []
        self._lock = threading.RLock()

    @property
    def events(self) -> EventFaults:
        """How badly events are delivered."""
        return self._events.faults

    @events.setter
    def events(self, faults: EventFaults) -> None:
        with self._lock:
            self._catch_up()
            self._events.faults = faults

    @property
    def executions(self) -> list[FakeExecution]:
        """All executions that were ever started, as they are now, oldest first."""
        with self._lock:
            self._catch_up()
            every = [*self._earlier, *self._by_arn.values()]
            return sorted(every, key=lambda each: each.created_at)

    def live(self) -> list[FakeExecution]:
        """Return the executions that are not over."""
        return [each for each in self.executions if not each.is_over]

    def doubles(self) -> list[str]:
        """Return a sentence for each execution that began while another of its step was live."""
        return doubles(self.executions)

    # What becomes of executions.

    def next_outcome(self, dag: str, task: str, outcome: Outcome) -> None:
        """Let the next execution of a task end like this; several are used in their order."""
        with self._lock:
            self._scripts.add(dag, task, outcome)

    def takes(self, dag: str, task: str, *, seconds: float = 0) -> None:
        """Let executions of a task that start from now on take so long."""
        with self._lock:
            self._scripts.set_seconds(dag, task, seconds)

    def leaves(self, dag: str, task: str, outputs: Mapping[str, Any]) -> None:
        """Let the executions of a task that succeed from now on have this output."""
        with self._lock:
            self._scripts.set_otherwise(dag, task, Outcome.leaving(outputs))

    def refuse_next(self, operation: str, code: str, times: int = 1) -> None:
        """Let the next calls of an operation be refused with an error code of the service."""
        with self._lock:
            self._refusals.setdefault(operation, []).extend([code] * times)

    def next_change(self) -> DateTime | None:
        """Return when an execution ends or an event comes, which may be past already."""
        with self._lock:
            ends = (each.ends_at for each in self._by_arn.values() if not each.is_over)
            return min(filter(None, (*ends, self._events.next_at())), default=None)

    def emit(self) -> int:
        """Send the events that have come by now; return how many."""
        with self._lock:
            self._catch_up()
            texts = self._events.take(clock.now())
            for text in texts:
                url = settings.current().queue_url("jobstates")
                send_as_aws("sqs", "SendMessage", {"QueueUrl": url, "MessageBody": text})
            return len(texts)

    def _catch_up(self) -> None:
        """Let everything happen that comes until now."""
        now = clock.now()
        for each in list(self._by_arn.values()):
            if not each.is_over and each.ends_at is not None and each.ends_at <= now:
                function = self.functions.get(each.state_machine.rpartition(":")[2])
                with outside_functions():
                    end = End.of(each.outcome, function, each.input)
                self._change(each.ended(end, each.ends_at))

    def _change(self, execution: FakeExecution) -> None:
        self._by_arn[execution.job_run_id] = execution
        self._events.send(execution.event(), execution.ended_at or execution.created_at)

    # Calls.

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Answer all clients of Step Functions until the block ends, and no others."""
        send_others = BaseClient._make_api_call  # noqa: SLF001 - all clients use it
        with patch.object(BaseClient, "_make_api_call", self.answering_calls(send_others)):
            yield

    def answering_calls(self, send_others: Callable[..., Any]) -> Callable[..., Any]:
        """Return what answers the calls of Step Functions, and sends all others."""

        def answer(client: BaseClient, operation: str, arguments: dict[str, Any]) -> Any:
            if client.meta.service_model.service_name != SERVICE:
                return send_others(client, operation, arguments)
            try:
                answered = self.call(operation, arguments)
            except ClientError as error:
                kind = client.exceptions.from_code(error.response["Error"]["Code"])
                raise kind(error.response, operation) from None
            return {**answered, "ResponseMetadata": {"HTTPStatusCode": 200}}

        return answer

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request, or raise the `ClientError` that its refusal becomes."""
        with self._lock:
            self._catch_up()
            self.calls[operation] += 1
            if codes := self._refusals.get(operation):
                refuse(operation, codes.pop(0), "injected")
            shape = _model().operation_model(operation).input_shape
            if found := list(mistakes(shape, dict(request))):
                refuse(operation, "ValidationException", "; ".join(found))
            return self._operations[operation](self, request)

    def _start(self, request: Mapping[str, Any]) -> dict[str, Any]:
        machine, name, given = (request[key] for key in ("stateMachineArn", "name", "input"))
        arn = f"{machine.replace(':stateMachine:', ':execution:')}:{name}"
        known = self._known(arn)
        if known is not None and (known.is_over or known.input != given):
            refuse("StartExecution", "ExecutionAlreadyExists", f"Execution Already Exists: '{arn}'")
        if known is None:
            if arn in self._by_arn:
                self._earlier.append(self._by_arn.pop(arn))
            known = self._new(arn, machine, name, given)
            self._change(known)
        return {"executionArn": arn, "startDate": known.created_at}

    def _new(self, arn: str, machine: str, name: str, given: str) -> FakeExecution:
        now, step = clock.now(), step_named_by(given, name)
        outcome = self._scripts.take(step.dag, step.task)
        seconds = self._scripts.seconds(step.dag, step.task, otherwise=self._takes_seconds)
        seconds = seconds if outcome.takes is None else outcome.takes
        return FakeExecution(
            job_run_id=arn,
            dag=step.dag,
            run_key=step.run_key,
            task=step.task,
            submission=step.submission,
            state_machine=machine,
            name=name,
            input=given,
            outcome=outcome,
            created_at=now,
            ends_at=None if math.isinf(seconds) else after(now, seconds),
        )

    def _describe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self._find("DescribeExecution", request).description()

    def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        found, now = self._find("StopExecution", request), clock.now()
        if not found.is_over:
            end = End("ABORTED", error=request.get("error"), cause=request.get("cause"))
            found = found.ended(end, now)
            self._change(found)
        return {"stopDate": found.ended_at}

    def _history(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"events": self._find("GetExecutionHistory", request).history()}

    def _find(self, operation: str, request: Mapping[str, Any]) -> FakeExecution:
        arn = request["executionArn"]
        return self._known(arn) or _refuse_unknown(operation, arn)

    def _known(self, arn: str) -> FakeExecution | None:
        found = self._by_arn.get(arn)
        ended_at = None if found is None else found.ended_at
        if ended_at is not None and as_utc(ended_at).add(days=_KEPT_DAYS) <= clock.now():
            return None
        return found

    _operations: Mapping[
        str, Callable[["FakeStepFunctions", Mapping[str, Any]], dict[str, Any]]
    ] = {
        "StartExecution": _start,
        "DescribeExecution": _describe,
        "StopExecution": _stop,
        "GetExecutionHistory": _history,
    }

    # Snapshots.

    def copy_state(self) -> object:
        """Return all there is to know, to be put back as often as wanted."""
        with self._lock:
            state = {key: value for key, value in vars(self).items() if key not in _NOT_COPIED}
            return {**copy.deepcopy(state), "functions": dict(self.functions)}

    def put_back(self, state: object) -> None:
        """Let everything be as it was."""
        assert isinstance(state, dict)
        functions = dict(state["functions"])
        rest = {key: value for key, value in state.items() if key != "functions"}
        with self._lock:
            vars(self).update(copy.deepcopy(rest), functions=functions)


_NOT_COPIED = frozenset({"_lock", "functions"})


@cache
def _model() -> Any:
    return botocore.session.Session().get_service_model(SERVICE)


def _refuse_unknown(operation: str, arn: str) -> NoReturn:
    refuse(operation, "ExecutionDoesNotExist", f"Execution Does Not Exist: '{arn}'")
