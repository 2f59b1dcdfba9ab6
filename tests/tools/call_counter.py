"""Counts what a piece of code asks of AWS: the calls are the bill."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from botocore.client import BaseClient


@contextmanager
def counted_calls() -> Iterator[Counter[str]]:
    """Count the calls of all clients by operation until the block ends."""
    calls: Counter[str] = Counter()
    send = BaseClient._make_api_call

    def count(client: BaseClient, operation: str, arguments: object) -> object:
        calls[operation] += 1
        return send(client, operation, arguments)

    with patch.object(BaseClient, "_make_api_call", count):
        yield calls
