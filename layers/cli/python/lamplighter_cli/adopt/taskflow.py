"""Translates calls of functions that a decorator makes tasks."""

import ast
from dataclasses import replace

from lamplighter_cli.adopt.context_use import CannotMoveError
from lamplighter_cli.adopt.findings import Finding, Level, TaskReport
from lamplighter_cli.adopt.options import common
from lamplighter_cli.adopt.python_tasks import Step, StepMaker, placeholder
from lamplighter_cli.adopt.source import call_text
from lamplighter_cli.adopt.translator import Scope, TaskFunction, TaskRef, Translator, quoted

_KINDS_ADVICE = {
    "branch": "there is no branching: let the first task of each branch raise SkipStep when its"
    " branch is not taken",
    "virtualenv": "put pure packages into lib/",
    "external_python": "put pure packages into lib/",
    "docker": "run the container with ECS in a state machine",
    "kubernetes": "run the container with ECS in a state machine",
    "sensor": "nothing here waits by asking again and again: declare an Asset with an AssetWatcher",
    "bash": "write it as a function that starts the program",
    "pyspark": "write a function (spark, context) in jobs/, and make a SparkTask of it",
}
_OWN_OPTIONS = frozenset({"task_id", "multiple_outputs", "templates_dict", "python_callable"})


class TaskCall:
    """One call of such a function, with what `override`, `partial` and `expand` add."""

    def __init__(
        self, translator: Translator, call: ast.Call, function: TaskFunction, scope: Scope
    ) -> None:
        self._translator = translator
        self._call = call
        self._function = function
        self._scope = scope
        self._options = {each.arg: each.value for each in function.options if each.arg}
        self._partial: dict[str, ast.expr] = {}
        self._mapped: dict[str, ast.expr] | None = None
        self._problem: str | None = None
        self._unwrap()
        label = translator.constants.text(self._options.get("task_id"))
        self._dynamic = "task_id" in self._options and label is None
        if label is None:
            label = function.node.name
        if scope.in_loop and not self._dynamic:
            translator.report.findings.append(_in_loop(call, function.node.name))
            translator.handled.add("")
        self._label = translator.numbered_id(scope, label)
        self.report = TaskReport(self._label, "@task", call.lineno)
        if self._dynamic:
            self.report.task_id = translator.text(self._options["task_id"])
        (translator.report.dags[-1] if scope.dag is None else scope.dag).tasks.append(self.report)

    def _unwrap(self) -> None:
        func = self._call.func
        if isinstance(func, ast.Attribute) and func.attr in {"expand", "expand_kwargs"}:
            self._mapped = {each.arg or "": each.value for each in self._call.keywords}
            if func.attr == "expand_kwargs" or len(self._mapped) != 1 or "" in self._mapped:
                self._problem = "tasks are not mapped over several arguments: loop in the job"
            func = func.value
            match func:
                case ast.Call(func=ast.Attribute(attr="partial", value=inner), keywords=keywords):
                    self._partial = {each.arg or "": each.value for each in keywords}
                    func = inner
        if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute):  # override
            self._options |= {each.arg: each.value for each in func.keywords if each.arg}

    def translate(self) -> tuple[str, Step, TaskRef]:
        """Return the text of the task, its step, and how others refer to it."""
        translator = self._translator
        translator.current_task = self.report
        maker = StepMaker(translator, self._scope)
        try:
            try:
                step = self._move(maker)
            except CannotMoveError as error:
                step = self._stay(maker, str(error))
            text = self._text(step)
        finally:
            translator.current_task = None
        prefix = self._scope.prefix
        is_known = prefix is not None and not self._dynamic and not self._scope.in_loop
        ref = TaskRef(f"{prefix}{self._label}" if is_known else None, None, is_python=True)
        return text, step, ref

    def _move(self, maker: StepMaker) -> Step:
        translator, function = self._translator, self._function
        node, kind = function.node, function.kind
        if kind in _KINDS_ADVICE:
            raise CannotMoveError(f"@task.{kind}: {_KINDS_ADVICE[kind]}")
        if isinstance(node, ast.AsyncFunctionDef):
            raise CannotMoveError("it is asynchronous: make it an ordinary function")
        if self._problem is not None:
            raise CannotMoveError(self._problem)
        if len(node.decorator_list) > 1:
            raise CannotMoveError("it has another decorator")
        named = dict(self._partial)
        if self._mapped is None:
            named |= {each.arg or "**": each.value for each in self._call.keywords}
        if "**" in named or any(isinstance(each, ast.Starred) for each in self._call.args):
            raise CannotMoveError("it is called with * or **: write its arguments")
        bound = frozenset(named)
        around = list(function.scope.around)
        plain = replace_decorators(node)
        moved = translator.jobs.move(plain, node.name, around, bound)
        positional = [] if self._mapped is not None else self._call.args
        step = maker.finish(
            moved,
            positional,
            named,
            self.report.task_id,
            skips=kind == "short_circuit",
            mapped=self._mapped,
        )
        message = f"becomes a PythonTask: {node.name} moves to jobs/{step.read}"
        translator.on_task(Level.CHANGE, self._call, message)
        if self._mapped is not None:
            message = "the mapped tasks become one step, which goes over the items"
            translator.on_task(Level.CHANGE, self._call, message)
        return step

    def _stay(self, maker: StepMaker, reason: str) -> Step:
        """Return a step that fails, in the same place of the graph."""
        translator = self._translator
        name = self._function.node.name
        translator.on_task(Level.CANNOT, self._call, f"{name} does not move: {reason}")
        step = Step()
        given = [*self._call.args, *(each.value for each in self._call.keywords)]
        for value in [*given, *self._partial.values()]:
            for node in ast.walk(value):
                found = maker.reference(node) if isinstance(node, ast.expr) else None
                if found is not None:
                    step.inputs.append(found[0])
        step.inputs = list({id(ref): ref for ref in step.inputs}.values())
        step.job = placeholder(translator, self.report.task_id, f"{name}: {reason}"[:300])
        return step

    def _text(self, step: Step) -> str:
        translator = self._translator
        options = {name: node for name, node in self._options.items() if name not in _OWN_OPTIONS}
        identity = self.report.task_id if self._dynamic else quoted(self._label)
        every = common(translator, self._call, options, set())
        return call_text(
            translator.need("PythonTask"),
            [identity, *step.options(), *every],
            translator.source.indent(self._call),
        )


def replace_decorators(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function without its decorators, in the same place."""
    plain = ast.FunctionDef(
        **{field: getattr(node, field) for field in node._fields if field != "decorator_list"},
        decorator_list=[],
    )
    return ast.copy_location(plain, node)


def _in_loop(call: ast.Call, name: str) -> Finding:
    message = f"{name} is called in a loop, where Airflow numbers its tasks: give each an id with"
    return Finding(Level.EDIT, call.lineno, f"{message} {name}.override(task_id=f'…')(…)")


def in_group(scope: Scope, group: str | None, *, is_prefixed: bool) -> Scope:
    """Return the scope of the tasks in a group."""
    if not is_prefixed:
        return scope
    if group is None or scope.prefix is None:
        return replace(scope, prefix=None)
    return replace(scope, prefix=f"{scope.prefix}{group}.")
