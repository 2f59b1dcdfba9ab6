"""Tells whether botocore would send the arguments of a call, several times as fast as it would.

botocore collects all errors with their places; here one bit is asked for, at every call.

Owns: that bit. Refuses: more than botocore does, and never less: what has no place here (times,
documents, unions, files) is not valid, and then goes the long way.
"""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from botocore.model import ServiceModel, Shape

_Check = Callable[[Any], bool]

_SCALARS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "blob": (bytes, bytearray, str),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "double": (float, Decimal, int),
    "float": (float, Decimal, int),
}
_NUMBERS = {"integer", "long", "double", "float"}


class ValidArguments:
    """The checks of all operations that were asked for; a shape is looked at once."""

    def __init__(self) -> None:
        self._operations: dict[tuple[str, str], _Check] = {}

    def __call__(self, service: ServiceModel, operation: str, arguments: Any) -> bool:
        """Return whether botocore would send an operation with these arguments."""
        key = service.service_name, operation
        check = self._operations.get(key)
        if check is None:
            shape = service.operation_model(operation).input_shape
            check = self._operations[key] = _check_of(shape, {})
        return check(arguments)


def _check_of(shape: Shape | None, made: dict[str, _Check]) -> _Check:
    """Return the check of a shape; `made` has those of the shapes around it, which it may hold."""
    if shape is None:
        return lambda _: False
    if shape.name not in made:
        made[shape.name] = partial(_check_by_name, made, shape.name)  # a shape may hold itself
        made[shape.name] = _make(shape, made)
    return made[shape.name]


def _check_by_name(made: dict[str, _Check], name: str, value: Any) -> bool:
    return made[name](value)


def _make(shape: Any, made: dict[str, _Check]) -> _Check:
    kind = shape.type_name
    if shape.serialization.get("hostLabel") or shape.serialization.get("jsonvalue"):
        return lambda _: False
    if kind in _SCALARS:
        return _scalar(_SCALARS[kind], shape.metadata.get("min"), is_number=kind in _NUMBERS)
    if kind == "list":
        return _list(_check_of(shape.member, made), shape.metadata.get("min", 0))
    if kind == "map":
        return _map(_check_of(shape.key, made), _check_of(shape.value, made))
    if kind == "structure" and not shape.is_document_type and not shape.is_tagged_union:
        members = {name: _check_of(member, made) for name, member in shape.members.items()}
        return _structure(members, frozenset(shape.metadata.get("required", ())))
    return lambda _: False


def _scalar(types: tuple[type, ...], least: float | None, *, is_number: bool) -> _Check:
    if least is None:
        return lambda value: isinstance(value, types)

    def check(value: Any) -> bool:
        return isinstance(value, types) and _size(value) >= least

    def _size(value: Any) -> Any:
        return value if is_number else len(value)

    return check


def _list(member: _Check, least: int) -> _Check:
    def check(value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) >= least and all(map(member, value))

    return check


def _map(key: _Check, item: _Check) -> _Check:
    def check(value: Any) -> bool:
        return isinstance(value, dict) and all(map(key, value)) and all(map(item, value.values()))

    return check


def _structure(members: dict[str, _Check], required: frozenset[str]) -> _Check:
    def check(value: Any) -> bool:
        if not isinstance(value, dict) or not required <= value.keys():
            return False
        for name, member in value.items():
            found = members.get(name)
            if found is None or not found(member):
                return False
        return True

    return check
