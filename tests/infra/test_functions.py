"""The functions, as they are counted on for costs."""

from lamplighter_infra.functions import LIMITS
from tests.costs.prices import MEMORY_MB


def test_costs_are_counted_with_the_memory_of_the_functions() -> None:
    """Every function that moves runs has the memory that its seconds are billed with."""
    assert {limits.memory_mb for name, limits in LIMITS.items() if name != "sandbox"} == {MEMORY_MB}
