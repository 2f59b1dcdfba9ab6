"""What a process that runs author code says: a line of JSON, of which nothing is believed yet.

Owns: how long and how deep an answer may be. Refuses what two readers may understand differently,
such as NaN or a name that is given twice, and texts that cannot be stored.
"""

import json
import os
import selectors
import time
from collections.abc import Callable
from typing import Any, Never

MAX_BYTES = 16 * 1024**2
"""The longest answer about one file: ten thousand DAGs of ordinary size."""
MAX_BUNDLE_BYTES = 4 * MAX_BYTES
"""All answers about one bundle: `register` holds them in memory, together with what it makes."""
_MAX_DEPTH = 200
_CHUNK = 65_536
_SECONDS_BETWEEN_LOOKS = 0.1


def read_answer(line: bytes | bytearray) -> Any:
    """Return the value of a line of JSON; raise `ValueError` if it is none, or one to beware of."""
    try:
        value = json.loads(line, parse_constant=_refuse, object_pairs_hook=_object)
        if b"\\ud" in line or b"\\uD" in line:
            json.dumps(value, ensure_ascii=False).encode()  # half of a character
    except RecursionError as error:
        raise ValueError("it is too deep") from error
    _require_shallow(value)
    return value


def _refuse(name: str) -> Never:
    raise ValueError(f"{name} is not a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError("it is too deep")


def wait_for(
    selector: selectors.BaseSelector, deadline: float, is_alive: Callable[[], bool]
) -> list[int]:
    """Return which pipes of a process are ready; raise `TimeoutError` after the deadline.

    It waits for no pipe of a dead process, which a daemon may hold open: then there may be none.
    """
    while True:
        # Asked first: what it said before its end is in the pipe by now.
        lives = is_alive()
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        found = selector.select(min(left, _SECONDS_BETWEEN_LOOKS) if lives else 0)
        if found or not lives:
            return [key.fd for key, _ in found]


class AnswerPipe:
    """Reads lines that a process says, of limited length and within limited time."""

    def __init__(self, descriptor: int, *, max_bytes: int, is_alive: Callable[[], bool]) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self._is_alive = is_alive
        self._read = bytearray()

    def read_line(self, *, deadline: float) -> bytes:
        """Return the next line; raise `EOFError`, `TimeoutError` or `ValueError` if none comes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._descriptor, selectors.EVENT_READ)
            searched = 0
            while (end := self._read.find(b"\n", searched)) < 0:
                searched = len(self._read)
                if searched > self._max_bytes:
                    raise ValueError("the answer is too long")
                if not wait_for(selector, deadline, self._is_alive):
                    raise EOFError
                chunk = os.read(self._descriptor, _CHUNK)
                if not chunk:
                    raise EOFError
                self._read += chunk
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line
