"""A stand-in for an author's trigger, where the author's code may not run.

Owns: keeping what was written, to the letter. It refuses to watch anything.
"""

from collections.abc import AsyncIterator, Hashable
from typing import Any, Never

from lamplighter.errors import DefinitionError
from lamplighter.triggers.base import BaseEventTrigger, TriggerEvent
from lamplighter.triggers.feeds import Watched

_UNKNOWN = Watched()


class ForeignTrigger(BaseEventTrigger):
    """A trigger that is only remembered: the name of its class, its arguments, what it reads."""

    def __init__(self, type_name: str, data: dict[str, Any], watched: Watched = _UNKNOWN) -> None:
        super().__init__()
        self._type_name = type_name
        self._data = data
        self.watched = watched

    def __repr__(self) -> str:
        return f"<ForeignTrigger {self._type_name}>"

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._type_name, self._data

    def run(self) -> AsyncIterator[TriggerEvent]:
        self._refuse()

    def shared_stream_key(self) -> Hashable | None:
        self._refuse()

    def filter_shared_stream(
        self,
        shared_stream: AsyncIterator[Any],  # noqa: ARG002 - only the real class can read it
    ) -> AsyncIterator[TriggerEvent]:
        self._refuse()

    def _refuse(self) -> Never:
        raise DefinitionError(
            f"{self._type_name} is an author's trigger: it runs only where its bundle may run"
        )
