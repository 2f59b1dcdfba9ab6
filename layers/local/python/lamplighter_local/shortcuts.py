"""Looks into the emulator's memory where a request would say the same, only later.

For tests that try the same thing a thousand times: most of their requests are scans that check the
tables and polls of empty queues. The code under test is not touched.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends

from lamplighter import clock
from lamplighter.store.rows import Row
from lamplighter_local import stack
from lamplighter_local.deliveries import deliver, next_delivery


@contextmanager
def shortcuts() -> Iterator[None]:
    """Scan tables and find queues empty without a request until the block ends."""
    with (
        patch.object(Row, "scan", classmethod(_scan)),
        patch.object(stack, "deliver", _deliver_if_any),
    ):
        yield


def _scan(model: type[Row], *, consistent_read: bool = True) -> Iterator[Any]:  # noqa: ARG001 - memory is never behind
    model._get_connection()  # noqa: SLF001 - the name is known from then on
    tables = dynamodb_backends[DEFAULT_ACCOUNT_ID][stack.REGION].tables
    for item in tables[model.Meta.table_name].all_items():
        yield model.from_raw_data({name: value.to_json() for name, value in item.attrs.items()})


def _deliver_if_any(url: str, function: str) -> int:
    at = next_delivery(url)
    return 0 if at is None or at > clock.now() else deliver(url, function)
