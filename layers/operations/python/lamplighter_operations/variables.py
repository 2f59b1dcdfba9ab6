"""Variables, as operators see and change them.

Owns: what a variable may be. Its value is a text, or a reference to a secret that is read where the
job runs: `secretsmanager:NAME`, `secretsmanager:NAME#KEY` of a JSON object, or `ssm:PARAMETER`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.identifiers import require_id
from lamplighter.safe_text import masked
from lamplighter.store import catalog
from lamplighter.store.models import Variables

MAX_VALUE_BYTES = 16_384
# Every job gets all of them, and one call reads them.
MAX_TOTAL_BYTES = 65_536

_REFERENCE = re.compile(r"secretsmanager:[\w/+=.@-]{1,512}(#.+)?|ssm:[\w/.-]{1,1011}", re.ASCII)
_PREFIXES = ("secretsmanager:", "ssm:")


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A variable; a value that looks like a secret is masked, a reference to one is not."""

    name: str
    value: str
    updated_at: DateTime | None = None


def list_variables() -> Iterator[Variable]:
    """Yield all variables by name."""
    return map(_view, catalog.variable_rows())


def set_variable(name: str, value: str) -> Variable:
    """Create a variable or change it; jobs that are started from now on see it."""
    require_id(name, what="variable")
    if not isinstance(value, str):
        raise RefusedError(f"variable {name!r} must be a text, not {type(value).__name__}")
    if value.startswith(_PREFIXES) and not _REFERENCE.fullmatch(value):
        raise RefusedError(
            f"variable {name!r}: write a reference to a secret as secretsmanager:NAME,"
            " secretsmanager:NAME#KEY or ssm:PARAMETER"
        )
    _require_room(name, value)
    return _view(catalog.set_variable(name, value))


def _require_room(name: str, value: str) -> None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise RefusedError(f"variable {name!r} has a lone surrogate") from error
    if size > MAX_VALUE_BYTES:
        raise RefusedError(
            f"variable {name!r} has {size:,} bytes, at most {MAX_VALUE_BYTES:,} are allowed"
        )
    others = {**catalog.read_variables(), name: value}
    total = sum(len(key) + len(text.encode()) for key, text in others.items())
    if total > MAX_TOTAL_BYTES:
        raise RefusedError(
            f"variable {name!r}: all variables together would have {total:,} bytes, at most"
            f" {MAX_TOTAL_BYTES:,} are allowed"
        )


def delete_variable(name: str) -> None:
    """Delete a variable; templates that still use it fail their step."""
    if not catalog.delete_variable(name):
        raise RefusedError(f"there is no variable {name!r}")


def _view(row: Variables) -> Variable:
    value = (
        row.value if _REFERENCE.fullmatch(row.value) else masked({row.name: row.value})[row.name]
    )
    return Variable(name=row.name, value=value, updated_at=row.updated_at)
