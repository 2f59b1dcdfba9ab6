"""`lamplighter dlq`: list the messages in dead-letter queues, and send them again."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lamplighter.errors import RefusedError
from lamplighter.events import dead_letters
from lamplighter.events.dead_letters import DeadLetter
from lamplighter.safe_text import masked, masked_text
from lamplighter_cli import console
from lamplighter_cli.deployment import on_deployment
from lamplighter_cli.options import AsJson

app = typer.Typer(
    help="List and replay dead letters: messages that could not be processed.", no_args_is_help=True
)

_BODY_SHOWN = 60


@app.command("list")
@on_deployment
def list_letters(
    *,
    limit: Annotated[int, typer.Option("-n", min=1, help="Maximum number of messages.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters and the reasons; they stay in their queues."""
    with _letters(limit) as letters:
        if as_json:
            console.print_json([_letter_json(letter) for letter in letters])
            return
        if not letters:
            console.out().print("no dead letters")
            return
        table = console.Rows("letter", "queue", "rejected at", "lane", "reason", "body")
        for letter in letters:
            shown = _letter_json(letter)
            body = console.shorten(shown["body"], _BODY_SHOWN)
            cells = (letter.queue, letter.rejected_at, letter.lane, shown["reason"], body)
            table.add(letter.message_id, *(cell or "" for cell in cells))
        console.out().print(table)


@app.command()
@on_deployment
def replay(
    letter: Annotated[
        list[str] | None, typer.Argument(help="The ids of the letters, as listed.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Replay all dead letters.")] = False,
    limit: Annotated[int, typer.Option("-n", min=1, help="How many to read at a time.")] = 1_000,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to their queues; no event is recorded twice.

    Letters of one lane are sent in order.
    """
    wanted = set(letter or ())
    if bool(wanted) == everything:
        raise RefusedError("name the letters to replay, as `dlq list` shows them, or pass --all")
    sent: list[str] = []
    kept: dict[str, str] = {}
    known: set[str] = set()
    # SQS returns more messages of a FIFO group only when the first ones have been deleted.
    while done := _replay_batch(limit, None if everything else wanted, known, kept):
        sent += [one.message_id for one in done]
        # Do not replay again what is rejected again at once, under the same id.
        known |= {one.first_id for one in done}
        if wanted:
            break
    kept |= dict.fromkeys(wanted - {*sent, *kept}, "no such letter")
    if as_json:
        console.print_json({"replayed": sent, "kept": kept})
    else:
        console.out().print(f"replayed {len(sent)} of {len(sent) + len(kept)}")
        for name, why in kept.items():
            console.error(f"{name}: {why}")
    if kept:
        raise typer.Exit(1)


def _replay_batch(
    limit: int, wanted: Collection[str] | None, known: Collection[str], kept: dict[str, str]
) -> list[DeadLetter]:
    """Replay the letters of one read; return those that were sent."""
    sent: list[DeadLetter] = []
    with _letters(limit) as letters:
        with console.progress() as progress:
            todo = [one for one in letters if wanted is None or one.message_id in wanted]
            bar = progress.add_task("Replaying", total=len(todo))
            for one in (each for each in todo if each.first_id not in known):
                try:
                    dead_letters.replay(one)
                    sent.append(one)
                except RefusedError as refused:
                    kept[one.message_id] = str(refused)
                progress.advance(bar)
        letters[:] = [one for one in letters if one not in sent]
    return sent


@contextmanager
def _letters(limit: int) -> Iterator[list[DeadLetter]]:
    """Yield dead letters; those left in the list become visible again when the block ends."""
    letters = dead_letters.dead_letters(limit=limit)
    try:
        yield letters
    finally:
        dead_letters.make_visible(letters)


def _letter_json(letter: DeadLetter) -> dict[str, Any]:
    shown = ("message_id", "queue", "reason", "rejected_at", "first_id", "lane", "is_cut", "body")
    values = {name: getattr(letter, name) for name in shown}
    return masked(values | {"body": _masked_body(letter.body)})  # type: ignore[no-any-return] # a dict


def _masked_body(body: str) -> str:
    """Return a body as it is shown; it may be cut off, and is replayed as it was."""
    try:
        return json.dumps(masked(json.loads(body)), ensure_ascii=False)
    except (ValueError, RecursionError):
        return masked_text(body)
