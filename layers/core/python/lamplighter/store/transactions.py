"""Conditional writes: transactions, and writes of single rows.

Owns: every `TransactWriteItems`, the translation of DynamoDB's error codes, and retries of
contended rows: the AWS SDK retries neither a canceled transaction nor a single write of a row that
is part of a transaction at that moment.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's, which is not Python's
    HTTPClientError,
)
from pynamodb.exceptions import DeleteError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from lamplighter import clock, runtime
from lamplighter.errors import PermanentError, TransientError
from lamplighter.store import wire
from lamplighter.store.rows import Row

T = TypeVar("T")

_BUSY = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_OURS_TO_HANDLE = _BUSY | {"None", "ConditionalCheckFailed"}
_TRANSIENT = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionInProgressException",
    }
)
_TRIES = 6
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.2


@dataclass(frozen=True)
class Put:
    """Store a row; replace an existing one if `may_replace`, or if it lacks `unless_has`."""

    row: Row
    may_replace: bool = False
    unless_has: str | None = None

    def action(self) -> wire.Request:
        """Return the wire form."""
        return wire.put(self.row, may_replace=self.may_replace, unless_has=self.unless_has)


@dataclass(frozen=True)
class Change:
    """Store what was assigned to a row since it was read, if some attributes are unchanged.

    An attribute that others change without touching those must be in `always`: otherwise it is not
    written if it had the same value when it was read.
    """

    row: Row
    unchanged: tuple[str, ...]
    always: tuple[str, ...] = ()

    def action(self) -> wire.Request:
        """Return the wire form."""
        return wire.change(self.row, self.unchanged, self.always)


@dataclass(frozen=True)
class Update:
    """Change attributes of a row that need not have been read."""

    row: Row
    actions: Sequence[Action]
    condition: Condition | None

    def action(self) -> wire.Request:
        """Return the wire form."""
        return {
            "Update": self.row.get_update_kwargs_from_instance(
                list(self.actions),
                condition=self.condition,
                return_values_on_condition_failure="ALL_OLD",
            )
        }


@dataclass(frozen=True)
class Delete:
    """Delete a row, if it exists."""

    row: Row

    def action(self) -> wire.Request:
        """Return the wire form."""
        return wire.delete(self.row)


@dataclass(frozen=True)
class Check:
    """Make the transaction depend on a condition on a row."""

    row: Row
    condition: Condition

    def action(self) -> wire.Request:
        """Return the wire form."""
        hash_key, range_key = [*self.row.key_values(), None][:2]
        return {
            "ConditionCheck": type(self.row).get_operation_kwargs_from_class(
                hash_key, range_key=range_key, condition=self.condition
            )
        }


Write = Put | Change | Update | Delete | Check


class Cause(Enum):
    """Why one write of a transaction was canceled."""

    NONE = auto()
    CONDITION_FAILED = auto()  # its condition does not hold
    BUSY = auto()  # a concurrent transaction, or throttling


@dataclass(frozen=True)
class CancellationReason:
    """The cause for one write, with the current row if its condition failed."""

    cause: Cause
    row: Any = None


class TransactionCanceled(Exception):
    """Nothing was written. `reasons` are in the order of the writes."""

    def __init__(self, reasons: Sequence[CancellationReason]) -> None:
        super().__init__(f"{len(reasons)} writes cancelled")
        self.reasons = tuple(reasons)


def transact(writes: Sequence[Write]) -> None:
    """Write all, or raise `TransactionCanceled` with a reason per write, or another error."""
    try:
        wire.transact([write.action() for write in writes])
    except (BotoCoreError, ClientError) as error:
        raise _translate(error, writes) from error


def _translate(error: Exception, writes: Sequence[Write]) -> Exception:
    response = error.response if isinstance(error, ClientError) else {}
    code = response.get("Error", {}).get("Code", "")
    if code == "TransactionCanceledException":
        found = response.get("CancellationReasons", [])
        codes = {reason["Code"] for reason in found}
        if codes <= _OURS_TO_HANDLE:
            pairs = zip(writes, found, strict=True)
            return TransactionCanceled([_reason(write, reason) for write, reason in pairs])
    elif code in _TRANSIENT or isinstance(error, HTTPClientError | ConnectionError):
        return TransientError(f"DynamoDB could not take a transaction now: {error}")
    return PermanentError(f"DynamoDB will not take a transaction: {error}")


def _reason(write: Write, found: dict[str, Any]) -> CancellationReason:
    if found["Code"] == "None":
        return CancellationReason(Cause.NONE)
    if found["Code"] in _BUSY:
        return CancellationReason(Cause.BUSY)
    item = found.get("Item")
    return CancellationReason(
        Cause.CONDITION_FAILED, type(write.row).from_raw_data(item) if item else None
    )


def retry_attempts(tries: int = _TRIES) -> Iterator[None]:
    """Yield once per attempt on a contended row, with growing pauses in between."""
    pause = _FIRST_PAUSE
    yield
    for _ in range(tries - 1):
        sleep_with_jitter(pause)
        yield
        pause = min(2 * pause, _LONGEST_PAUSE)


def pack(members: Iterable[T], *limits: tuple[Callable[[T], int], int]) -> Iterator[list[T]]:
    """Yield groups of members, each within every limit: a measure and its maximum sum."""
    group: list[T] = []
    sums = [0] * len(limits)
    for member in members:
        sizes = [measure(member) for measure, _ in limits]
        sums = [before + size for before, size in zip(sums, sizes, strict=True)]
        if group and any(total > limit for total, (_, limit) in zip(sums, limits, strict=True)):
            yield group
            group, sums = [], sizes
        group.append(member)
    if group:
        yield group


def sleep_with_jitter(longest: float = _LONGEST_PAUSE) -> None:
    """Sleep for a random time, so that competitors do not collide again."""
    clock.sleep(runtime.current().random.uniform(0, longest))


def transact_with_retry(writes: Sequence[Write]) -> None:
    """Write all as `transact` does, with a limited number of retries for contended rows."""
    for _ in retry_attempts():
        try:
            transact(writes)
        except TransactionCanceled as cancelled:
            if any(reason.cause is Cause.CONDITION_FAILED for reason in cancelled.reasons):
                raise
        else:
            return
    raise TransientError(f"rows stayed contended during {_TRIES} tries; try again")


# Single rows, without a transaction.


def update(row: Row, actions: Sequence[Action]) -> None:
    """Change a row unconditionally."""
    _is_done(lambda: row.update(list(actions)), row)


def update_if(row: Row, actions: Sequence[Action], condition: Condition) -> bool:
    """Change a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.update(list(actions), condition=condition), row)


def delete_if(row: Row, condition: Condition) -> bool:
    """Delete a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.delete(condition=condition), row)


def _is_done(write: Callable[[], object], row: Row) -> bool:
    for _ in retry_attempts():
        try:
            write()
        except (DeleteError, UpdateError) as error:
            # Not `cause_response_code`, which fails if there was no response.
            response = getattr(error.cause, "response", None) or {}
            code = response.get("Error", {}).get("Code")
            if code == "ConditionalCheckFailedException":
                return False
            if code != "TransactionConflictException":
                raise
        else:
            return True
    raise TransientError(f"row {row.key_values()} of {type(row).__name__} stayed busy")
