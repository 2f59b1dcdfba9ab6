"""Values of expressions that can be known without running anything.

Owns a small list of harmless constructors; whatever is not on it has no known value.
"""

import ast
import datetime
import zoneinfo
from collections.abc import Callable
from typing import Any

import pendulum
from dateutil.relativedelta import relativedelta

from lamplighter.errors import LamplighterError
from lamplighter.timetables import events, interval, simple, trigger
from lamplighter_cli.adopt.names import last_part
from lamplighter_cli.adopt.source import Names

_MAX_NUMBER = 10**9
_MAX_DEPTH = 20


class UnknownValueError(Exception):
    """The value is only known when the file runs."""


def _pytz(name: str) -> Any:
    return pendulum.timezone(name)


_CALLS: dict[str, Callable[..., Any]] = {
    "datetime.datetime": datetime.datetime,
    "datetime.timedelta": datetime.timedelta,
    "datetime.timezone": datetime.timezone,
    "datetime.date": datetime.date,
    "pendulum.datetime": pendulum.datetime,
    "pendulum.duration": pendulum.duration,
    "pendulum.timezone": pendulum.timezone,
    "pendulum.tz.timezone": pendulum.timezone,
    "zoneinfo.ZoneInfo": zoneinfo.ZoneInfo,
    "pytz.timezone": _pytz,
    "dateutil.relativedelta.relativedelta": relativedelta,
    "airflow.utils.timezone.datetime": pendulum.datetime,
    "airflow.sdk.timezone.datetime": pendulum.datetime,
}
_VALUES: dict[str, Any] = {
    "datetime.timezone.utc": datetime.UTC,
    "datetime.UTC": datetime.UTC,
    "pytz.utc": datetime.UTC,
    "pytz.UTC": datetime.UTC,
    "pendulum.UTC": datetime.UTC,
    "airflow.utils.timezone.utc": datetime.UTC,
}
_TIMETABLES: dict[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        events.EventsTimetable,
        interval.CronDataIntervalTimetable,
        interval.DeltaDataIntervalTimetable,
        simple.ContinuousTimetable,
        simple.NullTimetable,
        simple.OnceTimetable,
        trigger.CronTriggerTimetable,
        trigger.DeltaTriggerTimetable,
        trigger.MultipleCronTriggerTimetable,
    )
}


class Constants:
    """The names of a file that are given a value once, at its top level."""

    def __init__(self, tree: ast.Module, names: Names) -> None:
        self._names = names
        self.nodes: dict[str, ast.expr] = {}
        stored = [
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        ]
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    pass
                case _:
                    continue
            if stored.count(name) == 1:
                self.nodes[name] = value

    def node(self, node: ast.expr | None) -> ast.expr | None:
        """Return the expression that a name stands for, or the expression itself."""
        for _ in range(10):
            if not isinstance(node, ast.Name) or node.id not in self.nodes:
                break
            node = self.nodes[node.id]
        return node

    def value(self, node: ast.expr | None) -> Any:
        """Return the value of an expression, or raise `UnknownValueError`."""
        try:
            return self._value(node, 0)
        except UnknownValueError:
            raise
        except (ValueError, TypeError, ArithmeticError, LookupError, LamplighterError) as error:
            raise UnknownValueError(str(error)) from error

    def value_or(self, node: ast.expr | None, default: Any = None) -> Any:
        """Return the value of an expression, or a default."""
        try:
            return self.value(node)
        except UnknownValueError:
            return default

    def text(self, node: ast.expr | None) -> str | None:
        """Return the value of an expression if it is a text."""
        value = self.value_or(node)
        return value if isinstance(value, str) else None

    def _value(self, node: ast.expr | None, depth: int) -> Any:  # noqa: C901 - one case for each kind
        if depth > _MAX_DEPTH or node is None:
            raise UnknownValueError("nested too deeply")
        inner = depth + 1
        match node:
            case ast.Constant(value=value):
                return value
            case ast.List(elts=elements):
                return [self._value(each, inner) for each in elements]
            case ast.Tuple(elts=elements):
                return tuple(self._value(each, inner) for each in elements)
            case ast.Dict(keys=keys, values=values):
                return {
                    self._value(key, inner): self._value(value, inner)
                    for key, value in zip(keys, values, strict=True)
                }
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._value(operand, inner)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._binary(operator, self._value(left, inner), self._value(right, inner))
            case ast.JoinedStr(values=parts):
                return "".join(self._part(part, inner) for part in parts)
            case ast.Name(id=name) if name in self.nodes:
                return self._value(self.nodes[name], inner)
            case ast.Call():
                return self._call(node, inner)
        path = self._names.path(node)
        if path in _VALUES:
            return _VALUES[path]
        raise UnknownValueError(ast.dump(node)[:40])

    def _part(self, node: ast.expr, depth: int) -> str:
        if isinstance(node, ast.FormattedValue) and node.format_spec is None:
            return str(self._value(node.value, depth))
        if isinstance(node, ast.Constant):
            return str(node.value)
        raise UnknownValueError("a format")

    def _binary(self, operator: ast.operator, left: Any, right: Any) -> Any:
        numbers = int | float | datetime.timedelta | datetime.datetime
        for value in (left, right):
            if isinstance(value, int | float) and abs(value) > _MAX_NUMBER:
                raise UnknownValueError("a large number")
        if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if not (isinstance(left, numbers) and isinstance(right, numbers)):
            raise UnknownValueError("an operation")
        match operator:
            case ast.Add():
                return left + right  # type: ignore[operator] # a TypeError is caught
            case ast.Sub():
                return left - right  # type: ignore[operator] # as above
            case ast.Mult():
                return left * right  # type: ignore[operator] # as above
        raise UnknownValueError("an operator")

    def _call(self, node: ast.Call, depth: int) -> Any:
        path = self._names.path(node.func)
        made = _CALLS.get(path or "")
        if made is None and path is not None and path.startswith("airflow."):
            made = _TIMETABLES.get(last_part(path))
        if made is None:
            raise UnknownValueError("a call")
        arguments = [self._value(each, depth) for each in node.args]
        keywords = {each.arg: self._value(each.value, depth) for each in node.keywords}
        if None in keywords:
            raise UnknownValueError("**")
        return made(*arguments, **{str(name): value for name, value in keywords.items()})
