"""Tests of pipes to processes that author code has: who holds them open, and how long to wait."""

import os
import selectors
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from lamplighter.bundles.answers import AnswerPipe, wait_for

HOUR = 3_600.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Yield a pipe whose ends both stay open."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def reader(pipe: tuple[int, int], *, is_alive: bool) -> AnswerPipe:
    """Return a reader of what a process says that is alive or dead."""
    return AnswerPipe(pipe[0], max_bytes=100, is_alive=lambda: is_alive)


def test_answer_of_a_dead_process_is_read_to_its_end(pipe: tuple[int, int]) -> None:
    """What it said before counts; then nobody waits, although the pipe is open."""
    os.write(pipe[1], b"one\ntwo\nthr")
    answers = reader(pipe, is_alive=False)
    deadline = time.monotonic() + HOUR
    assert answers.read_line(deadline=deadline) == b"one"
    assert answers.read_line(deadline=deadline) == b"two"
    with pytest.raises(EOFError):
        answers.read_line(deadline=deadline)


def test_answer_after_the_deadline_is_late(pipe: tuple[int, int]) -> None:
    """Even if it is there: whoever never stops speaking would never be late."""
    os.write(pipe[1], b"one\n")
    with pytest.raises(TimeoutError):
        reader(pipe, is_alive=True).read_line(deadline=time.monotonic() - 1)


def test_full_pipe_of_a_dead_process_is_not_waited_for(pipe: tuple[int, int]) -> None:
    """Somebody else holds its other end, and reads nothing."""
    os.set_blocking(pipe[1], False)
    with suppress(BlockingIOError):
        while True:
            os.write(pipe[1], b"x" * 65_536)
    with selectors.DefaultSelector() as selector:
        selector.register(pipe[1], selectors.EVENT_WRITE)
        assert wait_for(selector, time.monotonic() + HOUR, lambda: False) == []
