"""How tests of faults say what they found."""

from collections.abc import Callable, Sequence

# With the name of a story, how many faults there were, and what was wrong after them.
Report = Callable[[str, int, Sequence[str]], None]
