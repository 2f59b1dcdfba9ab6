"""How long a step waits before its next attempt. Pure: the same attempt always waits the same."""

import hashlib
import math
from datetime import timedelta

from lamplighter.dags.task import SparkTask

_LONGEST = timedelta(days=1)


def retry_delay(task: SparkTask, try_number: int, *, of: str) -> timedelta:
    """Return the pause after an attempt of the step that `of` names; the first attempt is 1.

    With back-off the delay grows by a factor, and up to as much again is added, so that steps that
    failed together do not come back together.
    """
    if not task.retry_exponential_backoff:
        return task.retry_delay
    longest = min(_LONGEST, task.max_retry_delay or _LONGEST).total_seconds()
    try:
        grown = task.retry_delay.total_seconds() * task.retry_exponential_backoff ** (
            try_number - 1
        )
    except OverflowError:
        grown = longest
    base = max(1, math.ceil(min(grown, longest)))
    digest = hashlib.sha256(f"{of}#{try_number}".encode()).digest()
    jitter = int.from_bytes(digest[:8], "big") % base
    return timedelta(seconds=min(base + jitter, longest))
