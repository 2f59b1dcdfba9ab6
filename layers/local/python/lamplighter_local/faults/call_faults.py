"""Makes calls to AWS fail on purpose: crashes, lost answers, throttles, conflicts, late indexes.

Faults sit above botocore's retries, round `client._make_api_call`, which the methods of a client,
paginators and PynamoDB all go through. So one call of the code is one call here, and no retry can
hide what was injected.

Owns: what goes wrong and when. Refuses: answers that the service could not have given.
"""

import random
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from botocore.exceptions import ClientError, ReadTimeoutError

from lamplighter.errors import RefusedError
from lamplighter_local.faults.earlier_pages import Answer, EarlierPages

Kind = Literal["crash-before", "crash-after", "lost-answer", "throttle", "conflict", "stale"]
Send = Callable[[str, Mapping[str, Any]], Answer]

# A single write that meets a transaction is refused with an error of its own.
SINGLE_WRITES = frozenset({"DeleteItem", "PutItem", "UpdateItem"})
TRANSACTIONS = frozenset({"TransactGetItems", "TransactWriteItems"})


class Crash(BaseException):
    """The process died here, as far as the code under test can tell.

    Not an `Exception`, so that only the test catches it: a dead process handles nothing.
    """


@dataclass(kw_only=True)
class _Plan:
    """One fault, and the calls that it strikes: one of them, or each with a probability."""

    kind: Kind
    operations: frozenset[str]
    call: int | None = None
    probability: float = 0
    members: frozenset[int] = frozenset()
    code: str | None = None
    seen: int = 0
    has_struck: bool = False

    def comes_now(self, operation: str, chance: random.Random) -> bool:
        if self.operations and operation not in self.operations:
            return False
        self.seen += 1
        if self.call is None:
            return chance.random() < self.probability
        return self.seen == self.call


class CallFaults:
    """The faults of one test, planned with `at` and `probability`; they strike in `pass_on`.

    Calls are counted from 1, over all clients and threads. `calls` lists their operations and
    `injected` what became of some, as in `3 PutItem crash-after`. A fault that a call cannot have
    (a conflict in a read, a stale page of a query never asked before) does not happen. With more
    than one thread the same `seed` deals the same faults, but not to the same calls.
    """

    def __init__(self, seed: int = 0) -> None:
        self.calls: list[str] = []
        self.injected: list[str] = []
        self._plans: list[_Plan] = []
        self._pages = EarlierPages()
        self._random = random.Random(seed)  # noqa: S311 - chance must be repeatable here
        self._lock = threading.Lock()

    def at(
        self,
        call: int,
        kind: Kind,
        *operations: str,
        members: Collection[int] = (),
        code: str | None = None,
    ) -> None:
        """Plan a fault for the `call`-th call from now on.

        Args:
            call: 1 is the first, counting only `operations` where any are named.
            kind: "crash-before" dies before anything is sent. "crash-after" dies and "lost-answer"
                times out when the service has done its work. "throttle" and "conflict" are
                refusals of the service. "stale" answers a query of an index with an earlier page.
            operations: Names as in the service's API, like `TransactWriteItems`.
            members: For a conflict, the positions of the actions in the transaction that met
                another one; all of them by default.
            code: For a throttle, another error code than the usual one of the service.
        """
        if call < 1:
            raise RefusedError(f"call {call}: give 1 for the next call, 2 for the one after it")
        self._plan(
            _Plan(
                kind=kind,
                operations=frozenset(operations),
                call=call,
                members=frozenset(members),
                code=code,
            )
        )

    def probability(
        self,
        *operations: str,
        crash_before: float = 0,
        crash_after: float = 0,
        lost_answer: float = 0,
        throttle: float = 0,
        conflict: float = 0,
        stale: float = 0,
    ) -> None:
        """Set the probability of each fault, for every call or for these `operations`."""
        chances: dict[Kind, float] = {
            "crash-before": crash_before,
            "crash-after": crash_after,
            "lost-answer": lost_answer,
            "throttle": throttle,
            "conflict": conflict,
            "stale": stale,
        }
        for kind, chance in chances.items():
            if chance:
                self._plan(_Plan(kind=kind, operations=frozenset(operations), probability=chance))

    @property
    def pending(self) -> list[str]:
        """The faults planned with `at` that have not struck; a test may insist on none."""
        plans = [plan for plan in self._plans if plan.call is not None and not plan.has_struck]
        return [f"{plan.call} {plan.kind}" for plan in plans]

    def _plan(self, plan: _Plan) -> None:
        with self._lock:
            self._plans.append(plan)

    def pass_on(
        self, client: Any, send: Send, operation: str, request: Mapping[str, Any]
    ) -> Answer:
        """Send a call of a client, unless a fault strikes it."""
        plan = self._next(operation, request)
        if plan and plan.kind == "stale" and (pages := self._pages.of(operation, request)):
            return self._choose(pages)
        if plan is None or plan.kind == "stale":
            return self._pages.remember(operation, request, send(operation, request))
        if plan.kind in {"crash-after", "lost-answer"}:
            # A refusal is an answer too, and gets lost like any other.
            with suppress(ClientError):
                send(operation, request)
        raise _failure(plan, client, operation, request)

    def _next(self, operation: str, request: Mapping[str, Any]) -> _Plan | None:
        """Count a call and return the fault that strikes it."""
        with self._lock:
            self.calls.append(operation)
            # All of them, not the first: each plan counts every call, and draws for every call.
            due = [plan for plan in self._plans if plan.comes_now(operation, self._random)]
            for plan in due:
                if self._is_possible(plan.kind, operation, request):
                    plan.has_struck = True
                    self.injected.append(f"{len(self.calls)} {operation} {plan.kind}")
                    return plan
        return None

    def _is_possible(self, kind: Kind, operation: str, request: Mapping[str, Any]) -> bool:
        if kind == "conflict":
            return operation in SINGLE_WRITES | TRANSACTIONS
        return kind != "stale" or bool(self._pages.of(operation, request))

    def _choose(self, pages: list[Answer]) -> Answer:
        with self._lock:
            return self._random.choice(pages)


def _failure(plan: _Plan, client: Any, operation: str, request: Mapping[str, Any]) -> Any:
    if plan.kind == "throttle":
        return _refusal(client, operation, plan.code or _usual_throttle(client))
    if plan.kind == "conflict" and operation in SINGLE_WRITES:
        return _refusal(client, operation, "TransactionConflictException")
    if plan.kind == "conflict":
        reasons = _reasons(len(request["TransactItems"]), plan.members)
        return _refusal(
            client, operation, "TransactionCanceledException", CancellationReasons=reasons
        )
    if plan.kind == "lost-answer":
        return ReadTimeoutError(endpoint_url=client.meta.endpoint_url)
    return Crash(f"{plan.kind} {operation}")


def _refusal(client: Any, operation: str, code: str, **details: Any) -> ClientError:
    """Return the error that botocore would make of such an answer."""
    answer = {"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {}, **details}
    refusal = client.exceptions.from_code(code)(answer, operation)
    assert isinstance(refusal, ClientError)
    return refusal


def _usual_throttle(client: Any) -> str:
    is_dynamodb = client.meta.service_model.service_name == "dynamodb"
    return "ProvisionedThroughputExceededException" if is_dynamodb else "ThrottlingException"


def _reasons(actions: int, members: frozenset[int]) -> list[dict[str, str]]:
    conflict = {"Code": "TransactionConflict", "Message": "injected"}
    return [
        dict(conflict) if not members or member in members else {"Code": "None"}
        for member in range(actions)
    ]
