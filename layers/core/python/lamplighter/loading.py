"""Finding a class by its written name, and the gate before an author's code.

Owns: the only import by name in the library. Names outside `lamplighter` are refused unless the
caller says that this process may run author code; the functions that hold rights never say so.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from lamplighter.errors import SerializationError

T = TypeVar("T")

_gate_open = ContextVar("_gate_open", default=False)


@contextmanager
def author_code_allowed() -> Iterator[None]:
    """Let `load_class` import from the author's bundle until the block ends."""
    token = _gate_open.set(True)
    try:
        yield
    finally:
        _gate_open.reset(token)


def load_class(path: str, base: type[T]) -> type[T]:
    """Return the subclass of `base` that `path` names, as in `package.module.Class`."""
    if not path.startswith("lamplighter.") and not _gate_open.get():
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


def _resolve(path: str) -> object:
    """Return what a dotted path names: a class in a module, or a class within a class."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name != module or "." not in module:
            raise
        return getattr(_resolve(module), name)
