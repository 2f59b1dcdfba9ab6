"""How a function of Airflow's uses the context of its task, and the same in terms of a job's.

A function that uses more than has a counterpart cannot be moved; the error says what.
"""

import ast
from collections.abc import Mapping

from lamplighter_cli.adopt.names import advice_on, last_part
from lamplighter_cli.adopt.source import Edits, Source

Function = ast.FunctionDef | ast.Lambda

OF_CONTEXT: Mapping[str, str] = {
    "ds": 'context.logical_date.strftime("%Y-%m-%d")',
    "ds_nodash": 'context.logical_date.strftime("%Y%m%d")',
    "ts": "context.logical_date.isoformat()",
    "logical_date": "context.logical_date",
    "execution_date": "context.logical_date",
    "data_interval_start": "context.data_interval_start",
    "data_interval_end": "context.data_interval_end",
    "params": "context.params",
    "run_id": "context.run_id",
}
# What is the context itself here, and which of its attributes are Airflow's too.
_OBJECTS: Mapping[str, frozenset[str]] = {
    "ti": frozenset({"try_number", "task_id", "dag_id", "run_id"}),
    "task_instance": frozenset({"try_number", "task_id", "dag_id", "run_id"}),
    "dag_run": frozenset(
        {"conf", "run_id", "logical_date", "run_type", "data_interval_start", "run_after"}
        | {"data_interval_end"}
    ),
}
_ERRORS = {
    "AirflowException": "RuntimeError",
    "AirflowFailException": "RuntimeError",
    "AirflowSkipException": "SkipStep",
}


class CannotMoveError(Exception):
    """Why a function stays behind, in words for its author."""


class ContextUse(ast.NodeVisitor):
    """Edits the text of one function so that it uses the context of a job."""

    def __init__(self, source: Source, function: Function, bound: frozenset[str]) -> None:
        self.edits = Edits(source)
        self.needs_context = False
        self.needs_skip = False
        self.pulls: list[str] = []
        self._names = source.names
        self._objects: dict[str, frozenset[str]] = {}
        self._contexts: set[str] = set()
        arguments = function.args
        if arguments.kwarg is not None:
            self._contexts.add(arguments.kwarg.arg)
        named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        for argument in named:
            if argument.arg in _OBJECTS and argument.arg not in bound:
                self._objects[argument.arg] = _OBJECTS[argument.arg]
        self.removed = {*self._objects, *self._contexts}
        for node in function.body if isinstance(function, ast.FunctionDef) else [function.body]:
            self.visit(node)

    # Statements.

    def visit_Import(self, node: ast.Import) -> None:
        if any(alias.name.partition(".")[0] == "airflow" for alias in node.names):
            self.edits.replace_node(node, "pass")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").partition(".")[0] == "airflow":
            self.edits.replace_node(node, "pass")

    def visit_Assign(self, node: ast.Assign) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if isinstance(value, ast.Call) and self._is("get_current_context", value.func):
                    self._contexts.add(name)
                    self._use(value, "context")
                    return
                key = self._key(value)
                if key is not None and key in _OBJECTS:
                    self._objects[name] = _OBJECTS[key]
                    self._use(value, "context")
                    return
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        if isinstance(call, ast.Call) and self._is_object_method(call, "xcom_push"):
            given = dict(zip(("key", "value"), call.args, strict=False))
            given |= {each.arg: each.value for each in call.keywords if each.arg}
            if not {"key", "value"} <= given.keys():
                raise CannotMoveError("xcom_push without key and value")
            self.generic_visit(given["value"])
            self.visit(given["value"])
            key, value = (self.edits.node(given[name]) for name in ("key", "value"))
            self.edits.replace_node(node, f"context.output[{key}] = {value}")
            self.needs_context = True
            return
        self.generic_visit(node)

    # Expressions.

    def visit_Call(self, node: ast.Call) -> None:
        if self._is_object_method(node, "xcom_pull"):
            self._pull(node)
            return
        match node.func:
            case ast.Attribute(attr="get", value=owner) if self._is("Variable", owner):
                self._variable(node)
                return
        key = self._key(node)
        if key is not None:
            self._context_value(node, key)
            return
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        key = self._key(node)
        if key is not None:
            self._context_value(node, key)
            return
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes = self._attributes_of(node.value)
        if attributes is not None:
            if node.attr not in attributes:
                raise CannotMoveError(
                    f"a job's context has no counterpart of `{ast.unparse(node)}`"
                )
            self._use(node.value, "context")
            return
        if self._names.airflow_path(node) is not None:
            self._airflow_name(node)
            return
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._contexts:
            raise CannotMoveError(f"it uses all of Airflow's context (`{node.id}`)")
        if node.id in self._objects:
            raise CannotMoveError(f"it passes `{node.id}` on")
        if self._names.airflow_path(node) is not None:
            self._airflow_name(node)

    # What these have in common.

    def _use(self, node: ast.expr, text: str) -> None:
        self.edits.replace_node(node, text)
        self.needs_context = True

    def _is(self, name: str, node: ast.expr) -> bool:
        path = self._names.airflow_path(node)
        return path is not None and last_part(path) == name

    def _key(self, node: ast.expr) -> str | None:
        """Return the key of Airflow's context that an expression reads."""
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str(key)), *_],
            ):
                pass
            case _:
                return None
        return key if name in self._contexts else None

    def _attributes_of(self, node: ast.expr) -> frozenset[str] | None:
        if isinstance(node, ast.Name):
            return self._objects.get(node.id)
        return _OBJECTS.get(self._key(node) or "")

    def _context_value(self, node: ast.expr, key: str) -> None:
        if key not in OF_CONTEXT:
            raise CannotMoveError(f"a job's context has no counterpart of `{ast.unparse(node)}`")
        self._use(node, OF_CONTEXT[key])

    def _is_object_method(self, node: ast.Call, method: str) -> bool:
        match node.func:
            case ast.Attribute(value=owner, attr=name) if name == method:
                return self._attributes_of(owner) is not None
        return False

    def _pull(self, node: ast.Call) -> None:
        given = dict(zip(("task_ids",), node.args, strict=False))
        given |= {each.arg or "**": each.value for each in node.keywords}
        key = given.pop("key", None)
        match given:
            case {"task_ids": ast.Constant(value=str(task))} if len(given) == 1:
                texts = [task]
            case {"task_ids": ast.List(elts=elements) | ast.Tuple(elts=elements)}:
                texts = [
                    each.value
                    for each in elements
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
                if len(texts) != len(elements):
                    raise CannotMoveError("xcom_pull from tasks that are not named as text")
            case _:
                raise CannotMoveError("xcom_pull that does not only name its tasks as text")
        name = '"return_value"' if key is None else self.edits.node(key)
        read = [f'context.input("{text}").get({name})' for text in texts]
        is_one = isinstance(given["task_ids"], ast.Constant)
        self.pulls += texts
        self._use(node, read[0] if is_one else f"[{', '.join(read)}]")

    def _variable(self, node: ast.Call) -> None:
        given = {each.arg or "**": each.value for each in node.keywords}
        given |= dict(zip(("key", "default_var"), node.args, strict=False))
        if not given.keys() <= {"key", "default_var", "default"} or "key" not in given:
            raise CannotMoveError("Variable.get with deserialize_json: variables here are texts")
        name = self.edits.node(given.pop("key"))
        default = [self.edits.node(value) for value in given.values()]
        text = f"context.variables.get({name}, {default[0]})" if default else None
        self._use(node, text or f"context.variables[{name}]")

    def _airflow_name(self, node: ast.Name | ast.Attribute) -> None:
        path = self._names.airflow_path(node)
        assert path is not None
        instead = _ERRORS.get(last_part(path))
        if instead is None:
            raise CannotMoveError(f"it uses {path}: {advice_on(path)}")
        self.needs_skip |= instead == "SkipStep"
        self.edits.replace_node(node, instead)
