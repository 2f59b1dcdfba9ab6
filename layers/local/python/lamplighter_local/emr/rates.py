"""The rates of API calls: a token bucket for each operation, by the deployment's clock."""

from pendulum import DateTime

from lamplighter_local.emr.behaviour import Rate


class TokenBuckets:
    """What is left of the bursts of operations."""

    def __init__(self) -> None:
        # By operation: the calls that were left, and when.
        self._left: dict[str, tuple[float, DateTime]] = {}

    def take(self, operation: str, rate: Rate, now: DateTime) -> bool:
        """Return whether a call is within the rate; then there is one less."""
        left, at = self._left.get(operation, (rate.burst, now))
        left = min(rate.burst, left + (now - at).total_seconds() * rate.per_second)
        # Seconds are floats: a call that comes when its token does must get it.
        is_within = left >= 1 - 1e-9
        self._left[operation] = (left - 1 if is_within else left, now)
        return is_within
