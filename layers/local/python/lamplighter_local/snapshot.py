"""A local deployment as it was at one moment, to be put back as often as a test wants."""

import copy
from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.sqs.models import sqs_backends

from lamplighter.events.fan_out import forget_consumers
from lamplighter_local.stack import REGION, LocalStack


class Snapshot:
    """Tables, queues and clock of a deployment; making a new one takes longer than putting back."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self._tables = {table.name: copy.deepcopy(table.items) for table in tables()}
        self._messages = {queue.name: copy.deepcopy(queue._messages) for queue in queues()}  # noqa: SLF001 - moto shows them in no other way
        self._at = stack.clock.now()

    def put_back(self) -> LocalStack:
        """Let everything be as it was, the clock included, which otherwise never goes back."""
        for table in tables():
            table.items = copy.deepcopy(self._tables[table.name])
        for queue in queues():
            queue._messages = copy.deepcopy(self._messages[queue.name])  # noqa: SLF001 - as above
            queue.deleted_messages.clear()
            queue.pending_messages.clear()
        forget_consumers()
        self.stack.clock._at = self._at  # noqa: SLF001 - nothing that was written later remains
        return self.stack


def tables() -> list[Any]:
    """Return the tables in the memory of moto."""
    return list(dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables.values())


def queues() -> list[Any]:
    """Return the queues in the memory of moto."""
    return list(sqs_backends[DEFAULT_ACCOUNT_ID][REGION].queues.values())
