"""Renders the templates of a task: a bounded part of Jinja in which an undefined name is an error.

Owns: the variables of templates, and what one rendering may cost: `template_rules` bounds what the
text can ask for, and here every operation is charged for the size of what it is given, which bounds
the rest. The variables are Airflow's; for those that Airflow removed, the error names the
replacement.
"""

import datetime
import functools
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextvars import ContextVar
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from jinja2 import StrictUndefined, Template, Undefined, nodes, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.filters import do_join
from jinja2.nodes import EvalContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import htmlsafe_json_dumps, missing
from jinja2.visitor import NodeTransformer
from pendulum import DateTime, Interval

from lamplighter.dags.template_rules import (
    FILTERS,
    OUTPUTS,
    TESTS,
    check_format,
    check_template,
    did_you_mean,
    steps_named,
    undeclared,
    with_keys,
)
from lamplighter.errors import DefinitionError, in_short
from lamplighter.timetables.simple import AssetTriggeredTimetable
from lamplighter.zones import UTC, iso

if TYPE_CHECKING:
    from lamplighter.dags.task import Task

_T = TypeVar("_T")

MAX_TEMPLATE = 10_000
MAX_RENDERED = 65_536  # bytes
# What one rendering may cost: an element, sixteen characters or one round of a loop is a step.
_MAX_STEPS = 100_000
_CHARACTERS_A_STEP = 16
_MAX_BITS = 4_096
_LONGEST_FORMAT = 100
# Searching for long texts may take the product of the lengths.
_LONGEST_ARGUMENT = 1_000

GONE = {
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
    """An undefined name; using it raises an error with the reason."""

    @property
    def _undefined_message(self) -> str:
        # Of a variable, not of an attribute.
        name = self._undefined_name if self._undefined_obj is missing else None
        if name in GONE:
            return f"{name!r} is gone: write {GONE[name]}"
        if name in _DATED:
            return (
                f"{name!r} has no value, because the run has no logical date: use dag_run.run_after"
                " or triggering_asset_events"
            )
        return str(super()._undefined_message)


# What a rendering costs.


class _Steps:
    """The steps that a rendering has left."""

    def __init__(self) -> None:
        self.left = _MAX_STEPS

    def take(self, value: object, *, times: int = 1, rounds: int = 0) -> None:
        """Take the steps that an operation on `value` costs."""
        self.left -= rounds
        if self.left >= 0 and times > 0:
            self.left -= times * _size(value, self.left // times + 1)
        if self.left < 0:
            raise SecurityError(f"it takes more than {_MAX_STEPS:,} steps")


# Of the rendering in progress. Jinja asks for attributes without saying for which template.
_steps: ContextVar[_Steps] = ContextVar("_steps")


def _size(value: object, limit: int) -> int:
    """Return the size of a value in steps, as far as it matters."""
    size = 0
    rest: list[object] = [value]
    while rest and size <= limit:
        each = rest.pop()
        size += 1
        match each:
            case str():
                size += len(each) // _CHARACTERS_A_STEP
            case int():
                size += each.bit_length() // _CHARACTERS_A_STEP
            case dict():
                rest += [*each, *each.values()]
            case SimpleNamespace():
                rest += vars(each).values()
            case Interval():  # going through it means going through its days
                size += 10 * abs(each.days)
            case Undefined():
                pass
            case list() | tuple() | range() | set() | KeysView() | ValuesView() | ItemsView():
                rest.extend(each)
    return size


def _charge(value: Any) -> Any:
    """Return a value after its steps have been taken; lazy ones are evaluated."""
    if isinstance(value, Iterator):
        value = list(islice(value, _MAX_STEPS + 1))
    _steps.get().take(value)
    return value


def _charge_loop(value: Any, weight: int) -> Any:
    """Return what a loop goes over, after the steps of all its rounds have been taken."""
    items = list(islice(value, _MAX_STEPS + 1))
    _steps.get().take(items, rounds=len(items) * weight)
    return items


# Names that no template can spell.
_CHARGE, _CHARGE_LOOP = " charge", " charge loop"


class _Charging(NodeTransformer):
    """Has everything charged that an operation is given; arithmetic and calls do so themselves."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - Jinja's naming
        weight = sum(1 for part in (*node.body, node) for _ in part.find_all(nodes.Node))
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _CHARGE_LOOP, nodes.Const(weight))
        return node

    def visit_Filter(self, node: nodes.Filter) -> nodes.Filter:  # noqa: N802 - as above
        self._charge_operands(node)
        return node

    def visit_Test(self, node: nodes.Test) -> nodes.Test:  # noqa: N802 - as above
        self._charge_operands(node)
        return node

    def _charge_operands(self, node: Any) -> None:
        self.generic_visit(node)
        node.node = _filtered(node.node, _CHARGE)
        node.args = [_filtered(arg, _CHARGE) for arg in node.args]
        for keyword in node.kwargs:
            keyword.value = _filtered(keyword.value, _CHARGE)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Compare:  # noqa: N802 - as above
        self.generic_visit(node)
        node.expr = _filtered(node.expr, _CHARGE)
        for operand in node.ops:
            operand.expr = _filtered(operand.expr, _CHARGE)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Concat:  # noqa: N802 - as above
        self.generic_visit(node)
        node.nodes = [_filtered(part, _CHARGE) for part in node.nodes]
        return node


def _filtered(node: Any, name: str, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


class _Sandbox(ImmutableSandboxedEnvironment):
    """Sandboxed Jinja in which arithmetic, calls and attributes are charged, too."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        _charge((left, right))
        if operator == "%" and isinstance(left, str):
            check_format(left)
            _steps.get().take(right, times=left.count("%"))
        if operator == "*":
            _refuse_repetition(left, right)
        return super().call_binop(context, operator, left, right)

    def getitem(self, obj: Any, argument: Any) -> Any:
        _charge(argument)
        return super().getitem(obj, argument)

    def getattr(self, obj: Any, attribute: str) -> Any:
        _charge(attribute)
        if attribute == "format" and isinstance(obj, str):
            check_format(obj)
        return super().getattr(obj, attribute)

    def call(self, context: Any, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # The sandbox replaces the method `format` of texts by one that wraps it.
        of = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        given, name = [*args, *kwargs.values()], getattr(function, "__name__", "")
        _charge(given if isinstance(of, Mapping) else [of, *given])
        if isinstance(of, str) and name == "format":
            _steps.get().take(given, times=of.count("{"))
        elif any(isinstance(each, str) and len(each) > _LONGEST_ARGUMENT for each in given):
            raise SecurityError(f"an argument has at most {_LONGEST_ARGUMENT:,} characters")
        elif isinstance(of, str) and name == "join":
            args = (_joined(args[0], of),)
        elif isinstance(of, str) and name == "replace":
            _take_replaced(of, args[0], args[1])
        return super().call(context, function, *args, **kwargs)


def _refuse_repetition(left: object, right: object) -> None:
    bits = 0
    for value in (left, right):
        if not isinstance(value, int | float | datetime.timedelta):
            raise SecurityError("a text or list cannot be repeated with '*'")
        bits += value.bit_length() if isinstance(value, int) else 0
    if bits > _MAX_BITS:
        raise SecurityError("the product would be too large")


def _joined(items: Iterable[Any], separator: str) -> list[Any]:
    found = list(items)
    _steps.get().take(separator, times=len(found))
    return found


def _take_replaced(text: str, old: str, new: str) -> None:
    _steps.get().take(new, times=text.count(old))


# Filters of Jinja's whose arguments say how much they produce.


@pass_eval_context
def _join(context: EvalContext, value: Iterable[Any], d: str = "", attribute: Any = None) -> str:
    return str(do_join(context, _joined(value, str(d)), d, attribute))


def _replace(s: object, old: object, new: object) -> str:
    text, old, new = str(s), str(old), str(new)
    _take_replaced(text, old, new)
    return text.replace(old, new)


def _round(value: float, precision: int = 0) -> float:
    # Python would compute the power of ten of any precision.
    return round(float(value), max(-_LONGEST_FORMAT, min(precision, _LONGEST_FORMAT)))


def _sum(value: Iterable[Any]) -> Any:
    return sum(value)  # never from a list on, which would be copied for every element


def _tojson(value: Any) -> str:
    return str(htmlsafe_json_dumps(value))


def _trim(value: object) -> str:
    return str(value).strip()


_BOUNDED: dict[str, Callable[..., Any]] = {
    "join": _join,
    "replace": _replace,
    "round": _round,
    "sum": _sum,
    "tojson": _tojson,
    "trim": _trim,
}


# The variables.

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
    """Return a date plus a number of days."""
    return _FILTERS["ds"](datetime.datetime.fromisoformat(date) + datetime.timedelta(days=days))


def ds_format(date: str, before: str, after: str) -> str:
    """Return a date in another format."""
    if len(before) > _LONGEST_FORMAT:
        raise ValueError(f"a format has at most {_LONGEST_FORMAT} characters")
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
    """Return the variables that need a logical date."""
    if logical_date is None:
        return {}
    names: dict[str, Any] = {name: make(logical_date) for name, make in _FILTERS.items()}
    names["logical_date"] = logical_date
    if start is not None and end is not None:
        names |= {"data_interval_start": start, "data_interval_end": end}
        names |= {"next_ds": _FILTERS["ds"](end), "next_ds_nodash": _FILTERS["ds_nodash"](end)}
    return names


# Always there; the dates are for runs that have one.
_ALWAYS = frozenset(
    {"conf", "dag", "dag_run", "inlets", "macros", "outlets", "params", "partition_key", "run_id"}
    | {OUTPUTS, "task", "task_instance", "ti", "triggering_asset_events", "var"}
)
VARIABLES = _ALWAYS | _DATED


def _finalize(value: object) -> object:
    # An undefined name must reach Jinja unchanged, to be reported.
    if isinstance(value, Undefined):
        return value
    return iso(value) if isinstance(value, datetime.datetime) else _charge(value)


@functools.cache
def _environment() -> _Sandbox:
    environment = _Sandbox(
        undefined=_Missing, finalize=_finalize, autoescape=False, optimized=False
    )
    every = environment.filters | _FILTERS | _BOUNDED
    environment.filters = {name: every[name] for name in FILTERS}
    environment.filters |= {_CHARGE: _charge, _CHARGE_LOOP: _charge_loop}
    environment.tests = {name: environment.tests[name] for name in TESTS}
    environment.globals = {"range": range}
    return environment


# Checking and rendering.


def check_task(task: "Task") -> None:
    """Refuse templates that a task may not have; names without a value are among them."""
    for what, text in _templates_of(task):
        check_text(text, what=what)


def check_text(text: str, *, what: str) -> None:
    """Refuse a template that no task may have."""
    for name in _without_value(text, what):
        problem = f"{name!r} is not a variable of templates{did_you_mean(name, VARIABLES)}"
        if name in GONE:
            problem = f"{name!r} is gone: write {GONE[name]}"
        raise DefinitionError(f"{what}: {text[:200]!r}: {problem}")


def try_task(task: "Task") -> Iterator[str]:
    """Yield what is wrong with the templates of a task, as far as sample values can tell."""
    names = _sample(task)
    for what, text in _templates_of(task):
        used = {name.name for name in _parse(text, what).find_all(nodes.Name)}
        # What else a run is given is only known when it is.
        if used & VARIABLES <= names.keys() | _DATED:
            try:
                render(text, names, what=what)
            except DefinitionError as error:
                yield f"DAG {task.dag.dag_id!r}: {error} (with sample values)"


def steps_read(task: "Task") -> set[str]:
    """Return the steps whose outputs the templates of a task read."""
    read = (
        steps_named(_parse(text, what)) for what, text in _templates_of(task) if OUTPUTS in text
    )
    return set().union(*read)


def _sample(task: "Task") -> dict[str, Any]:
    dag = task.dag
    start = dag.start_date or DateTime(2026, 1, 1, tzinfo=UTC)
    is_undated = dag.timetable.partitioned or type(dag.timetable) is AssetTriggeredTimetable
    step = SimpleNamespace(dag_id=dag.dag_id, run_id="run", task_id=task.task_id, try_number=1)
    return {
        **dict.fromkeys(("ti", "task_instance", "task", "dag"), step),
        "run_id": step.run_id,
        **({} if is_undated else dated(start, start, start.add(days=1))),
        "macros": MACROS,
        # Without a default, only a run has the value.
        **({"params": dag.params} if dag.param_schemas.keys() <= dag.params.keys() else {}),
    }


def _templates_of(task: "Task") -> Iterator[tuple[str, str]]:
    what = f"task {task.task_id!r}"
    yield from ((f"{what}: {where}", text) for where, text in task.templates() if "{" in text)


def render(text: str, names: Mapping[str, Any], *, what: str) -> str:
    """Return a rendered template; errors begin with `what`."""
    if "{" not in text:
        return text
    # Checked again: what was stored before the rules were stricter must not run either.
    parsed = _parse(text, what)
    token = _steps.set(_Steps())
    try:
        return _rendered(parsed, names)
    except Exception as error:  # author code may raise anything
        raise _error(what, text, error) from error
    finally:
        _steps.reset(token)


def _parse(text: str, what: str) -> nodes.Template:
    return _tried(_parsed, text, what)


def _without_value(text: str, what: str) -> tuple[str, ...]:
    return _tried(_undeclared, text, what)


def _tried(act: Callable[[str], _T], text: str, what: str) -> _T:
    if len(text) > MAX_TEMPLATE:
        raise DefinitionError(f"{what}: a template has at most {MAX_TEMPLATE:,} characters")
    try:
        return act(text)
    except Exception as error:  # as above
        raise _error(what, text, error) from error


def _parsed(text: str) -> nodes.Template:
    parsed = with_keys(_environment().parse(text))
    check_template(parsed, VARIABLES)
    steps_named(parsed)
    return parsed


# The DAGs of a push often have the same texts. What is rendered is parsed anew: rendering changes
# what was parsed.
@functools.lru_cache(maxsize=256)
def _undeclared(text: str) -> tuple[str, ...]:
    return tuple(undeclared(_parsed(text), VARIABLES))


def _error(what: str, text: str, error: Exception) -> DefinitionError:
    problem = " ".join(in_short(error).split()) or type(error).__name__
    return DefinitionError(f"{what}: {text[:200]!r}: {problem}")


def _rendered(parsed: nodes.Template, names: Mapping[str, Any]) -> str:
    environment = _environment()
    charged = _Charging().visit(parsed)
    charged.set_environment(environment)
    template = Template.from_code(environment, environment.compile(charged), environment.globals)
    parts: list[str] = []
    size = 0
    for part in template.generate(names):
        parts.append(part)
        size += len(part.encode("utf-8", "surrogatepass"))
        if size > MAX_RENDERED:
            raise DefinitionError(f"it becomes more than {MAX_RENDERED:,} bytes")
    return "".join(parts)
