"""Compares what both spend on an event of a shared stream that is acknowledged."""

from collections.abc import Callable, Mapping

from tests.bench.rows import Row
from tests.bench.sides import medians_of_rounds

# Half is the goal; a busy machine takes its part.
_CPU_SHARE = 0.6


def measure_shared_streams(
    python: str, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Row]:
    """Return the CPU time per event: one and twenty subscribers, skipping and deriving."""
    # Airflow writes its log where measurements are expected.
    quiet = {**environment, "AIRFLOW__LOGGING__LOGGING_LEVEL": "CRITICAL"}
    medians = medians_of_rounds(
        "shared_streams_measure.py", python, quiet, lambda text: say(f"shared streams: {text}")
    )
    return [
        Row(name, ours, airflows, limit=_CPU_SHARE * airflows)
        for name, (ours, airflows) in medians.items()
    ]
