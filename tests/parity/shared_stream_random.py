"""Random games on a shared stream: who comes, leaves, takes, refuses or falls behind, in any order.

Owns: how a game is drawn, and how it is played by either library. A move that makes no sense at its
moment is passed over, in the same way by both.
"""

import asyncio
from random import Random
from typing import Any

from tests.parity.shared_stream_case import Play
from tests.parity.shared_stream_kit import Kit, Reader
from tests.parity.shared_stream_source import settle

_MOVES = {
    "feed": 8,
    "pull": 14,
    "bind": 5,
    "confirm": 6,
    "reject": 1,
    "come": 2,
    "leave": 1,
    "wait": 1,
    "allow": 4,
}
_MOVES_IN_A_GAME = 60
_READERS = 4
_LANES = ("A", "B", "C")


class Game:
    """The state of a game: what the players know, and what they were told."""

    def __init__(self, kit: Kit, seed: str) -> None:
        self._kit = kit
        self._chance = Random(seed)
        self._manager = kit.manager(
            max_subscriber_queue=self._chance.choice([2, 4, 1024]),
            ack_timeout=self._chance.choice([10.0, 300.0]),
        )
        self._readers: dict[int, Reader] = {}
        self._unconfirmed: list[int] = []
        self._events = 0
        self.told: list[Any] = []

    async def play(self) -> list[Any]:
        """Make all moves; return every answer, and then the trace of the source."""
        if self._chance.random() < 0.5:
            self._kit.source.hold()
        await self.come()
        for _ in range(_MOVES_IN_A_GAME):
            [move] = self._chance.choices(list(_MOVES), list(_MOVES.values()))
            await getattr(self, move)()
            await settle()
        self._kit.source.release()
        await self._manager.stop_all()
        return [self.told, self._kit.trace, len(self._manager._groups)]

    async def feed(self) -> None:
        """Let the source yield some events, of any lanes."""
        if self._kit.source.left:
            return  # nobody polls; what is fed now would reach a later group in one go
        for _ in range(self._chance.randint(1, 3)):
            self._kit.source.feed(f"{self._chance.choice(_LANES)}-{self._events}")
            self._events += 1

    async def pull(self) -> None:
        """Let a reader pull, unless its last pull waits."""
        reader = self._reader()
        if reader is not None and not reader.is_busy:
            self.told.append([reader.number, await reader.pull()])

    async def bind(self) -> None:
        """Let a reader make something of what it has open."""
        reader = self._reader()
        if reader is not None:
            number = reader.bind()
            self.told.append([reader.number, number])
            if number is not None:
                self._unconfirmed.append(number)

    async def confirm(self) -> None:
        """Confirm some of what was made, in any order."""
        self._chance.shuffle(self._unconfirmed)
        count = self._chance.randint(0, len(self._unconfirmed))
        self._manager.confirm_persisted(self._unconfirmed[:count])
        # Now and then what was confirmed is confirmed again.
        self._unconfirmed = self._unconfirmed[count if self._chance.random() < 0.9 else 0 :]

    async def reject(self) -> None:
        """Let a reader refuse what it has open."""
        reader = self._reader()
        if reader is not None and not reader.is_busy:
            await reader.call(self._kit.reject)

    async def come(self) -> None:
        """Subscribe someone who is not there."""
        number = self._chance.randrange(_READERS)
        if number not in self._readers:
            self._readers[number] = self._kit.reader(self._manager, number)

    async def leave(self) -> None:
        """Unsubscribe someone, who is waiting or not; what that waits for is allowed."""
        reader = self._reader()
        if reader is None:
            return
        del self._readers[reader.number]
        leaving = asyncio.ensure_future(reader.leave())
        await settle()
        while not leaving.done():
            await self._kit.source.allow()
        self.told.append([reader.number, "left"])

    async def wait(self) -> None:
        """Let time pass."""
        await self._kit.pass_time(self._chance.choice([0.5, 3.0, 11.0]))

    async def allow(self) -> None:
        """Let an advance that is held return."""
        if self._kit.source.advancing:
            await self._kit.source.allow()

    def _reader(self) -> Reader | None:
        number = self._chance.randrange(_READERS)
        return self._readers.get(number)


def random_play(seed: str) -> Play:
    """Return the game of that seed."""

    async def play(kit: Kit) -> Any:
        return await Game(kit, seed).play()

    return play
