"""A naive model of an acknowledged stream: one word for each event and each reader.

Owns: what the engine must come to. Every question is answered by looking at all events, because
being slow and plain is the point.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

PENDING = ("queued", "open", "bound")


@dataclass
class ModelEvent:
    """An event, and where each member of its snapshot stands with it."""

    name: str
    lane: str
    created_at: float
    states: dict[int, str] = field(default_factory=dict)
    unconfirmed: dict[int, set[int]] = field(default_factory=dict)

    @property
    def is_resolved(self) -> bool:
        """Whether nobody has still to resolve it."""
        return not any(state in PENDING for state in self.states.values())

    def outcome(self) -> str:
        """Return the event with its counts, as a trace has it."""
        states = list(self.states.values())
        acked, failed, rejected = (states.count(s) for s in ("acked", "failed", "rejected"))
        mark = "" if acked and not failed and not rejected else "!"
        return f"{self.name}:{acked}/{failed}/{rejected}{mark}"


class Model:
    """One group, from its first reader to its last."""

    def __init__(self, limit: int, timeout: float, now: float) -> None:
        self._limit = limit
        self._timeout = timeout
        self._began_at = now
        self.events: list[ModelEvent] = []
        self.readers: set[int] = set()
        self.failed: set[int] = set()
        self.waiting: set[int] = set()

    @property
    def live(self) -> set[int]:
        """Those who get new events."""
        return self.readers - self.failed

    def feed(self, names: Iterable[str], now: float) -> None:
        """Hand out events in one burst; whoever waits pulls after it."""
        for name in names:
            event = ModelEvent(name, name.partition("-")[0], now)
            self.events.append(event)
            for reader in sorted(self.live):
                event.states[reader] = "queued"
                if self._count(reader, "queued") > self._limit:
                    self._fail(reader)
        for reader in self.waiting & self.live:
            self._open_next(reader)

    def pull(self, reader: int) -> str:
        """Close what is open, and open the next."""
        self._close(reader)
        return self._open_next(reader)

    def bind(self, reader: int, number: int | None) -> bool:
        """Hold the open event up by a number; return whether there is such an event."""
        event = self._open(reader)
        if event is not None and number is not None:
            event.unconfirmed.setdefault(reader, set()).add(number)
        return event is not None

    def confirm(self, number: int) -> None:
        """Take an event whose last number this is, if its reader has moved on."""
        for event in self.events:
            for reader, numbers in event.unconfirmed.items():
                numbers.discard(number)
                if not numbers and event.states[reader] == "bound":
                    event.states[reader] = "acked"

    def reject(self, reader: int) -> None:
        """Refuse the open event."""
        event = self._open(reader)
        if event is not None:
            event.states[reader] = "rejected"

    def leave(self, reader: int) -> None:
        """Close what is open, and fail what was never pulled."""
        self._close(reader)
        for event in self.events:
            if event.states.get(reader) == "queued":
                event.states[reader] = "failed"
        self.readers.discard(reader)
        self.failed.discard(reader)
        self.waiting.discard(reader)

    def time_passed(self, now: float) -> None:
        """Fail whoever holds up an event that was too old at the last look."""
        pause = self._timeout / 10
        looked_at = self._began_at + (now - self._began_at) // pause * pause
        late = {
            reader
            for event in self.events
            for reader, state in event.states.items()
            if state in PENDING and looked_at - event.created_at >= self._timeout
        }
        for reader in late:
            self._fail(reader)

    def advanced(self) -> dict[str, list[str]]:
        """Return what each lane must have given by now: its resolved prefix."""
        prefixes: dict[str, list[str]] = {}
        blocked: set[str] = set()
        for event in self.events:
            if not event.is_resolved:
                blocked.add(event.lane)
            if event.lane not in blocked:
                prefixes.setdefault(event.lane, []).append(event.outcome())
        return prefixes

    def _open(self, reader: int) -> ModelEvent | None:
        opened = [event for event in self.events if event.states.get(reader) == "open"]
        return opened[0] if opened else None

    def _count(self, reader: int, state: str) -> int:
        return sum(event.states.get(reader) == state for event in self.events)

    def _close(self, reader: int) -> None:
        event = self._open(reader)
        if event is not None:
            event.states[reader] = "bound" if event.unconfirmed.get(reader) else "acked"

    def _open_next(self, reader: int) -> str:
        for event in self.events:
            if event.states.get(reader) == "queued":
                event.states[reader] = "open"
                self.waiting.discard(reader)
                return event.name
        self.waiting.add(reader)
        return "waiting"

    def _fail(self, reader: int) -> None:
        for event in self.events:
            if event.states.get(reader) in PENDING:
                event.states[reader] = "failed"
        if reader in self.readers:
            self.failed.add(reader)
