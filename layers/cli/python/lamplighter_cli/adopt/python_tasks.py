"""Python functions as tasks: what Airflow passes to one, and the step that passes it here."""

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from lamplighter_cli.adopt.context_use import OF_CONTEXT, CannotMoveError, Function
from lamplighter_cli.adopt.findings import Level
from lamplighter_cli.adopt.jobs import MovedFunction, identifier
from lamplighter_cli.adopt.translator import Scope, TaskRef, Translator, quoted

# Given as templates, because a template has them for every run that has a date.
_TEMPLATES = frozenset({"ds_nodash", "ts_nodash", "ts_nodash_with_tz", "next_ds", "next_ds_nodash"})


@dataclass
class Step:
    """What is known of the step of a function: its arguments, and the tasks that it reads."""

    arguments: list[str] = field(default_factory=list)
    inputs: list[TaskRef] = field(default_factory=list)
    pulls: list[str] = field(default_factory=list)
    job: str = ""

    @property
    def read(self) -> str:
        """What is said about the tasks that its function names, which nothing links to it."""
        ids = " and ".join(dict.fromkeys(self.pulls))
        return f", and reads the outputs of {ids}, which must be upstream" if ids else ""

    def options(self) -> list[str]:
        """Return the options of its `PythonTask`."""
        made = [f"job={self.job}"]
        if self.arguments:
            made.append(f"arguments=[{', '.join(self.arguments)}]")
        ids = [ref.task_id for ref in self.inputs if ref.task_id is not None]
        if inputs := list(dict.fromkeys([*ids, *self.pulls])):
            made.append(f"inputs=[{', '.join(map(quoted, inputs))}]")
        return made


class StepMaker:
    """Makes the step of one task."""

    def __init__(self, translator: Translator, scope: Scope) -> None:
        self._translator = translator
        self._scope = scope
        self.step = Step()

    # Values, as the step's function writes them.

    def value(self, node: ast.expr) -> str:
        """Return how the function of the step gets the value of an expression."""
        reference = self.reference(node)
        if reference is not None:
            return self._read(*reference)
        match node:
            case ast.Constant(value=str(text)) if "{{" in text or "{%" in text:
                return self._argument(self._translator.template(text, node))
            case ast.Constant():
                return ast.unparse(node)
            case ast.List(elts=elements) if _has_no_star(elements):
                return f"[{', '.join(map(self.value, elements))}]"
            case ast.Tuple(elts=elements) if _has_no_star(elements):
                return f"({''.join(f'{self.value(each)}, ' for each in elements)})"
            case ast.Dict(keys=keys, values=values) if all(
                isinstance(key, ast.Constant) for key in keys
            ):
                pairs = zip(keys, values, strict=True)
                texts = (f"{ast.unparse(k)}: {self.value(v)}" for k, v in pairs if k is not None)
                return f"{{{', '.join(texts)}}}"
            case ast.JoinedStr():
                return self._argument(self._translator.text(node))
            case ast.UnaryOp(operand=ast.Constant()):
                return ast.unparse(node)
            case ast.Name(id=name) if name in self._translator.constants.nodes:
                self._translator.jobs.require(name, list(self._scope.around))
                return name
        text = self._translator.text(node)
        self._translator.on_task(
            Level.EDIT,
            node,
            f"the value of `{text[:60]}` reaches the job as text: convert it there",
        )
        return self._argument(f"str({text})")

    def _argument(self, text: str) -> str:
        self.step.arguments.append(text)
        return f"context.arguments[{len(self.step.arguments) - 1}]"

    def reference(self, node: ast.expr) -> tuple[TaskRef, str] | None:
        """Return the task whose result an expression is, and which part of it."""
        match node:
            case ast.Name(id=name) if name in self._translator.tasks:
                return self._translator.tasks[name], ""
            case ast.Call() if id(node) in self._translator.results:
                return self._translator.results[id(node)], ""
            case ast.Subscript(value=value, slice=ast.Constant(value=str() | int() as key)):
                found = self.reference(value)
                return None if found is None else (found[0], f"{found[1]}[{key!r}]")
            case ast.Attribute(value=ast.Name(id=name), attr="output"):
                known = self._translator.tasks.get(name)
                return None if known is None else (known, "")
        return None

    def _read(self, ref: TaskRef, part: str) -> str:
        if ref.task_id is None:
            raise CannotMoveError("it reads a task whose id is only known when the file runs")
        if not ref.is_python:
            message = f"it reads the XCom of {ref.task_id!r}: see which outputs that task leaves"
            raise CannotMoveError(message)
        self.step.inputs.append(ref)
        return f'context.input({quoted(ref.task_id)})["return_value"]{part}'

    # The call.

    def finish(
        self,
        moved: MovedFunction,
        positional: list[ast.expr],
        named: dict[str, ast.expr],
        task_id: str,
        *,
        skips: bool = False,
        mapped: dict[str, ast.expr] | None = None,
    ) -> Step:
        """Make the function that the task names."""
        if moved.is_variadic and positional:
            raise CannotMoveError("it takes *args: name its parameters")
        if len(positional) > len(moved.parameters):
            raise CannotMoveError("it is given more than it takes")
        given = {**dict(zip(moved.parameters, positional, strict=False)), **named}
        if unknown := sorted(given.keys() - set(moved.parameters)):
            raise CannotMoveError(f"it reads {unknown[0]!r} from **kwargs: make it a parameter")
        texts = {name: self.value(node) for name, node in given.items()}
        loop = ""
        if mapped is not None:
            ((name, node),) = mapped.items()
            if name not in moved.parameters:
                raise CannotMoveError(f"it has no parameter {name!r}")
            texts[name] = "item"
            loop = self.value(node)
        texts |= dict(self._from_airflow(moved, texts))
        passed = [f"{name}={text}" for name, text in texts.items()]
        if moved.needs_context:
            passed.insert(0, "context=context")
        self.step.pulls += moved.pulls
        call = f"{moved.name}({', '.join(passed)})"
        body = self._body(call, moved, skips=skips, loop=loop)
        doc = f"Run the step {task_id}." if task_id.isprintable() and '"' not in task_id else "Run."
        name = f"run_{moved.name.removesuffix('_function')}"
        self.step.job = self._translator.jobs.add_step(name, task_id, body, doc)
        return self.step

    def _from_airflow(
        self, moved: MovedFunction, given: dict[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the parameters that Airflow fills by their names."""
        for name in moved.parameters:
            if name in given or name == "context":
                continue
            if name in OF_CONTEXT:
                yield name, OF_CONTEXT[name]
            elif name in _TEMPLATES:
                yield name, self._argument(quoted(f"{{{{ {name} }}}}"))
            elif name in moved.required:
                raise CannotMoveError(f"its parameter {name!r} has no counterpart in a job")

    def _body(self, call: str, moved: MovedFunction, *, skips: bool, loop: str) -> list[str]:
        if loop:
            call = f"[{call} for item in {loop}]"
        if skips:
            self._translator.jobs.use_skip()
            reason = quoted(f"{moved.name} returned a false value")
            return [f"if not {call}:", f"    raise SkipStep({reason})"]
        if not moved.returns:
            return [call]
        return [
            f"result = {call}",
            "if result is not None:",
            '    context.output["return_value"] = result',
        ]


def placeholder(translator: Translator, task_id: str, message: str) -> str:
    """Return the value of `job=` of a task that cannot move: a function that says so."""
    name = f"not_moved_{identifier(task_id)}"
    parts = textwrap.wrap(message, 80, drop_whitespace=False, break_on_hyphens=False)
    body = ["raise NotImplementedError(", *(f"    {quoted(part)}" for part in parts), ")"]
    return translator.jobs.add_step(name, task_id, body, "Fail: this is still to be written.")


def nothing(translator: Translator) -> str:
    """Return the value of `job=` of a task that does nothing."""
    return translator.jobs.add_step("nothing", "nothing", ["return"], "Do nothing.")


def find_function(
    translator: Translator, node: ast.expr, scope: Scope
) -> tuple[Function, str, list[ast.stmt]] | None:
    """Return the function of the file that an expression names."""
    if isinstance(node, ast.Lambda):
        return node, f"lambda_of_line_{node.lineno}", list(scope.around)
    if not isinstance(node, ast.Name):
        return None
    around = [*scope.around, *translator.source.tree.body]
    for statement in around:
        if isinstance(statement, ast.FunctionDef) and statement.name == node.id:
            return statement, node.id, list(scope.around)
    return None


def _has_no_star(elements: list[ast.expr]) -> bool:
    return not any(isinstance(each, ast.Starred) for each in elements)
