"""Reads values as the declared types of dataclass fields; limits are declared with `Annotated`.

Owns: what a value may be, and the sentence that refuses it. Numbers, lists and objects may be given
as text too, as environment variables, stack outputs and flags are.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

from lamplighter.errors import SettingsError

_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Range:
    """The limits of a number, both included."""

    minimum: int
    maximum: int

    def __contains__(self, value: float) -> bool:
        return self.minimum <= value <= self.maximum

    def __str__(self) -> str:
        return f"between {self.minimum:,} and {self.maximum:,}"


class OneOf(tuple[str | int, ...]):
    """The values that a field may have."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{'one of ' if len(self) > 1 else ''}{', '.join(map(str, self))}"


def read_value(declared: Any, name: str, value: object) -> Any:
    """Return a value as the declared type of its field; `name` is what it was given as."""
    kind, limit = declared, None
    if get_origin(declared) is Annotated:
        kind, limit = get_args(declared)
    read, wanted = _KINDS[kind]
    found = read(value)
    if found is None or (limit is not None and found not in limit):
        wanted = f"{wanted} {limit}" if isinstance(limit, Range) else str(limit or wanted)
        shown = f"={value!r}" if len(repr(value)) <= _LONGEST_SHOWN else ""
        raise SettingsError(f"{name}{shown} must be {wanted}")
    return found


def require_known(what: str, name: str, known: Iterable[str], *, where: str = "") -> None:
    """Refuse a name that does not exist; `where` is what it was found in."""
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        found_in = f"{where}: " if where else ""
        raise SettingsError(f"{found_in}there is no {what} {name!r}{hint}")


# Each returns None for what it cannot read.


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _flag(value: object) -> bool | None:
    return {"true": True, "false": False}.get(str(value).lower())


def _number(value: object) -> float | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    return None


def _whole_number(value: object) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number == number // 1 else None


def _names(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str):
        # One name need not be written as a list.
        value = _json(value) if value.startswith("[") else [value] if value else []
    if isinstance(value, list | tuple) and _are_texts(value):
        return tuple(value)
    return None


def _texts_by_name(value: object) -> dict[str, str] | None:
    if isinstance(value, str):
        value = _json(value)
    if isinstance(value, Mapping) and _are_texts([*value, *value.values()]):
        return dict(value)
    return None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)


_KINDS: Mapping[Any, tuple[Callable[[object], Any], str]] = {
    str: (_text, "a text"),
    bool: (_flag, "true or false"),
    int: (_whole_number, "a whole number"),
    float: (_number, "a number"),
    tuple[str, ...]: (_names, 'a name, or a JSON list of names such as ["orders"]'),
    dict[str, str]: (_texts_by_name, 'a JSON object of texts, such as {"orders": "arn:…"}'),
}
