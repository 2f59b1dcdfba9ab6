"""`lamplighter dev`: a bundle on this machine, in real time, until Ctrl-C.

Owns: what one sees of it, and how signals end it. `lamplighter_local.dev.session` runs it.
"""

import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Never

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from lamplighter_cli import console
from lamplighter_cli.dev_screen import line_of, screen_of
from lamplighter_cli.options import BundleName, Variables, needing_local, read_variables
from lamplighter_local.dev import state as dev_state

if TYPE_CHECKING:
    from lamplighter_local.dev.session import Dev

_EVERY_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# What a shell reports of a program that a signal has ended.
_ENDED_BY = 128


class _Ended(BaseException):
    """A signal came. Not an `Exception`: nobody on the way may take it for one of theirs."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def dev(
    path: Annotated[
        Path, typer.Argument(help="The bundle: a folder with dags/, timetables/, jobs/.")
    ] = Path(),
    *,
    bundle: BundleName = "",
    instant: Annotated[
        bool, typer.Option("--instant", help="Run no jobs: steps succeed after a second.")
    ] = False,
    catchup: Annotated[
        bool, typer.Option("--catchup", help="Create the runs that were due before now, too.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the endpoint. Default: any free one.")
    ] = 0,
    var: Variables = None,
) -> None:
    """Run a bundle here in real time: register what is saved, run what is due, until Ctrl-C."""
    variables = read_variables(var)
    try:
        with _ended_by_signals(), ExitStack() as until_the_end:
            with console.err().status("importing the DAG files"):
                session = until_the_end.enter_context(
                    _developing(
                        path,
                        bundle=bundle,
                        is_instant=instant,
                        catch_up=catchup,
                        port=port,
                        variables=variables,
                    )
                )
            _follow(session)
    except _Ended as ended:
        name = "Ctrl-C" if ended.number == signal.SIGINT else signal.Signals(ended.number).name
        console.err().print(f"{name}: everything that was started here has ended")
        raise typer.Exit(_ENDED_BY + ended.number) from None


def _developing(path: Path, **options: Any) -> "AbstractContextManager[Dev]":
    with needing_local():
        from lamplighter_local.dev.session import developing  # noqa: PLC0415 - only where it is needed
    return developing(path, **options)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Raise `_Ended` where the program stands when a signal comes; later ones change nothing."""

    def end(number: int, frame: FrameType | None) -> Never:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise _Ended(number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(session: "Dev") -> None:
    """Show what happens, for ever."""
    out = console.out()
    _introduce(session, out)
    never = threading.Event()
    with ExitStack() as until_the_end:
        live = None
        if out.is_terminal:
            live = until_the_end.enter_context(
                Live(console=out, auto_refresh=False, transient=True)
            )
        while True:
            for news in session.step():
                out.print(line_of(news, is_short=live is not None), soft_wrap=live is None)
            if live is not None:
                live.update(screen_of(session.view(), session.place, out.size), refresh=True)
            never.wait(_EVERY_SECONDS)


def _introduce(session: "Dev", out: Console) -> None:
    """Say where it is, and what can be typed elsewhere."""
    place = session.place
    # The key itself is not printed: what a terminal has shown is read by others too.
    credentials = shlex.quote(str(dev_state.credentials_path()))
    aws = (
        f"AWS_SHARED_CREDENTIALS_FILE={credentials} aws --profile {dev_state.PROFILE}"
        f" --endpoint-url {place.endpoint_url} --region us-east-1 dynamodb list-tables"
    )
    lines = [
        f"bundle {place.bundle} runs at {place.endpoint_url}; Ctrl-C ends it",
        "in a second terminal:",
        "  lamplighter --local dags list",
        "  lamplighter --local runs trigger DAG",
        "  lamplighter --local assets emit ASSET",
        f"  {aws}",
    ]
    lines.append(
        "steps are not executed: each succeeds after a second"
        if place.jobs is None
        else f"files and logs of jobs: {place.jobs}"
    )
    out.print(Text("\n".join(lines)), soft_wrap=True)
