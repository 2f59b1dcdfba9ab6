"""Lets moto tell the time by the library's clock: in queues, and on objects in buckets."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Any
from unittest.mock import patch

import moto.s3.models as moto_s3
import moto.sqs.models as moto_sqs

from lamplighter import clock


@contextmanager
def queues_on_our_clock() -> Iterator[None]:
    """Let moto's queues count delays and visibility by the library's clock until the block ends."""

    def seconds(moment: datetime | None = None) -> float:
        return (moment or clock.now()).timestamp()

    with (
        patch.object(moto_sqs, "unix_time", seconds),
        patch.object(moto_sqs, "unix_time_millis", lambda moment=None: seconds(moment) * 1000),
        # moto shows a message again after its time, not at it: never, where the clock stands.
        patch.object(moto_sqs.Message, "visible", property(_is_visible)),
        patch.object(moto_sqs.Message, "sequence_number", _InOrder(), create=True),
    ):
        yield


class _InOrder:
    """The sequence numbers of messages on FIFO queues, which moto draws by lot."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __get__(self, message: Any, owner: object = None) -> str | None:
        number: str | None = vars(message).get("sequence_number") if message is not None else None
        return number

    def __set__(self, message: Any, drawn: str | None) -> None:
        number = None if drawn is None else f"{next(self._numbers):020}"
        vars(message)["sequence_number"] = number


def _is_visible(message: moto_sqs.Message) -> bool:
    return bool(clock.now().timestamp() * 1000 >= message.visible_at)


@contextmanager
def objects_on_our_clock() -> Iterator[None]:
    """Let moto date objects by the library's clock until the block ends.

    Whoever looks for new objects asks which of them are younger than something on that clock.
    """
    with patch.object(moto_s3, "utcnow", _now):
        yield


def _now() -> datetime:
    # A plain one, as moto keeps it: in UTC, and without saying so.
    return datetime.fromisoformat(clock.now().isoformat()).replace(tzinfo=None)
