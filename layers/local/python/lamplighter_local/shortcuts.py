"""Looks into the emulator's memory where a request would say the same, only later.

For tests that try the same thing a thousand times: most of their requests are scans that check the
tables and polls of empty queues. The code under test is not touched.

Owns also: what moto gets wrong about messages of a FIFO queue that come again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.sqs.models import sqs_backends

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
    if at is None or at > clock.now():
        return 0
    queue = sqs_backends[DEFAULT_ACCOUNT_ID][stack.REGION].queues[url.rpartition("/")[2]]
    # moto takes a lane for busy while any of its messages has been received, also if that was long
    # ago and all are visible again; so the last of them would come first.
    queue.pending_messages.difference_update([m for m in queue.pending_messages if m.visible])
    return deliver(url, function)
