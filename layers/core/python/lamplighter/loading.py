"""What an author's document may hold: classes, which it names, and JSON values.

Owns: the only import by name in the library. Names outside `lamplighter` are refused unless the
caller allows author code in this process; functions with permissions never do. They may read
author classes as data instead, and then get stand-ins that only keep the arguments.
"""

import importlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, TypeVar

from lamplighter.errors import SerializationError

T = TypeVar("T")


class _AuthorCode(Enum):
    """How an author's class in a document is read."""

    REFUSED = "refused"
    IMPORTED = "imported"
    DATA = "data"


_author_code = ContextVar("_author_code", default=_AuthorCode.REFUSED)


def author_code_allowed() -> AbstractContextManager[None]:
    """Let `load_class` import from the author's bundle until the block ends."""
    return _treating_author_code_as(_AuthorCode.IMPORTED)


def author_code_as_data() -> AbstractContextManager[None]:
    """Let documents be read without author code until the block ends: stand-ins take its place."""
    return _treating_author_code_as(_AuthorCode.DATA)


@contextmanager
def _treating_author_code_as(treatment: _AuthorCode) -> Iterator[None]:
    token = _author_code.set(treatment)
    try:
        yield
    finally:
        _author_code.reset(token)


def is_kept_as_data(path: str) -> bool:
    """Return True if `path` names an author's class and a stand-in should take its place."""
    # A name without a module is no author's: it is a class of the library that this one lacks.
    is_authors = "." in path and not _is_ours(path)
    return is_authors and _author_code.get() is _AuthorCode.DATA


def class_path(kind: type) -> str:
    """Return the name by which `load_class` finds a class; a subclass has one of its own."""
    return f"{kind.__module__}.{kind.__qualname__}"


def load_class(path: str, base: type[T]) -> type[T]:
    """Return the subclass of `base` that `path` names, as in `package.module.Class`."""
    if not _is_ours(path) and _author_code.get() is not _AuthorCode.IMPORTED:
        raise SerializationError(
            f"{path} is an author's class: it is loaded only where its bundle may run"
        )
    try:
        found = _resolve(path)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise SerializationError(f"{path} cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, base):
        raise SerializationError(f"{path} is not a subclass of {base.__name__}")
    return found


def _is_ours(path: str) -> bool:
    return path.startswith("lamplighter.")


def _resolve(path: str) -> object:
    """Return what a dotted path names: a class in a module, or a class within a class."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module or "." not in module:
            raise
        return getattr(_resolve(module), name)


def json_mapping(value: object) -> dict[str, Any]:
    """Return a copy of a mapping that survives being written as JSON, or say why it does not."""
    if not isinstance(value, Mapping):
        raise TypeError(f"must be a mapping, not {value!r}")
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (RecursionError, TypeError, ValueError) as error:
        raise TypeError(f"must hold JSON values only: {error}") from error
    if copy != dict(value):
        raise TypeError("must hold JSON values only: text keys, and lists instead of tuples")
    return copy
