"""Where the command writes: results to stdout, everything else to stderr.

Rich leaves colours out when NO_COLOR is set or the stream is not a terminal.
"""

import json
import sys
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

# Rich guesses 80 columns where there is no terminal, and would cut run ids; a file has no edge.
_WIDTH_OF_A_FILE = 160


def out() -> Console:
    """Return the console for results."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_OF_A_FILE)


def err() -> Console:
    """Return the console for everything that is not a result."""
    return Console(stderr=True, soft_wrap=True)


def is_interactive() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty() and err().is_terminal


def error(message: str) -> None:
    """Write one line about what went wrong."""
    err().print(Text.assemble(("error: ", "bold red"), message))


def print_json(value: Any) -> None:
    """Write a result for programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def progress() -> Progress:
    """Return a progress bar that shows only where someone is looking."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
