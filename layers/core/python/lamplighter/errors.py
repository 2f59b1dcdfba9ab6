"""The errors of the library, named by who acts next.

    LamplighterError
    └── DefinitionError          an author mends a DAG file
        ├── InvalidTimetableError    the schedule itself is wrong
        │   └── NoTickError              it has no instant where one was asked for
        └── SerializationError       a definition that cannot be written down or read back

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
