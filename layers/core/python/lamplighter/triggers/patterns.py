"""Event patterns: the language in which rules of EventBridge say which events they want.

Owns: reading a pattern once, where a trigger is built, so that a mistake in it is named there by
its path. Where the language is silent: numbers are equal by value, each element of a list is looked
at by itself, and `anything-but` is true of every value of which its operand is not.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address, ip_network
from operator import eq, ge, gt, le, lt
from typing import Any, TypeGuard

from lamplighter.errors import DefinitionError
from lamplighter.loading import json_mapping

# Of an object, of one value, of all values that a field has.
ObjectTest = Callable[[dict[str, Any]], bool]
ValueTest = Callable[[Any], bool]
FieldTest = Callable[[Sequence[Any]], bool]
# The name of the pattern, and then the fields that lead to a place in it.
Path = tuple[str, ...]
Operator = Callable[[Any, Path], ValueTest]

_OR = "$or"
_COMPARISONS = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}
_SIGNS = re.compile(r"\\?.", re.DOTALL)


class EventPattern:
    """What an event must be like; `content` is the pattern as it was given."""

    def __init__(self, pattern: object, what: str = "pattern") -> None:
        try:
            self.content = json_mapping(pattern)
        except TypeError as error:
            raise DefinitionError(f"{what}: {error}") from error
        self._test = _object(self.content, (what,))

    def matches(self, event: object) -> bool:
        """Whether the event fits; what is no object never does."""
        return isinstance(event, dict) and self._test(event)


def _object(wanted: object, path: Path) -> ObjectTest:
    if not isinstance(wanted, dict) or not wanted:
        raise _wrong(path, "must be a list of values, or an object with at least one field")
    tests = [
        _any_of(value, (*path, name)) if name == _OR else _field(name, value, (*path, name))
        for name, value in wanted.items()
    ]
    return lambda event: all(test(event) for test in tests)


def _any_of(wanted: object, path: Path) -> ObjectTest:
    if not isinstance(wanted, list) or len(wanted) < 2:  # noqa: PLR2004 - one is no choice
        raise _wrong(path, "must be a list of two objects or more")
    tests = [_object(one, path) for one in wanted]
    return lambda event: any(test(event) for test in tests)


def _field(name: str, wanted: object, path: Path) -> ObjectTest:
    if not isinstance(wanted, list):
        test = _object(wanted, path)
        # What is not there has no fields, which is what a pattern may ask for.
        return lambda event: any(map(test, _parts(event, name, objects=True) or [{}]))
    if not wanted:
        raise _wrong(path, "must list at least one value")
    tests = [_one_of_leaf(one, path) for one in wanted]

    def matches(event: dict[str, Any]) -> bool:
        values = _parts(event, name, objects=False)
        return any(test(values) for test in tests)

    return matches


def _parts(event: dict[str, Any], name: str, *, objects: bool) -> list[Any]:
    """Return the objects, or the other values, of a field, those in its lists included."""
    # A field without a value is like one that is not there.
    found, waiting = [], [event.get(name, [])]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict) is objects:
            found.append(part)
    return found


def _one_of_leaf(wanted: object, path: Path) -> FieldTest:
    if isinstance(wanted, list):
        raise _wrong(path, "must not have a list within the list")
    if not isinstance(wanted, dict):
        return _some(_equal_to(wanted))
    name, operand = _only_item(wanted, path)
    if name == "exists":
        if not isinstance(operand, bool):
            raise _wrong((*path, name), "must be true or false")
        return lambda values: bool(values) is operand
    return _some(_operator(name, operand, among=_OPERATORS, path=path))


def _some(test: ValueTest) -> FieldTest:
    return lambda values: any(test(value) for value in values)


def _equal_to(wanted: object) -> ValueTest:
    # To Python true is 1.
    key = isinstance(wanted, bool), wanted
    return lambda value: (isinstance(value, bool), value) == key


def _operator(
    name: str, operand: object, *, among: Mapping[str, Operator], path: Path
) -> ValueTest:
    if name not in among:
        known = ", ".join(sorted({*among, "exists"} if among is _OPERATORS else among))
        raise _wrong(path, f"unknown operator {name!r}; one of {known}")
    return among[name](operand, (*path, name))


def _text_test(
    is_match: Callable[[str, str], bool],
    operand: object,
    path: Path,
    *,
    normalize: Callable[[str], str] = str,
) -> ValueTest:
    text = normalize(_text(operand, path))
    return lambda value: isinstance(value, str) and is_match(normalize(value), text)


_ignoring_case = partial(_text_test, normalize=str.casefold)


def _affix(is_affix: Callable[[str, str], bool], operand: object, path: Path) -> ValueTest:
    if not isinstance(operand, dict):
        return _text_test(is_affix, operand, path)
    name, inner = _only_item(operand, path)
    among = {"equals-ignore-case": partial(_ignoring_case, is_affix)}
    return _operator(name, inner, among=among, path=path)


def _wildcard(operand: object, path: Path) -> ValueTest:
    pieces = _between_stars(_text(operand, path), path)
    if len(pieces) == 1:
        return _equal_to(pieces[0])
    first, *middle, last = map(re.escape, pieces)
    # Atomic, so that no text takes long: the earliest place of a piece is as good as any.
    between = "".join(f"(?>.*?{piece})" for piece in middle)
    pattern = re.compile(f"{first}{between}.*{last}", re.DOTALL)
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _between_stars(text: str, path: Path) -> list[str]:
    r"""Return the texts before, between and after the stars; `\*` and `\\` are plain characters."""
    pieces, before = [""], ""
    for sign in _SIGNS.findall(text):
        if sign[0] == "\\" and sign not in {r"\*", r"\\"}:
            raise _wrong(path, r"must have a backslash only before * or another one")
        if sign == before == "*":
            raise _wrong(path, "must not have two * in a row")
        if sign == "*":
            pieces.append("")
        else:
            pieces[-1] += sign[-1]
        before = sign
    return pieces


def _cidr(operand: object, path: Path) -> ValueTest:
    try:
        network = ip_network(_text(operand, path), strict=False)
    except ValueError as error:
        raise _wrong(path, "must be a block of addresses, as in '10.0.0.0/24'") from error

    def matches(value: Any) -> bool:
        try:
            return isinstance(value, str) and ip_address(value) in network
        except ValueError:
            return False  # no address at all

    return matches


def _numeric(operand: object, path: Path) -> ValueTest:
    bounds: list[tuple[str, float]] = []
    match operand:
        case [str(symbol), bound] if symbol in _COMPARISONS and _is_number(bound):
            bounds = [(symbol, bound)]
        case [(">" | ">=") as lower, low, ("<" | "<=") as upper, high]:
            if _is_number(low) and _is_number(high) and low < high:
                bounds = [(lower, low), (upper, high)]
    if not bounds:
        raise _wrong(path, "must be like ['=', 5], ['<', 10] or a range like ['>', 0, '<=', 5]")
    return lambda value: (
        _is_number(value) and all(_COMPARISONS[symbol](value, bound) for symbol, bound in bounds)
    )


def _anything_but(operand: object, path: Path) -> ValueTest:
    if isinstance(operand, dict):
        name, inner = _only_item(operand, path)
        unwanted = [
            _operator(name, one, among=_TEXT_OPERATORS, path=path) for one in _listed(inner, path)
        ]
    else:
        listed = _listed(operand, path)
        for one in listed:
            if not isinstance(one, str) and not _is_number(one):
                raise _wrong(path, f"must be a string, a number, or a list of them, not {one!r}")
        unwanted = [_equal_to(one) for one in listed]
    return lambda value: not any(test(value) for test in unwanted)


def _listed(operand: object, path: Path) -> list[Any]:
    listed = operand if isinstance(operand, list) else [operand]
    if not listed:
        raise _wrong(path, "must list at least one value")
    return listed


def _only_item(wanted: dict[str, Any], path: Path) -> tuple[str, Any]:
    if len(wanted) != 1:
        raise _wrong(path, f"must have one operator in an object, not {len(wanted)}")
    ((name, operand),) = wanted.items()
    return name, operand


def _text(operand: object, path: Path) -> str:
    if not isinstance(operand, str):
        raise _wrong(path, f"must be a string, not {operand!r}")
    return operand


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(path: Path, message: str) -> DefinitionError:
    what, *fields = path
    place = f"{what}: {'.'.join(fields)}" if fields else what
    return DefinitionError(f"{place}: {message}")


_TEXT_OPERATORS: dict[str, Operator] = {
    "prefix": partial(_affix, str.startswith),
    "suffix": partial(_affix, str.endswith),
    "equals-ignore-case": partial(_ignoring_case, eq),
    "wildcard": _wildcard,
}
_OPERATORS: dict[str, Operator] = {
    **_TEXT_OPERATORS,
    "anything-but": _anything_but,
    "cidr": _cidr,
    "numeric": _numeric,
}
