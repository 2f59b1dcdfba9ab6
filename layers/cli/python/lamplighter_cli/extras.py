"""Optional dependencies, which the extras of the package install.

Owns: the line that says what to install for a command that needs more than is there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

from lamplighter.errors import LamplighterError

Extra = Literal["infra", "local", "plot"]


class MissingExtraError(LamplighterError):
    """A package is not installed that only some commands need."""

    def __init__(self, package: str, extra: Extra) -> None:
        super().__init__(f"{package} is not installed: pip install 'lamplighter[{extra}]'")


@contextmanager
def needing(extra: Extra) -> Iterator[None]:
    """Say what to install if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingExtraError(str(missing.name), extra) from missing


def require_package(package: str, extra: Extra) -> None:
    """Refuse to go on without a package, before anything is done."""
    if find_spec(package) is None:
        raise MissingExtraError(package, extra)
