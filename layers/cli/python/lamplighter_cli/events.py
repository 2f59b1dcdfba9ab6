"""`lamplighter events`: what became of an event, and those that could not be taken."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from lamplighter.errors import RefusedError
from lamplighter.events import dead_letters
from lamplighter.events.dead_letters import DeadLetter
from lamplighter.events.ledger import Fate, Trace
from lamplighter.events.ledger import trace as find
from lamplighter.zones import iso
from lamplighter_cli import console
from lamplighter_cli.deployment import AsJson, EndpointUrl

app = typer.Typer(help="Asset events: trace them, and look at dead letters.", no_args_is_help=True)
dlq = typer.Typer(help="Messages that could not be taken, and why.", no_args_is_help=True)
app.add_typer(dlq, name="dlq")

_BODY_SHOWN = 60


@app.command()
def trace(
    event: Annotated[str, typer.Argument(help="The event's id.")],
    *,
    asset: Annotated[str, typer.Option(help="Its asset, if ids are not unique.")] = "",
    as_json: AsJson = False,
    endpoint_url: EndpointUrl = "",
) -> None:
    """Show what became of an event with everyone who waits for its asset."""
    found = find(event, asset=asset or None)
    if as_json:
        console.print_json([_trace_json(one) for one in found])
        return
    for one in found:
        console.out().print(_headline(one))
        if one.fates:
            console.out().print(_fates(one.fates))
        elif one.rejected is None:
            console.out().print("nobody waits for it")


def _headline(one: Trace) -> Text:
    row = one.event
    if one.rejected is not None:
        return Text(f"event {row.event_id} was rejected at {iso(row.recorded_at)}: {one.rejected}")
    if row.seq is None:
        return Text(f"event {row.event_id} of {one.asset} waits to be recorded")
    number = f"number {row.seq:.0f}, recorded at {iso(row.recorded_at)}"
    return Text(f"event {row.event_id} of {one.asset}: {number}")


def _fates(fates: list[Fate]) -> Table:
    table = Table("consumer", "event is", "run", "why")
    for fate in fates:
        run = f"{fate.dag_id}/{fate.run_id}" if fate.run_id else ""
        table.add_row(*(Text(value) for value in (fate.dag_id, fate.state, run, fate.why)))
    return table


def _trace_json(one: Trace) -> dict[str, Any]:
    row = one.event
    return {
        "event_id": row.event_id,
        "asset": one.asset,
        "seq": None if row.seq is None else int(row.seq),
        "timestamp": iso(row.timestamp),
        "recorded_at": iso(row.recorded_at),
        "extra": row.extra or {},
        "source": row.source,
        "partition_key": row.partition_key,
        "rejected": one.rejected,
        "consumers": [vars(fate) for fate in one.fates],
    }


# Dead letters.


@dlq.command("list")
def list_letters(
    *,
    most: Annotated[int, typer.Option("-n", min=1, help="How many at most.")] = 50,
    as_json: AsJson = False,
    endpoint_url: EndpointUrl = "",
) -> None:
    """Show messages that could not be taken, with the reason; they stay where they are."""
    with _letters(most) as letters:
        if as_json:
            console.print_json([_letter_json(letter) for letter in letters])
            return
        if not letters:
            console.out().print("no dead letters")
            return
        table = Table("letter", "rejected at", "lane", "reason", "body")
        for letter in letters:
            body = letter.body[:_BODY_SHOWN] + ("…" if len(letter.body) > _BODY_SHOWN else "")
            cells = (letter.message_id, letter.rejected_at, letter.lane, letter.reason, body)
            table.add_row(*(Text(cell or "") for cell in cells))
        console.out().print(table)


@dlq.command()
def replay(
    letter: Annotated[
        list[str] | None, typer.Argument(help="Letters to send again, as listed. Default: none.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Send all of them again.")] = False,
    most: Annotated[int, typer.Option("-n", min=1, help="Look at so many at most.")] = 1_000,
    as_json: AsJson = False,
    endpoint_url: EndpointUrl = "",
) -> None:
    """Send dead letters again, each as the event it was: what is recorded already stays single."""
    wanted = set(letter or ())
    if bool(wanted) == everything:
        raise RefusedError("name the letters to replay, as `events dlq list` shows them, or --all")
    sent: list[str] = []
    kept: dict[str, str] = {}
    with _letters(most) as letters:
        with console.progress() as progress:
            todo = [one for one in letters if everything or one.message_id in wanted]
            bar = progress.add_task("Replaying", total=len(todo))
            for one in todo:
                try:
                    dead_letters.replay(one)
                    sent.append(one.message_id)
                except RefusedError as refused:
                    kept[one.message_id] = str(refused)
                progress.advance(bar)
        kept |= dict.fromkeys(wanted - {*sent, *kept}, "there is no such letter")
        letters[:] = [one for one in letters if one.message_id not in sent]
    if as_json:
        console.print_json({"replayed": sent, "kept": kept})
    else:
        console.out().print(f"replayed {len(sent)} of {len(sent) + len(kept)}")
        for name, why in kept.items():
            console.error(f"{name}: {why}")
    if kept:
        raise typer.Exit(1)


@contextmanager
def _letters(most: int) -> Iterator[list[DeadLetter]]:
    """Yield dead letters; those that are left in the list are released when the block ends."""
    letters = dead_letters.dead_letters(most=most)
    try:
        yield letters
    finally:
        dead_letters.release(letters)


def _letter_json(letter: DeadLetter) -> dict[str, Any]:
    shown = ("message_id", "reason", "rejected_at", "first_id", "lane", "is_cut", "body")
    return {name: getattr(letter, name) for name in shown}
