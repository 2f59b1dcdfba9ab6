"""A local deployment as it was at one moment, to be put back as often as a test wants."""

import copy

from lamplighter.events.fan_out import forget_consumers
from lamplighter.runs.definitions import forget_definitions
from lamplighter_local.execution import OnFakeEmr
from lamplighter_local.moto_memory import queues, tables
from lamplighter_local.stack import LocalStack


class Snapshot:
    """Tables, queues, jobs and clock of a deployment; a new one takes longer than putting back."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self._tables = {table.name: copy.deepcopy(table.items) for table in tables()}
        self._messages = {queue.name: copy.deepcopy(queue._messages) for queue in queues()}  # noqa: SLF001 - moto shows them in no other way
        self._at = stack.clock.now()
        self._emr = stack.execution.emr if isinstance(stack.execution, OnFakeEmr) else None
        self._jobs = self._emr.copy_state() if self._emr is not None else None

    def put_back(self) -> LocalStack:
        """Let everything be as it was, the clock included, which otherwise never goes back."""
        for table in tables():
            table.items = copy.deepcopy(self._tables[table.name])
        for queue in queues():
            queue._messages = copy.deepcopy(self._messages[queue.name])  # noqa: SLF001 - as above
            queue.deleted_messages.clear()
            queue.pending_messages.clear()
        if self._emr is not None:
            self._emr.put_back(self._jobs)
        forget_consumers()
        forget_definitions()
        self.stack.clock._at = self._at  # noqa: SLF001 - nothing that was written later remains
        return self.stack
