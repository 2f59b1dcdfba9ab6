"""The errors of the library, named by who acts next.

    LamplighterError
    ├── DefinitionError          an author mends a DAG file
    │   ├── InvalidTimetableError    the schedule itself is wrong
    │   │   └── NoTickError              it has no instant where one was asked for
    │   └── SerializationError       a definition that cannot be written down or read back
    ├── SettingsError            an operator mends the environment of a process
    ├── RefusedError             someone asked for what the state does not allow
    ├── RejectedError            a producer mends what it sends
    ├── TransientError           nobody acts: the same call may succeed later
    │   ├── ThrottledError           too many calls: nothing has happened, the pace must fall
    │   └── NewerFormError           a newer release has written this: an upgrade is under way
    └── PermanentError           an operator acts: the same call will never succeed

A definition error is also a `ValueError`, so that code written against Airflow, which raises that,
catches it unchanged.
"""


class LamplighterError(Exception):
    """Root of everything this library raises on purpose."""


class DefinitionError(LamplighterError, ValueError):
    """A definition is wrong; the message names the thing and what to write instead."""


class InvalidTimetableError(DefinitionError):
    """A timetable cannot be used: bad cron text, a delta that does not move forward, and so on."""


class NoTickError(InvalidTimetableError):
    """A schedule has no tick in the direction asked: past its last year, or at no date at all."""


class SerializationError(DefinitionError):
    """A definition does not fit the document format, or a document is not one we can read."""


class SettingsError(LamplighterError):
    """The environment lacks a value, or has one that cannot be used."""


class RefusedError(LamplighterError):
    """What was asked for is not possible as things stand: no such DAG, a run that exists."""


class RejectedError(LamplighterError):
    """A message from outside can never be taken as it is; the text says why, to its sender."""


class TransientError(LamplighterError):
    """A service was busy or out of reach; whoever delivered the work delivers it again."""


class ThrottledError(TransientError):
    """A service refused a call because of its rate; the call had no effect."""


class NewerFormError(TransientError):
    """A newer release has written this form: it is refused, untouched, until this code is newer."""

    def __init__(self, what: str, found: object, known: int) -> None:
        super().__init__(
            f"{what} has version {found!r}, and this release reads {known}: upgrade lamplighter, or"
            " wait until the upgrade that is under way is complete"
        )


class PermanentError(LamplighterError):
    """A service refuses what it was asked for, and will again: a mistake of ours, or no right."""


class MalformedRowError(PermanentError):
    """A row holds what no version of this library writes: someone edited it, or it was damaged."""


# All that code may raise which takes data from elsewhere for what it claims to be.
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

_MAX_LENGTH = 1_000


def readable(text: str) -> str:
    """Return a text that can be stored: JSON may contain lone surrogates, UTF-8 may not."""
    return text.encode(errors="replace").decode()


def in_short(error: object) -> str:
    """Return an error as a row can hold it: a sentence, and not a novel, in whole characters."""
    message = readable(str(error))
    return message if len(message) <= _MAX_LENGTH else f"{message[:_MAX_LENGTH]}…"
