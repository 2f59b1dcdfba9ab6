"""What Ctrl-C does to a command that has started other programs: they end, and one line says so."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from lamplighter_cli import console

# What a shell reports of a program that Ctrl-C has ended.
_INTERRUPTED = 130


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end the command with one line; whatever the block opened is closed by then."""
    try:
        yield
    except KeyboardInterrupt:
        console.err().print("stopped: everything that was started here has ended")
        raise typer.Exit(_INTERRUPTED) from None
