"""What people hand to a deployment, read: instants, durations, executors."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pendulum import DateTime

from lamplighter.errors import RefusedError
from lamplighter.executors import Executor
from lamplighter.zones import as_utc, parse_instant

Instant = datetime | str

_METHODS = ("start", "find", "describe", "cancel", "read_event", "log_uri", "read_log")
_FACTS = ("name", "min_timeout")


def as_instant(value: Instant) -> DateTime:
    """Return an instant in UTC; one without an offset is taken as UTC."""
    if isinstance(value, str):
        return parse_instant(value)
    if not isinstance(value, datetime):
        raise RefusedError(f"{value!r} is not an instant: give a datetime, or 2026-01-31T06:00:00Z")
    return as_utc(value)


def as_duration(what: str, parts: Mapping[str, float]) -> timedelta:
    """Return the duration that keyword arguments of `what` make."""
    try:
        return timedelta(**parts)
    except (OverflowError, TypeError, ValueError) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in parts.items())
        raise RefusedError(
            f"{what}: {given} is not a duration: use numbers of days=, hours=, minutes=, seconds="
        ) from error


def require_executor(value: object) -> Executor:
    """Return an executor, or say what something lacks to be one."""
    missing = [name for name in _METHODS if not callable(getattr(value, name, None))]
    missing += [name for name in _FACTS if not hasattr(value, name)]
    if missing:
        raise RefusedError(f"executor={value!r} is not an Executor: it has no {', '.join(missing)}")
    executor: Executor = value  # type: ignore[assignment] # it has what an executor has
    return executor
