"""A local deployment as it was at one moment, to be put back as often as a test wants."""

import copy

from pendulum import DateTime

from lamplighter import runtime
from lamplighter_local.emulator.moto_memory import buckets, queues, tables
from lamplighter_local.execution import Fake
from lamplighter_local.stack import LocalStack


def begin_anew(stack: LocalStack, *, at: DateTime) -> None:
    """Let a deployment be as if it were new: nothing stored, sent or running; the clock at `at`.

    To make another one takes longer than most tests.
    """
    for table in tables():
        table.items.clear()
    for queue in queues():
        queue._messages.clear()
        queue.deleted_messages.clear()
        queue.pending_messages.clear()
    for bucket in buckets():
        bucket.keys.clear()
    for fake in _fakes(stack):
        fake.put_back(type(fake)().copy_state())
    _forget(stack, at)


def _fakes(stack: LocalStack) -> list[Fake]:
    return [] if stack.execution is None else list(stack.execution.fakes.values())


def _forget(stack: LocalStack, at: DateTime) -> None:
    for each in (stack.runtime, runtime.current()):  # a test may have other settings in force
        each.caches.clear()
    stack.clock._at = at


class Snapshot:
    """Tables, queues, objects, jobs and clock of a deployment."""

    def __init__(self, stack: LocalStack) -> None:
        self.stack = stack
        self._tables = {table.name: copy.deepcopy(table.items) for table in tables()}
        self._messages = {queue.name: copy.deepcopy(queue._messages) for queue in queues()}
        self._objects = {bucket.name: set(bucket.keys) for bucket in buckets()}
        self._at = stack.clock.now()
        self._jobs = [(fake, fake.copy_state()) for fake in _fakes(stack)]

    def put_back(self) -> LocalStack:
        """Let everything be as it was, the clock included, which otherwise never goes back."""
        for table in tables():
            table.items = copy.deepcopy(self._tables[table.name])
        for queue in queues():
            before = self._messages.get(queue.name, [])  # it may have been made since
            queue._messages = copy.deepcopy(before)
            queue.deleted_messages.clear()
            queue.pending_messages.clear()
        for bucket in buckets():
            # A job finds the report of another one that had its name, otherwise.
            for key in set(bucket.keys) - self._objects[bucket.name]:
                bucket.keys.pop(key)
        for fake, jobs in self._jobs:
            fake.put_back(jobs)
        _forget(self.stack, self._at)
        return self.stack
