"""Writes of one row that either happen or are refused."""

from collections.abc import Callable, Sequence

from pynamodb.exceptions import DeleteError, UpdateError
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action

from lamplighter.store.rows import Row


def update_if(row: Row, actions: Sequence[Action], condition: Condition) -> bool:
    """Change a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.update(list(actions), condition=condition))


def delete_if(row: Row, condition: Condition) -> bool:
    """Remove a row if the condition holds, and return whether it did."""
    return _is_done(lambda: row.delete(condition=condition))


def _is_done(write: Callable[[], object]) -> bool:
    try:
        write()
    except (DeleteError, UpdateError) as error:
        # Not `cause_response_code`, which fails when there was no answer at all.
        response = getattr(error.cause, "response", None) or {}
        if response.get("Error", {}).get("Code") != "ConditionalCheckFailedException":
            raise
        return False
    return True
