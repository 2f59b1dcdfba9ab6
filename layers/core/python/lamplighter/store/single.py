"""Writes of one row, outside of a transaction: each either happens or is refused.

Owns: the patience with a row that a transaction is writing at this moment. DynamoDB refuses the
single write then, and neither botocore nor PynamoDB tries again.
"""

from collections.abc import Callable, Sequence

from pynamodb.exceptions import DeleteError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from lamplighter.errors import TransientError
from lamplighter.store.rows import Row
from lamplighter.store.transactions import retry_attempts


def update(row: Row, actions: Sequence[Action]) -> None:
    """Change a row, whatever it is."""
    _is_done(lambda: row.update(list(actions)), row)


def update_if(row: Row, actions: Sequence[Action], condition: Condition) -> bool:
    """Change a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.update(list(actions), condition=condition), row)


def delete_if(row: Row, condition: Condition) -> bool:
    """Remove a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.delete(condition=condition), row)


def _is_done(write: Callable[[], object], row: Row) -> bool:
    for _ in retry_attempts():
        try:
            write()
        except (DeleteError, UpdateError) as error:
            # Not `cause_response_code`, which fails when there was no answer at all.
            response = getattr(error.cause, "response", None) or {}
            code = response.get("Error", {}).get("Code")
            if code == "ConditionalCheckFailedException":
                return False
            if code != "TransactionConflictException":
                raise
        else:
            return True
    raise TransientError(f"row {row.key_values()} of {type(row).__name__} stayed busy")
