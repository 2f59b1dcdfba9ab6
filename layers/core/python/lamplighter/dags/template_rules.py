"""Which part of Jinja templates may use: a part whose cost their text bounds.

Owns: what is refused before anything is rendered. Nothing here is a list of dangers: what is not
listed as harmless is refused, so that a new version of Jinja adds nothing by itself.
"""

import difflib
import math
import re
from collections.abc import Collection, Iterable, Iterator

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from lamplighter.errors import DefinitionError

_MAX_RANGE = 1_000
_MAX_DEPTH = 40

_ALLOWED: frozenset[type[nodes.Node]] = frozenset(
    {
        *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign),
        *(nodes.Const, nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Slice),
        *(nodes.Filter, nodes.Test, nodes.Call, nodes.Keyword),
        *(nodes.Compare, nodes.Operand, nodes.CondExpr, nodes.And, nodes.Or, nodes.Not),
        *(nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod),
        *(nodes.Neg, nodes.Pos, nodes.Concat),
        *(nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair),
    }
)
_IN_JINJA = {"Pow": "**", "Assign": "set", "AssignBlock": "set … endset", "CallBlock": "call"}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FILTERS = _words(
    """
    abs capitalize count d default dictsort first float int items join last length list lower map
    max min reject rejectattr replace reverse round select selectattr sort string sum title tojson
    trim truncate unique upper urlencode wordcount
    ds ds_nodash ts ts_nodash ts_nodash_with_tz
    """
)
TESTS = _words(
    """
    != < <= == > >= boolean defined divisibleby eq equalto even false float ge greaterthan gt
    integer iterable le lessthan lower lt mapping ne none number odd sameas sequence string true
    undefined upper
    """
)
_METHODS = _words(
    """
    capitalize count endswith find format index isalnum isalpha isdigit islower isnumeric isupper
    join lower lstrip partition removeprefix removesuffix replace rsplit rstrip split splitlines
    startswith strip title upper
    get items keys values cycle
    add at date diff end_of first_of in_timezone in_tz isocalendar isoformat isoweekday last_of on
    set start_of strftime subtract time timestamp to_date_string to_datetime_string
    to_iso8601_string to_rfc3339_string to_time_string weekday
    in_days in_hours in_minutes in_months in_seconds in_weeks in_years total_days total_hours
    total_minutes total_seconds total_weeks
    """
)
MACROS = frozenset({"ds_add", "ds_format", "timedelta"})
# What a run was given: a loop may go over it, and over what is in it.
_LISTS = frozenset(
    {"params", "conf", "dag_run", "triggering_asset_events", "inlets", "outlets", "outputs", "var"}
)
# Filters and methods whose results are no longer than what they are given.
_KEEPING = frozenset({"d", "default", "dictsort", "items", "list", "reverse", "sort", "unique"})
_READING = frozenset({"get", "items", "keys", "values"})

# A width of three digits, one that is computed, or one inside another.
_WIDTH = re.compile(r"\{[^{}]*(\d{3}|\{)")
_PERCENT_WIDTH = re.compile(r"%[^%a-zA-Z]*(\d{3}|\*)")


def check_template(template: nodes.Template, declared: Collection[str]) -> None:
    """Refuse a parsed template that uses more than it may."""
    _check(template, declared, loops=(), depth=0)


def undeclared(template: nodes.Template, declared: Collection[str]) -> list[str]:
    """Return the names that a template uses, and that nothing gives a value."""
    names = list(template.find_all(nodes.Name))
    known = {*declared, "loop", "range"} | {name.name for name in names if name.ctx == "store"}
    optional = {id(node.node) for node in _with_default(template)}
    used = [name.name for name in names if name.ctx == "load" and id(name) not in optional]
    return [name for name in dict.fromkeys(used) if name not in known]


def _with_default(template: nodes.Template) -> Iterator[nodes.Filter | nodes.Test]:
    """Yield the filters and tests that need no value."""
    yield from (each for each in template.find_all(nodes.Filter) if each.name in {"d", "default"})
    wanted = {"defined", "undefined"}
    yield from (each for each in template.find_all(nodes.Test) if each.name in wanted)


def check_format(text: str) -> None:
    """Refuse a text whose formatting would fill it up with blanks."""
    if _WIDTH.search(text) or _PERCENT_WIDTH.search(text):
        raise DefinitionError("the width of a format has two digits at most")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a hint at the most similar of some names, if one is."""
    near = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _check(
    node: nodes.Node, declared: Collection[str], *, loops: tuple[nodes.For, ...], depth: int
) -> None:
    if depth > _MAX_DEPTH:
        raise DefinitionError(f"it is nested more than {_MAX_DEPTH} levels deep")
    if type(node) not in _ALLOWED:
        kind = type(node).__name__
        raise DefinitionError(
            f"{_IN_JINJA.get(kind, kind.lower())!r} is not for templates of tasks"
        )
    if isinstance(node, nodes.For):
        loops = (*loops, node)
    _check_node(node, declared, loops)
    for child in node.iter_child_nodes():
        _check(child, declared, loops=loops, depth=depth + 1)


def _check_node(node: nodes.Node, declared: Collection[str], loops: tuple[nodes.For, ...]) -> None:
    match node:
        case nodes.For():
            _check_loop(node, loops)
        case nodes.Filter():
            _require("filter", node.name, FILTERS)
            _refuse_stars(node)
        case nodes.Test():
            _require("test", node.name, TESTS)
            _refuse_stars(node)
        case nodes.Call():
            _check_call(node)
        case nodes.Mul() if any(map(_is_sequence, (node.left, node.right))):
            raise DefinitionError("a text or list cannot be repeated with '*'")
        case nodes.Mod(left=nodes.Const(value=str(text))):
            check_format(text)
        case nodes.Name(ctx="store", name=name) if name in declared:
            raise DefinitionError(f"{name!r} is a variable of every template: take another name")
        case nodes.Assign():
            _check_set(node)


_CONTAINERS = (nodes.List, nodes.Tuple, nodes.Dict)


def _check_set(node: nodes.Assign) -> None:
    """Refuse to name a list of other values: lists of lists of it would be endless."""
    inside = [node.node, *node.node.find_all(_CONTAINERS)]
    if not all(map(_is_constant, (each for each in inside if isinstance(each, _CONTAINERS)))):
        raise DefinitionError("'set' takes lists and mappings of constants only")


def _is_constant(node: nodes.Node) -> bool:
    inner = (nodes.Const, nodes.Pair, nodes.Neg, *_CONTAINERS)
    return isinstance(node, inner) and all(map(_is_constant, node.iter_child_nodes()))


def _is_sequence(node: nodes.Node) -> bool:
    if isinstance(node, nodes.Const):
        return isinstance(node.value, str)
    return isinstance(node, nodes.List | nodes.Tuple | nodes.Concat)


def _require(what: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        hint = did_you_mean(name, known)
        raise DefinitionError(f"there is no {what} {name!r} in templates{hint}")


def _refuse_stars(node: nodes.Call | nodes.Filter | nodes.Test) -> None:
    if node.dyn_args is not None or node.dyn_kwargs is not None:
        raise DefinitionError("'*' and '**' are not for templates of tasks")


# Calls.


def _check_call(call: nodes.Call) -> None:
    _refuse_stars(call)
    match call.node:
        case nodes.Name(name="range"):
            _range_of(call)
        case nodes.Getattr(node=nodes.Name(name="macros"), attr=name):
            _require("macro", name, MACROS)
        case nodes.Getattr(node=of, attr=name):
            _require("method", name, _METHODS)
            if name == "format" and isinstance(of, nodes.Const) and isinstance(of.value, str):
                check_format(of.value)
        case nodes.Name(name=name):
            raise DefinitionError(f"there is no function {name!r} in templates; there is range")
        case _:
            raise DefinitionError("only methods, macros and range can be called in templates")


def _range_of(call: nodes.Call) -> range:
    # Jinja's own `as_const` would compute whatever is written there.
    given = [arg.node if isinstance(arg, nodes.Neg) else arg for arg in call.args]
    if not all(isinstance(arg, nodes.Const) and type(arg.value) is int for arg in given):
        raise DefinitionError("range takes constant whole numbers in templates")
    numbers = range(*(arg.as_const() for arg in call.args))
    if len(numbers) > _MAX_RANGE or call.kwargs:
        raise DefinitionError(f"range is limited to {_MAX_RANGE:,} numbers in templates")
    return numbers


# Loops.


def _check_loop(loop: nodes.For, loops: tuple[nodes.For, ...]) -> None:
    if loop.recursive:
        raise DefinitionError("a loop cannot be recursive")
    of_loops = {name.name for outer in loops[:-1] for name in _targets(outer)}
    if not (_is_counted(loop.iter) or _is_declared(loop.iter, of_loops)):
        raise DefinitionError(
            "a loop goes over range with a constant, or over a list that the run was given, such as"
            " params.days"
        )
    if math.prod(_count(each.iter) for each in loops) > _MAX_RANGE:
        raise DefinitionError(f"loops inside each other are limited to {_MAX_RANGE:,} rounds")


def _targets(loop: nodes.For) -> Iterator[nodes.Name]:
    if isinstance(loop.target, nodes.Name):
        yield loop.target
    yield from loop.target.find_all(nodes.Name)


def _is_counted(node: nodes.Node) -> bool:
    """Return whether the text says how many rounds there are."""
    if isinstance(node, nodes.Call):
        return isinstance(node.node, nodes.Name) and node.node.name == "range"
    return isinstance(node, nodes.List | nodes.Tuple) and _is_constant(node)


def _count(node: nodes.Node) -> int:
    if isinstance(node, nodes.Call) and _is_counted(node):
        return max(1, len(_range_of(node)))
    return max(1, len(node.items)) if isinstance(node, nodes.List | nodes.Tuple) else 1


def _is_declared(node: nodes.Node, of_loops: Collection[str]) -> bool:
    match node:
        case nodes.Name(name=name):
            return name in _LISTS or name in of_loops
        case nodes.Getattr(node=of) | nodes.Getitem(node=of):
            return _is_declared(of, of_loops)
        case nodes.Call(node=nodes.Getattr(node=of, attr=name)):
            return name in _READING and _is_declared(of, of_loops)
        case nodes.Filter(node=nodes.Node() as of, name=name):
            return name in _KEEPING and _is_declared(of, of_loops)
    return False


# The outputs of other steps: `outputs.load.rows`, `outputs["group.load"].rows`. A template names
# steps as constants, so that it is known beforehand whose outputs it reads.


OUTPUTS = "outputs"


class _Keys(NodeTransformer):
    """Turns `outputs.load.items` into `outputs["load"]["items"]`, which is never a method."""

    def visit_Getattr(self, node: nodes.Getattr) -> nodes.Expr:  # noqa: N802 - Jinja's naming
        self.generic_visit(node)
        of = node.node
        if _is_outputs(of) or (isinstance(of, nodes.Getitem) and _is_outputs(of.node)):
            return nodes.Getitem(of, nodes.Const(node.attr), node.ctx, lineno=node.lineno)
        return node


def with_keys(template: nodes.Template) -> nodes.Template:
    """Return a parsed template in which steps and their outputs are keys."""
    changed: nodes.Template = _Keys().visit(template)
    return changed


def steps_named(template: nodes.Template) -> set[str]:
    """Return the steps whose outputs a template with keys reads."""
    found = [each.arg for each in template.find_all(nodes.Getitem) if _is_outputs(each.node)]
    named = [each.value for each in found if isinstance(each, nodes.Const)]
    uses = sum(map(_is_outputs, template.find_all(nodes.Name)))
    if uses != len(named) or not all(isinstance(name, str) for name in named):
        raise DefinitionError(
            "'outputs' is followed by the id of a task, as in outputs.load or"
            ' outputs["group.load"]'
        )
    return set(named)


def _is_outputs(node: nodes.Node) -> bool:
    return isinstance(node, nodes.Name) and node.name == OUTPUTS
