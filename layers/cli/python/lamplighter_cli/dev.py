"""`lamplighter dev`: runs a bundle on this machine in real time, until Ctrl-C.

Owns: the output, and how signals end it. `lamplighter_local.dev.session` runs the bundle.
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
from lamplighter_cli.dev_output import activity_line, screen
from lamplighter_cli.extras import needing
from lamplighter_cli.options import (
    BundleDir,
    BundleName,
    Secrets,
    Variables,
    read_secrets,
    read_variables,
)
from lamplighter_local.dev import state as dev_state

if TYPE_CHECKING:
    from lamplighter_local.dev.session import DevSession

_EVERY_SECONDS = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Added to the number of the signal, as shells do.
_SIGNAL_EXIT = 128


class _Signalled(BaseException):
    """A signal was received. Not an `Exception`, so that no handler on the way catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def dev(
    path: BundleDir = Path(),
    *,
    bundle: BundleName = "",
    instant: Annotated[
        bool, typer.Option("--instant", help="Do not run jobs: steps succeed after a second.")
    ] = False,
    catchup: Annotated[
        bool, typer.Option("--catchup", help="Also create the runs that are already due.")
    ] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="The port of the endpoint. Default: any free port."),
    ] = 0,
    var: Variables = None,
    secrets: Secrets = None,
) -> None:
    """Run a bundle on this machine in real time; saved files are registered at once."""
    variables, given = read_variables(var), read_secrets(secrets)
    try:
        with _raise_on_signals(), ExitStack() as until_the_end:
            with console.err().status("importing the DAG files"):
                session = until_the_end.enter_context(
                    _session(
                        path,
                        bundle=bundle,
                        is_instant=instant,
                        catch_up=catchup,
                        port=port,
                        variables=variables,
                        secrets=given,
                    )
                )
            _follow(session)
    except _Signalled as signalled:
        name = (
            "Ctrl-C" if signalled.number == signal.SIGINT else signal.Signals(signalled.number).name
        )
        console.err().print(f"{name}: all processes of this command have ended")
        raise typer.Exit(_SIGNAL_EXIT + signalled.number) from None


def _session(path: Path, **options: Any) -> "AbstractContextManager[DevSession]":
    with needing("local"):
        from lamplighter_local.dev.session import dev_session  # noqa: PLC0415 - only where it is needed
    return dev_session(path, **options)


@contextmanager
def _raise_on_signals() -> Iterator[None]:
    """Raise `_Signalled` on the first signal, and ignore later ones."""

    def end(number: int, frame: FrameType | None) -> Never:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise _Signalled(number)

    before = {number: signal.signal(number, end) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _follow(session: "DevSession") -> None:
    """Show what happens until a signal ends it."""
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
            for activity in session.step():
                line = activity_line(activity, is_short=live is not None)
                out.print(line, soft_wrap=live is None)
            if live is not None:
                shown = screen(session.snapshot(), session.info, out.size)
                live.update(shown, refresh=True)
            never.wait(_EVERY_SECONDS)


def _introduce(session: "DevSession", out: Console) -> None:
    """Print the endpoint and commands for a second terminal."""
    info = session.info
    # The key itself is not printed: others may see the terminal.
    credentials = shlex.quote(str(dev_state.credentials_path()))
    aws = (
        f"AWS_SHARED_CREDENTIALS_FILE={credentials} aws --profile {dev_state.PROFILE}"
        f" --endpoint-url {info.endpoint_url} --region us-east-1 dynamodb list-tables"
    )
    lines = [
        f"bundle {info.bundle} runs at {info.endpoint_url}; press Ctrl-C to stop",
        "in a second terminal:",
        "  lamplighter --local dags list",
        "  lamplighter --local runs trigger DAG",
        "  lamplighter --local assets emit ASSET",
        f"  {aws}",
    ]
    lines.append(
        "steps are not executed: they succeed after a second"
        if info.jobs is None
        else f"files and logs of jobs: {info.jobs}"
    )
    out.print(Text("\n".join(lines)), soft_wrap=True)
