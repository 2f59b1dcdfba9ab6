"""A trigger on the messages of a queue of SQS that others write to."""

import re
from collections.abc import Iterable
from typing import Any

from lamplighter.errors import DefinitionError
from lamplighter.loading import class_path
from lamplighter.triggers.feeds import Feed
from lamplighter.triggers.patterns import EventPattern
from lamplighter.triggers.queue import QueueMessage, QueueTrigger

_NAME = re.compile(r"(?=.{1,80}$)[A-Za-z0-9_-]+(\.fifo)?")


class SqsTrigger(QueueTrigger):
    """Fires for each message of a queue, or for those whose JSON body fits the pattern `match`.

    `queue` is a name, a URL or an ARN; a deployment knows its queues by name. The payload is what
    the body says as JSON, else its text.
    """

    def __init__(self, queue: str, match: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.queue = queue
        self._name = _name_in(queue)
        self._pattern = None if match is None else EventPattern(match, "match")

    def serialize(self) -> tuple[str, dict[str, Any]]:
        match = None if self._pattern is None else self._pattern.content
        return class_path(type(self)), {"queue": self.queue, "match": match}

    @property
    def feed(self) -> Feed:
        return Feed(queue=self._name)

    def payloads(self, message: QueueMessage) -> Iterable[Any]:
        if self._pattern is None or self._pattern.matches(message.content):
            yield message.body if message.content is None else message.content


def _name_in(queue: object) -> str:
    """Return the name of a queue, which is the last part of its URL and of its ARN."""
    name = re.split("[/:]", queue)[-1] if isinstance(queue, str) else ""
    if _NAME.fullmatch(name) is None:
        raise DefinitionError(f"SqsTrigger: queue must be a name, a URL or an ARN, not {queue!r}")
    return name
