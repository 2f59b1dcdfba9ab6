"""The module in `jobs/` to which the functions of one Airflow file are moved.

Owns: which definitions go along with a function, and the functions that tasks name, which hand it
what Airflow would.
"""

import ast
import builtins
import re
import symtable
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from lamplighter_cli.adopt.context_use import CannotMoveError, ContextUse, Function
from lamplighter_cli.adopt.source import Source

_KNOWN = {*dir(builtins), "__name__", "__file__", "__doc__"}


@dataclass(frozen=True)
class MovedFunction:
    """A function in the module, and what must be passed to it."""

    name: str
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    is_variadic: bool
    needs_context: bool
    pulls: tuple[str, ...]
    returns: bool


class JobsModule:
    """The definitions of one module, in the order in which they are needed."""

    def __init__(self, source: Source, module: str, label: str) -> None:
        self.module = module
        self._source = source
        self._label = label
        self._imports: dict[str, str] = {}
        self._definitions: dict[str, tuple[int, str]] = {}
        self._functions: dict[str, str] = {}
        self._needs_skip = False
        self.local_imports: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._functions)

    # Moving.

    def move(
        self, function: Function, name: str, around: list[ast.stmt], bound: frozenset[str]
    ) -> MovedFunction:
        """Move a function with all it needs, or raise `CannotMoveError`."""
        _require_plain(function)
        use = ContextUse(self._source, function, bound)
        if isinstance(function, ast.Lambda):
            text = f"{name} = {use.edits.node(function)}"
            if use.needs_context or use.removed:
                raise CannotMoveError("a lambda that uses the context: make it a function")
        else:
            self._set_parameters(function, use)
            text = self._without_indent(use, function)
        self._define(name, function.lineno, text, around)
        self._needs_skip |= use.needs_skip
        arguments = function.args
        named = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        defaults = len(arguments.defaults)
        required = named[: len(named) - defaults] + [
            each.arg
            for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is None
        ]
        every = [*named, *(each.arg for each in arguments.kwonlyargs)]
        return MovedFunction(
            name=name,
            parameters=tuple(each for each in every if each not in use.removed),
            required=tuple(each for each in required if each not in use.removed),
            is_variadic=arguments.vararg is not None or bool(arguments.posonlyargs),
            needs_context=use.needs_context,
            pulls=tuple(dict.fromkeys(use.pulls)),
            returns=isinstance(function, ast.Lambda) or _returns(function),
        )

    def require(self, name: str, around: list[ast.stmt]) -> None:
        """Bring along what defines a name, or raise `CannotMoveError`."""
        if name in self._definitions or name in self._imports:
            return
        statement = _definition_of(name, [*around, *_top_level(self._source.tree.body)])
        path = self._source.names.imported.get(name)
        match statement:
            case ast.Import() | ast.ImportFrom():
                if path is not None and path.partition(".")[0] == "airflow":
                    raise CannotMoveError(f"it uses {path}")
                self._import(statement, name)
            case ast.FunctionDef() | ast.ClassDef():
                self._require_free_of_airflow(statement, name)
                self._define(name, statement.lineno, self._plain_text(statement), around)
            case ast.Assign() | ast.AnnAssign():
                self._require_free_of_airflow(statement, name)
                self._define(name, statement.lineno, self._plain_text(statement), around)
            case _:
                raise CannotMoveError(f"it uses {name!r}, which is not a constant of the file")

    def _require_free_of_airflow(self, statement: ast.stmt, name: str) -> None:
        for node in ast.walk(statement):
            path = self._source.names.airflow_path(node)
            if path is not None:
                raise CannotMoveError(f"it uses {name!r}, which uses {path}")

    def _import(self, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        alias = next(
            each for each in statement.names if (each.asname or each.name.split(".")[0]) == name
        )
        written = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
        if isinstance(statement, ast.Import):
            self._imports[name] = f"import {written}"
            self.local_imports.add(alias.name)
        else:
            module = "." * statement.level + (statement.module or "")
            if statement.level:
                raise CannotMoveError(f"it uses {name!r} of a relative import: import it by name")
            self._imports[name] = f"from {module} import {written}"
            self.local_imports.add(module)

    def _define(self, name: str, line: int, text: str, around: list[ast.stmt]) -> None:
        before = self._definitions.get(name)
        if before is not None and before[1] != text:
            raise CannotMoveError(f"there are two definitions of {name!r}")
        self._definitions[name] = (line, text)
        try:
            for needed in _free_names(text):
                if needed not in (name, "SkipStep"):
                    self.require(needed, around)
        except CannotMoveError:
            del self._definitions[name]
            raise

    # Text.

    def _plain_text(self, statement: ast.stmt) -> str:
        text = _dedented(self._source.segment(statement), self._source.indent(statement))
        return f"{self._decorators(statement)}{text}"

    def _decorators(self, statement: ast.stmt) -> str:
        found = getattr(statement, "decorator_list", [])
        return "".join(f"@{self._source.segment(each)}\n" for each in found)

    def _without_indent(self, use: ContextUse, function: ast.FunctionDef) -> str:
        text = _dedented(use.edits.node(function), self._source.indent(function))
        return f"{self._decorators(function)}{text}"

    def _set_parameters(self, function: ast.FunctionDef, use: ContextUse) -> None:
        """Take the parameters that Airflow fills from the text, and add the context."""
        if not use.removed and not use.needs_context:
            return
        arguments = function.args
        kept = ast.arguments(
            posonlyargs=arguments.posonlyargs,
            args=[each for each in arguments.args if each.arg not in use.removed],
            vararg=arguments.vararg,
            kwonlyargs=[each for each in arguments.kwonlyargs if each.arg not in use.removed],
            kw_defaults=[
                default
                for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
                if each.arg not in use.removed
            ],
            kwarg=None,
            defaults=_defaults_of_kept(arguments, use.removed),
        )
        texts = [text] if (text := ast.unparse(kept)) else []
        if use.needs_context and "context" not in [each.arg for each in kept.args]:
            texts.insert(0, "context")
        start, end = _parameters_span(self._source, function)
        use.edits.replace(start, end, f"({', '.join(texts)})")

    # The functions that tasks name.

    def add_step(self, name: str, task_id: str, body: list[str], doc: str) -> str:
        """Add the function of a step, and return the value of `job=`."""
        text = "\n".join(f"    {line}" for line in [f'"""{doc}"""', *body])
        for candidate in (name, f"{name}_{identifier(task_id)}", *_numbered(name)):
            if candidate in self._definitions:
                continue
            if self._functions.setdefault(candidate, text) == text:
                return f'"jobs.{self.module}:{candidate}"'
        raise AssertionError(name)

    def use_skip(self) -> None:
        """Import `SkipStep`."""
        self._needs_skip = True

    def use_import(self, module: str) -> None:
        """Import a module of the standard library."""
        self._imports[module] = f"import {module}"

    def render(self) -> str:
        """Return the text of the module."""
        imports = sorted(set(self._imports.values()), key=lambda text: text.split()[1])
        if self._needs_skip:
            imports.append("\nfrom lamplighter_job import SkipStep")
        definitions = [text for _, text in sorted(self._definitions.values())]
        small, large = _ordered(definitions)
        functions = [f"def {name}(context):\n{text}" for name, text in self._functions.items()]
        head = f'"""What the tasks of {self._label} do."""'
        parts = [head, "\n".join(imports), "\n".join(small)]
        body = "\n\n".join(part for part in parts if part)
        return "\n\n\n".join([body, *large, *functions]) + "\n"


def _ordered(definitions: list[str]) -> tuple[list[str], list[str]]:
    """Return constants before the first function, and everything else in the file's order."""
    for number, text in enumerate(definitions):
        if text.startswith(("def ", "class ", "@")):
            return definitions[:number], definitions[number:]
    return definitions, []


def identifier(text: str) -> str:
    """Return a text as a Python name."""
    found = re.sub(r"\W+", "_", text).strip("_").lower() or "task"
    return f"_{found}" if found[0].isdigit() else found


def _numbered(name: str) -> Iterator[str]:
    yield from (f"{name}_{number}" for number in range(2, 1_000))


def _require_plain(function: Function) -> None:
    if isinstance(function, ast.Lambda):
        return
    own = [*_own_nodes(function)]
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in own):
        raise CannotMoveError("it is a generator: return a list")
    if any(isinstance(node, ast.Global | ast.Nonlocal) for node in own):
        raise CannotMoveError("it changes a variable outside itself")


def _returns(function: ast.FunctionDef) -> bool:
    return any(
        isinstance(node, ast.Return)
        and node.value is not None
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        for node in _own_nodes(function)
    )


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield what is in a function, but not in functions in it."""
    rest: list[ast.AST] = list(function.body)
    while rest:
        node = rest.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            rest.extend(ast.iter_child_nodes(node))


def _defaults_of_kept(arguments: ast.arguments, removed: set[str]) -> list[ast.expr]:
    every = [*arguments.posonlyargs, *arguments.args]
    with_default = zip(
        every[len(every) - len(arguments.defaults) :], arguments.defaults, strict=True
    )
    return [default for each, default in with_default if each.arg not in removed]


def _parameters_span(source: Source, function: ast.FunctionDef) -> tuple[int, int]:
    """Return where the parentheses of a function's parameters begin and end."""
    data, depth = source.data, 0
    at = data.index(b"(", source.start(function))
    last = source.start(function.body[0])
    arguments = function.args
    defaults = [*arguments.defaults, *(each for each in arguments.kw_defaults if each)]
    # Parentheses in defaults and annotations are inside nodes, which end where they end.
    for position in range(at, last):
        character = data[position : position + 1]
        if any(source.start(node) <= position < source.end(node) for node in defaults):
            continue
        depth += (character == b"(") - (character == b")")
        if depth == 0:
            return at, position + 1
    raise CannotMoveError("its parameters are not understood")


def _free_names(text: str) -> list[str]:
    try:
        table = symtable.symtable(text, "jobs", "exec")
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotMoveError(f"its text cannot be moved: {error}") from error
    found: dict[str, None] = {}
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned()}
    own |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_imported()}
    rest = [table]
    while rest:
        at = rest.pop()
        rest += at.get_children()
        for symbol in at.get_symbols():
            is_global = symbol.is_global() or at is table
            if is_global and symbol.is_referenced():
                found[symbol.get_name()] = None
    return sorted(name for name in found if name not in own and name not in _KNOWN)


def _dedented(text: str, indent: str) -> str:
    """Return a statement without its indentation; the lines of long texts stay as they are."""
    if not indent:
        return text
    try:
        tree = ast.parse(f"if 1:\n{indent}{text}")
    except SyntaxError:
        return textwrap.dedent(f"{indent}{text}")
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno is not None:
            inside |= set(range(node.lineno + 1, node.end_lineno + 1))
    lines = text.split("\n")
    return "\n".join(
        line if number in inside else line.removeprefix(indent)
        for number, line in enumerate(lines, start=2)
    )


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try):
            yield from _top_level([*statement.body, *statement.orelse])


def _definition_of(name: str, body: list[ast.stmt]) -> ast.stmt | None:
    for statement in body:
        match statement:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                if any((each.asname or each.name.split(".")[0]) == name for each in names):
                    return statement
            case ast.FunctionDef(name=own) | ast.ClassDef(name=own) if own == name:
                return statement
            case ast.Assign(targets=targets):
                if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                    return statement
            case ast.AnnAssign(target=ast.Name(id=own), value=ast.expr()) if own == name:
                return statement
    return None
