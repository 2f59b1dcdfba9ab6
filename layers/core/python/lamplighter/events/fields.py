"""Validates the fields of event messages.

Each function returns the value to store, or rejects it with a fix. Reasons are stored and shown, so
they name fields and types and rarely repeat the input.
"""

import json
import re
import warnings
from itertools import accumulate
from typing import Any

from pendulum import DateTime

from lamplighter.assets.asset import normalize_uri
from lamplighter.errors import DefinitionError, RejectedError
from lamplighter.identifiers import MAX_ID_LENGTH
from lamplighter.zones import parse_instant

MAX_BODY_BYTES = 262_144
MAX_DEPTH = 20
MAX_NAME = 1_500
MAX_ALIASES = 10
MAX_EXTRA = 32_000
MAX_SOURCE_TEXT = 1_000
MAX_SOURCE_OBJECT = 4_000
_SHOWN = 80

# The closing quote is optional, so that an unterminated string is scanned only once.
_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BRACKETS = re.compile(r"[\[\]{}]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INSTANT = re.compile(
    r"(?:19[7-9]|2[01][0-9])[0-9]-[0-9]{2}-[0-9]{2}"
    r"[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
    r"(?P<offset>Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


def json_object(body: str, what: str) -> dict[str, Any]:
    """Return the JSON object in a text."""
    size = _size(body, what)
    if size > MAX_BODY_BYTES:
        raise RejectedError(f"{what} has {size:,} bytes: send at most {MAX_BODY_BYTES:,}")
    # Checked before parsing, because the parser recurses for each bracket.
    if _depth(body) > MAX_DEPTH:
        raise RejectedError(f"{what} is nested too deeply: at most {MAX_DEPTH} levels are allowed")
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        raise RejectedError(f"{what} must be JSON: {error}") from error
    except ValueError as error:
        raise RejectedError(f"{what} has a number with too many digits") from error
    _require_storable(value, what)
    return mapping(value, what)


def mapping(value: object, field: str) -> dict[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise RejectedError(f"{field} must be an object, not {kind(value)}")
    return value


def text(value: object, field: str, *, limit: int = MAX_NAME) -> str:
    """Return a string that is not blank and not too long."""
    if not isinstance(value, str):
        raise RejectedError(f"{field} must be a string, not {kind(value)}")
    if not value.strip():
        raise RejectedError(f"{field} must not be blank: give a value, or leave the field out")
    if len(value) > limit:
        raise RejectedError(f"{field} has {len(value):,} characters: send at most {limit:,}")
    return value


def line(value: object, field: str, *, limit: int) -> str:
    """Return a string without control characters and line breaks."""
    found = text(value, field, limit=limit)
    if _CONTROLS.search(found):
        raise RejectedError(f"{field} must not have control characters or line breaks")
    return found


def partition_key(value: object, field: str) -> str:
    """Return the key of a partition."""
    return line(value, field, limit=MAX_ID_LENGTH)


def uri(value: object, field: str) -> str:
    """Return a URI in its normal form."""
    given = text(value, field)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a password is dropped; the sender cannot read these logs
        try:
            return normalize_uri(given)
        except DefinitionError:
            # The cause is left out: it repeats the URI, which may contain a password.
            raise RejectedError(
                f"{field} is not a valid asset URI: send one such as s3://lake/orders"
            ) from None


def instant(value: object, field: str) -> DateTime:
    """Return the UTC instant of an ISO 8601 string with an offset."""
    given = text(value, field)
    written = _INSTANT.fullmatch(given)
    if written is None:
        raise RejectedError(
            f"{field} {shown(given)} must be an instant between 1970 and 2199,"
            " such as 2026-01-31T06:00:00Z"
        )
    if written["offset"] is None:
        raise RejectedError(f"{field} {given!r} has no offset: give one, such as {given}Z")
    try:
        return parse_instant(given)
    except DefinitionError as error:
        raise RejectedError(f"{field}: {error}") from error


def aliases(value: object, field: str) -> tuple[str, ...]:
    """Return unique alias names."""
    if not isinstance(value, list):
        raise RejectedError(f"{field} must be a list of strings, not {kind(value)}")
    if len(value) > MAX_ALIASES:
        raise RejectedError(f"{field} has {len(value):,} names: send at most {MAX_ALIASES}")
    return tuple(dict.fromkeys(text(name, f"{field}[{at}]") for at, name in enumerate(value)))


def extra(value: object, field: str) -> dict[str, Any]:
    """Return an object within the size limit of extras."""
    return _small(mapping(value, field), field, MAX_EXTRA)


def source(value: object, field: str) -> dict[str, Any] | str:
    """Return the source of an event: a string or an object."""
    if isinstance(value, dict):
        return _small(value, field, MAX_SOURCE_OBJECT)
    if isinstance(value, str):
        return text(value, field, limit=MAX_SOURCE_TEXT)
    raise RejectedError(f"{field} must be a string or an object, not {kind(value)}")


def kind(value: object) -> str:
    """Return the JSON type of a value, for reasons that do not repeat the value."""
    return _KINDS.get(type(value), "null")


def shown(value: str) -> str:
    """Return a text on one line and truncated, for use in reasons."""
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")


def _small(value: dict[str, Any], field: str, limit: int) -> dict[str, Any]:
    size = len(json.dumps(value))
    if size > limit:
        raise RejectedError(
            f"{field} has {size:,} characters as JSON: send at most {limit:,}, and a reference to"
            " the rest"
        )
    return value


def _size(body: str, what: str) -> int:
    try:
        return len(body.encode())
    except UnicodeEncodeError as error:
        raise RejectedError(f"{what} has a lone surrogate: send whole characters") from error


def _depth(body: str) -> int:
    marks = _BRACKETS.findall(_TEXTS.sub("", body))
    return max(accumulate(1 if mark in "[{" else -1 for mark in marks), default=0)


def _require_storable(value: object, what: str) -> None:
    """Reject what JSON can express but DynamoDB cannot store."""
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except ValueError as error:
        raise RejectedError(f"{what} has a number that is not finite: send null instead") from error
    _size(written, what)
