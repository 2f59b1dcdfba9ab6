"""The list of shared-stream cases: a number, a sentence, what is played, what must come of it.

Owns: the form of a case only. The cases are in `shared_stream_cases_*`, by the part of the contract
that they show; the conformance tests play them with Lamplighter, and `make parity` with both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.parity.shared_stream_kit import Kit

Play = Callable[[Kit], Awaitable[Any]]


@dataclass(frozen=True)
class Case:
    """One sentence of the contract, and how it is shown."""

    number: str
    sentence: str
    play: Play
    expected: Any


class Cases(list[Case]):
    """The cases of one part, numbered in the order in which they are written."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self._part = part

    def __call__(self, expected: Any) -> Callable[[Play], Play]:
        """Add the decorated coroutine, whose docstring is the sentence."""

        def add(play: Play) -> Play:
            number = f"{self._part}.{len(self) + 1}"
            self.append(Case(number, play.__doc__ or "", play, expected))
            return play

        return add


def refusal(function: Callable[[], Any]) -> str:
    """Return the name of the error that a call raises; its text is each library's own."""
    try:
        function()
    except Exception as exc:  # noqa: BLE001 - the answer, whatever it is
        return type(exc).__name__
    return "no error"
