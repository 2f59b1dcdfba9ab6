"""The errors of a job, and the one exception that is none: `SkipStep`."""

from __future__ import annotations


class SkipStep(Exception):
    """Raised by a program that finds nothing to do: its step is skipped, and emits no events."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class JobError(Exception):
    """Root of the errors that this package raises on purpose."""


class ContextError(JobError):
    """The context cannot be read, or lacks what was asked of it."""


class SecretError(JobError):
    """A secret cannot be read; the message never has its value."""


class ProgramError(JobError):
    """The program that a task names is not in its bundle."""


class ReportError(JobError):
    """What a program wants to report does not fit into a report."""
