"""How tests of faults say what they found, and where they are."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

# With the name of a story, how many faults there were, and what was wrong after them.
Report = Callable[[str, int, Sequence[str]], None]


def each(points: Iterable[T]) -> Iterator[T]:
    """Yield the points at which something goes wrong, and print each before it is tried.

    What a test has printed is shown when it fails, and when it is stopped because it hangs.
    """
    for point in points:
        sys.stdout.write(f"now at {point}\n")
        yield point
