"""When objects of the emulator's buckets were written: by the library's clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from unittest.mock import patch

import moto.s3.models as moto_s3

from lamplighter import clock


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
