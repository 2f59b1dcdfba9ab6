"""Fills in the templates of a task: Jinja in a sandbox, where a name without a value is an error.

Owns: the names that templates know. They are Airflow's; those that Airflow has dropped give an
error that says what to write instead.
"""

import datetime
import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, Undefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from pendulum import DateTime

from lamplighter.errors import DefinitionError, in_short
from lamplighter.zones import iso

MAX_TEMPLATE = 10_000
MAX_RENDERED = 100_000
# A text, list or number beyond this has not been made by a template in earnest.
_MOST = 10_000
_WIDTH = re.compile(r"\{[^{}]*\d{5}")
_PERCENT_WIDTH = re.compile(r"%[^%a-zA-Z]*(\d{5}|\*)")
# Filters and functions that make long texts out of short ones.
_LEFT_OUT = frozenset({"center", "format", "indent", "wordwrap", "lipsum", "cycler", "joiner"})

_GONE = {
    "execution_date": "logical_date",
    "next_execution_date": "data_interval_end",
    "prev_execution_date": "data_interval_start.subtract(…)",
    "prev_ds": "macros.ds_add(ds, -1)",
    "prev_ds_nodash": "macros.ds_add(ds, -1) | replace('-', '')",
    "tomorrow_ds": "macros.ds_add(ds, 1)",
    "tomorrow_ds_nodash": "macros.ds_add(ds, 1) | replace('-', '')",
    "yesterday_ds": "macros.ds_add(ds, -1)",
    "yesterday_ds_nodash": "macros.ds_add(ds, -1) | replace('-', '')",
    "conn": "a role or a secret that the job itself asks for",
}


class _Missing(StrictUndefined):
    """A name without a value; using it says why it has none."""

    @property
    def _undefined_message(self) -> str:
        # Of a name, not of an attribute of something.
        name = self._undefined_name if self._undefined_obj is missing else None
        if name in _GONE:
            return f"{name!r} is gone: write {_GONE[name]}"
        if name in _DATED:
            return (
                f"{name!r} has no value, because the run has no logical date: use dag_run.run_after"
                " or triggering_asset_events"
            )
        return str(super()._undefined_message)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without a way out, and without texts and numbers that fill the memory."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if _size_of(operator, left, right) > _MOST:
            raise SecurityError(f"the result of {operator!r} would be too large")
        return super().call_binop(context, operator, left, right)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if attribute in {"format", "format_map"} and isinstance(obj, str) and _WIDTH.search(obj):
            raise SecurityError("the width of a format is too large")
        return super().getattr(obj, attribute)

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        is_of_text = isinstance(getattr(function, "__self__", None), str)
        is_format = getattr(function, "__name__", "") in {"format", "format_map", "wrapper"}
        if is_of_text or is_format:  # a number is a width here, or may become one
            for value in (*args, *kwargs.values()):
                if isinstance(value, int) and abs(value) > _MOST:
                    raise SecurityError(f"{value} is too large for a text")
        return super().call(context, function, *args, **kwargs)


def _size_of(operator: str, left: Any, right: Any) -> float:
    """Return how long a text or list would be, or how many digits a number would have."""
    if operator == "%":
        return _MOST + 1 if isinstance(left, str) and _PERCENT_WIDTH.search(left) else 0
    if operator == "**":
        return _digits(left) * (abs(right) if isinstance(right, int | float) else 1)
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, str | list | tuple):
            return len(sequence) * (abs(count) if isinstance(count, int) else 1)
    return _digits(left) + _digits(right)


def _digits(value: object) -> float:
    return value.bit_length() if isinstance(value, int) else 0


_FILTERS: dict[str, Callable[[datetime.datetime], str]] = {
    "ds": lambda value: f"{value:%Y-%m-%d}",
    "ds_nodash": lambda value: f"{value:%Y%m%d}",
    "ts": lambda value: value.isoformat(),
    "ts_nodash": lambda value: f"{value:%Y%m%dT%H%M%S}",
    "ts_nodash_with_tz": lambda value: f"{value:%Y%m%dT%H%M%S%z}",
}
_OF_INTERVAL = ("data_interval_start", "data_interval_end", "next_ds", "next_ds_nodash")
_DATED = frozenset({"logical_date", *_FILTERS, *_OF_INTERVAL})


def ds_add(date: str, days: int) -> str:
    """Return the date so many days after another one."""
    return _FILTERS["ds"](datetime.datetime.fromisoformat(date) + datetime.timedelta(days=days))


def ds_format(date: str, before: str, after: str) -> str:
    """Return a date in another format."""
    parsed = datetime.datetime.strptime(date, before)  # noqa: DTZ007 - a date has no zone
    return parsed.strftime(after)


MACROS: Mapping[str, Any] = {
    "ds_add": ds_add,
    "ds_format": ds_format,
    "timedelta": datetime.timedelta,
}


def dated(
    logical_date: DateTime | None, start: DateTime | None, end: DateTime | None
) -> dict[str, Any]:
    """Return the names that only a run with a logical date has."""
    if logical_date is None:
        return {}
    names: dict[str, Any] = {name: make(logical_date) for name, make in _FILTERS.items()}
    names["logical_date"] = logical_date
    if start is not None and end is not None:
        names |= {"data_interval_start": start, "data_interval_end": end}
        names |= {"next_ds": _FILTERS["ds"](end), "next_ds_nodash": _FILTERS["ds_nodash"](end)}
    return names


def _finalize(value: object) -> object:
    # An undefined name must reach Jinja as it is, to be refused.
    if isinstance(value, datetime.datetime) and not isinstance(value, Undefined):
        return iso(value)
    return value


@functools.cache
def _environment() -> _Sandbox:
    environment = _Sandbox(undefined=_Missing, finalize=_finalize, autoescape=False)
    environment.filters |= _FILTERS
    for known in (environment.filters, environment.globals):
        for name in _LEFT_OUT & known.keys():
            del known[name]
    return environment


def render(text: str, names: Mapping[str, Any], *, what: str) -> str:
    """Return a template filled in; an error names `what` it is and what is wrong with it."""
    if "{" not in text:
        return text
    if len(text) > MAX_TEMPLATE:
        raise DefinitionError(f"{what}: a template has at most {MAX_TEMPLATE:,} characters")
    try:
        rendered = _environment().from_string(text).render(names)
    except Exception as error:  # an author's code may raise anything
        raise DefinitionError(f"{what}: {text[:200]!r}: {in_short(error)}") from error
    if len(rendered) > MAX_RENDERED:
        raise DefinitionError(f"{what}: {text[:200]!r} becomes {len(rendered):,} characters")
    return rendered
