"""What a deployment decides: names of its resources, and the numbers that are choices.

Owns: the only reading of the environment. Each field is `LAMPLIGHTER_` plus its name in capitals.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Self

from lamplighter.errors import SettingsError

_PREFIX = "LAMPLIGHTER_"
_CHOICES = {"unknown_assets": ("reject", "register")}
_BOUNDS = {
    "transaction_actions": (10, 100),
    # A message can be delayed by 900 seconds, and the look-ahead may begin a minute late.
    "look_ahead_seconds": (1, 840),
}


@dataclass(frozen=True)
class Settings:
    """The values of one deployment."""

    table_prefix: str = "lamplighter-"
    bucket: str = ""
    claims_queue_url: str = ""
    submits_queue_url: str = ""
    registers_queue_url: str = ""
    events_queue_url: str = ""
    events_fifo_queue_url: str = ""
    events_dead_queue_url: str = ""
    events_dead_fifo_queue_url: str = ""
    sandbox_function: str = ""

    # A claim rewrites one entry of the due index; a shard takes about 500 of them per second. The
    # number may be raised at any time: entries move when they are next written.
    due_shards: int = 16
    # Shards of the indexes on runs, and of the one on assets whose events are being handed on.
    run_shards: int = 8
    # DynamoDB takes 100; some emulators take fewer.
    transaction_actions: int = 100
    # The timer fires once a minute; what comes due within this time is sent ahead as a delayed
    # message. Five minutes outlive three lost ticks in a row.
    look_ahead_seconds: int = 300
    # The least time between the ends of two intervals of @continuous.
    continuous_gap_seconds: int = 30
    # A queued run whose message was lost is found again after this time.
    wake_after_seconds: int = 120
    keep_finished_runs_days: int = 90
    # An event is known by its id, and its extras can be read, for this time.
    keep_events_days: int = 90
    # Events of assets that no DAG has named: "reject" them, or "register" the asset.
    unknown_assets: str = "reject"

    def __post_init__(self) -> None:
        """Refuse numbers that the services or the protocols do not allow."""
        for name, (least, most) in _BOUNDS.items():
            if not least <= getattr(self, name) <= most:
                raise SettingsError(f"{name} must be between {least} and {most}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise SettingsError(f"{name} must be one of {', '.join(choices)}")

    @classmethod
    def from_environment(cls) -> Self:
        """Return the settings of this process."""
        values: dict[str, object] = {}
        for field in fields(cls):
            name = _PREFIX + field.name.upper()
            text = os.environ.get(name)
            if text is not None:
                values[field.name] = text if field.type is str else _whole_number(name, text)
        return cls(**values)  # type: ignore[arg-type] # read as each field's own type above

    def require(self, name: str) -> str:
        """Return a name that must have been given, or say which variable is missing."""
        value: str = getattr(self, name)
        if not value:
            raise SettingsError(f"set {_PREFIX}{name.upper()}: it names a resource of the stack")
        return value


def _whole_number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise SettingsError(f"{name}={text!r} must be a whole number of at least 1")
    return number


_given: Settings | None = None
_found: Settings | None = None


def current() -> Settings:
    """Return the settings in force: given ones, else those of the environment, read once."""
    global _found  # noqa: PLW0603 - a process has one environment
    if _given is not None:
        return _given
    if _found is None:
        _found = Settings.from_environment()
    return _found


@contextmanager
def using(settings: Settings) -> Iterator[Settings]:
    """Let `settings` be in force for the whole process until the block ends."""
    global _given  # noqa: PLW0603 - one deployment per process, whatever the thread
    before, _given = _given, settings
    try:
        yield settings
    finally:
        _given = before
