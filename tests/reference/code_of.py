"""Prints the code of an example as a block that runs by itself: its imports, and its expression."""

import ast
import inspect
import textwrap
from collections.abc import Callable

from tests.reference import examples


def block_of(example: Callable[[], object], name: str) -> str:
    """Return the code that binds `name` to what an example returns."""
    function = ast.parse(textwrap.dedent(inspect.getsource(example))).body[0]
    assert isinstance(function, ast.FunctionDef)
    _docstring, answer = function.body
    assert isinstance(answer, ast.Return)
    assert answer.value is not None
    text = ast.get_source_segment(textwrap.dedent(inspect.getsource(example)), answer.value)
    assert text is not None
    first, *rest = text.splitlines()
    expression = "\n".join([first, *(line.removeprefix("    ") for line in rest)])
    used = {node.id for node in ast.walk(answer.value) if isinstance(node, ast.Name)}
    return f"{_imports_of(used)}\n\n{name} = {expression}"


def _imports_of(names: set[str]) -> str:
    lines = []
    for node in ast.parse(inspect.getsource(examples)).body:
        wanted = [each for each in getattr(node, "names", ()) if each.name in names]
        if wanted and isinstance(node, ast.ImportFrom):
            lines.append(ast.unparse(ast.ImportFrom(node.module, wanted, 0)))
        elif wanted and isinstance(node, ast.Import):
            lines.append(ast.unparse(ast.Import(wanted)))
    return "\n".join(lines)
